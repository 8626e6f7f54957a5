"""Image encoders, named `<family>/<architecture>`: a family is a module of this package with a `build`.

Families are imported when they are asked for, so that torchvision is loaded only where one of its networks is
used, and so that an edit of one family concerns only the runs that use it.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from vsepp.components import component
from vsepp.errors import VseppError
from vsepp.models.image.base import CutNetwork, ImageEncoder
from vsepp.spec import EncoderSpec

__all__ = [
    "CutNetwork",
    "ImageEncoder",
    "build_encoder",
    "encoder_dim",
    "family_of",
    "load_encoder",
    "load_state",
    "save_encoder",
]

WEIGHTS = "encoder.safetensors"
DESCRIPTION = "encoder.json"


def build_encoder(spec: EncoderSpec) -> ImageEncoder:
    """Make an encoder with random weights, drawn under the caller's torch seed.

    Raises
    ------
    VseppError
        When the family or the architecture does not exist, with a list of what does.
    """
    family, name = family_of(spec.architecture)
    return ImageEncoder(spec, family.build(name, spec.input_size))


def family_of(architecture: str) -> tuple[ModuleType, str]:
    """Module and name within it that `<family>/<name>` means; VseppError when there is no such network."""
    family, _, name = architecture.partition("/")
    component(__name__, family, "build")
    module = importlib.import_module(f"{__name__}.{family}")
    known = module.architectures()
    if name not in known:
        raise VseppError(f"encoder {architecture!r}: {family} has no {name!r}; it has {', '.join(known)}")
    return module, name


def save_encoder(encoder: ImageEncoder, folder: Path) -> None:
    """Write `encoder.safetensors` (the cut network's state) and `encoder.json` (`dim`, ...) into a folder."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = {key: value.detach().cpu().contiguous() for key, value in encoder.network.state_dict().items()}
    save_file(state, folder / WEIGHTS)
    spec = encoder.spec
    description = {
        "architecture": spec.architecture,
        "dim": encoder.dim,
        "input_size": spec.input_size,
        "mean": list(spec.mean),
        "std": list(spec.std),
        "weights": spec.weights,
    }
    text = json.dumps(description, indent=1, sort_keys=True) + "\n"
    (folder / DESCRIPTION).write_text(text, encoding="utf-8")


def load_encoder(spec: EncoderSpec, folder: Path) -> ImageEncoder:
    """Read an encoder that `save_encoder` wrote.

    Raises
    ------
    VseppError
        When the folder is incomplete or holds another architecture than the spec names.
    """
    from safetensors.torch import load_file

    _description(spec, folder)
    encoder = build_encoder(spec)
    load_state(encoder, load_file(folder / WEIGHTS), folder / WEIGHTS)
    return encoder


def encoder_dim(spec: EncoderSpec, folder: Path) -> int:
    """D_φ of an encoder that `save_encoder` wrote, without reading its weights; refuses what `load_encoder` does."""
    return int(_description(spec, folder)["dim"])


def _description(spec: EncoderSpec, folder: Path) -> dict[str, Any]:
    """What an encoder's folder says of it, if it is whole and of the spec's architecture."""
    for name in (DESCRIPTION, WEIGHTS):
        if not (folder / name).is_file():
            raise VseppError(f"{folder / name}: missing; run the step that makes encoder {spec.name!r} again")
    description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    if description["architecture"] != spec.architecture:
        raise VseppError(
            f"{folder}: holds {description['architecture']!r}, expected {spec.architecture!r} for encoder "
            f"{spec.name!r}; run the step that makes it again"
        )
    return description


def load_state(encoder: ImageEncoder, state: dict[str, torch.Tensor], source: object) -> None:
    """Put a network's weights into an encoder; those of the removed classifier are left out.

    Files that were saved before torch 0.4.1 have no counts of batch normalisation's batches; no feature depends
    on them, and the encoder keeps its own.

    Raises
    ------
    VseppError
        Naming the parameters that are missing, unknown or of another shape; nothing is changed then.
    """
    state = {key: value for key, value in state.items() if not key.startswith(encoder.removed or ("\0",))}
    own = encoder.network.state_dict()
    state = {key: value for key, value in own.items() if key.endswith("num_batches_tracked")} | state
    problems = {
        "missing": sorted(set(own) - set(state)),
        "unknown": sorted(set(state) - set(own)),
        "of another shape": sorted(k for k in own.keys() & state.keys() if own[k].shape != state[k].shape),
    }
    if any(problems.values()):
        said = "; ".join(f"{what}: {_some(keys)}" for what, keys in problems.items() if keys)
        raise VseppError(f"{source}: not the weights of {encoder.spec.architecture!r}: {said}")
    encoder.network.load_state_dict(state)


def _some(keys: list[str]) -> str:
    more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
    return ", ".join(keys[:8]) + more
