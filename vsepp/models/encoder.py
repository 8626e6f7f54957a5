"""Image encoders, networks cut at their penultimate layer: how they are made, imported, saved and loaded.

An encoder is named `<family>/<architecture>`; a family is a component, a module of `vsepp.models.image`. Families are
imported on demand, so that torchvision is loaded only if one of its networks is used.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.files import reading
from vsepp.base.spec import EncoderSpec
from vsepp.models import weights

WEIGHTS = "encoder.safetensors"
DESCRIPTION = "encoder.json"


class CutNetwork(NamedTuple):
    """A classification network without its classifier, as a family's `build` returns it."""

    network: nn.Module
    """Pixels `(n, 3, size, size)` to features `(n, dim)`."""
    dim: int
    """D_φ of Eq. 1."""
    removed: tuple[str, ...] = ()
    """Prefixes of parameters that the whole network has and the cut one lacks."""

    def put(self, file: Path, owner: str, name: str = "") -> None:
        """Load a file with the weights of the whole or the cut network; arguments and errors as of `weights.read` and `weights.put`."""
        state = weights.read(file, name)
        state = {key: value for key, value in state.items() if not key.startswith(self.removed)}
        weights.put(self.network, state, file, owner)


class ImageEncoder(nn.Module):
    """φ(i; θ_φ) of Eq. 1: an image's feature, from the penultimate layer of a classification network.

    Parameters
    ----------
    spec
        Gives the scaling of the input.
    cut
        The network; its parameters keep their names.
    grid
        Give the cells of the last map before the network pools them.

    Raises
    ------
    VseppError
        If a grid is asked for and the network ends with no global average.
    """

    _offset: torch.Tensor
    _scale: torch.Tensor

    def __init__(self, spec: EncoderSpec, cut: CutNetwork, *, grid: bool = False) -> None:
        super().__init__()
        self.grid = grid
        if grid:
            _without_last_pooling(cut.network, spec)
        self.spec = spec
        self.network = cut.network.to(memory_format=torch.channels_last)
        self.dim = cut.dim
        # Constants of the spec, so not part of the weights.
        for name, values in (("_offset", spec.mean), ("_scale", spec.std)):
            scaled = torch.tensor([255 * value for value in values], dtype=torch.float32)
            self.register_buffer(name, scaled, persistent=False)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Normalised pixels `(n, 3, size, size)`, as `normalise` returns them, to features `(n, dim)`, or grids `(n, cells, dim)`."""
        features = self.network(pixels)
        return features.flatten(1).unflatten(1, (self.dim, -1)).transpose(1, 2) if self.grid else features

    def vectors(self) -> int:
        """Number of vectors of a crop: one, or the cells of a grid."""
        if not self.grid:
            return 1
        size = self.spec.input_size
        with torch.inference_mode():
            return self(self._offset.new_zeros((1, 3, size, size))).shape[1]

    def normalise(self, crops: torch.Tensor) -> torch.Tensor:
        """Scale crops as the network expects them: `(x/255 - mean) / std` per channel.

        Parameters
        ----------
        crops
            uint8 `(n, height, width, 3)`, RGB.

        Returns
        -------
        torch.Tensor
            `(n, 3, height, width)` in the precision of the weights, on the crops' device, channels last.
        """
        # Whole lines of pixels at once: three channels at a time would take a CPU six times as long.
        width = crops.shape[2]
        lines = crops.flatten(2).to(self._offset.dtype)
        offset, scale = (values.to(crops.device).repeat(width) for values in (self._offset, self._scale))
        pixels = lines.sub_(offset).div_(scale).unflatten(2, (width, 3)).permute(0, 3, 1, 2)
        return pixels.contiguous(memory_format=torch.channels_last)


def _without_last_pooling(network: nn.Module, spec: EncoderSpec) -> None:
    """Remove the global average at the end of a network."""
    poolings = [
        (name, module) for name, module in network.named_modules() if isinstance(module, nn.AdaptiveAvgPool2d)
    ]
    if not poolings or poolings[-1][1].output_size not in (1, (1, 1)):
        raise VseppError(
            f"encoder {spec.name!r}: {spec.architecture} has no global average at its end, so it gives no grid; take one like "
            "resnet152, or leave out image_pooling"
        )
    network.set_submodule(poolings[-1][0], _Unpooled())


class _Unpooled(nn.Module):
    """The last map unchanged; contiguous, since networks flatten their pooling's output by `view`."""

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        return maps.contiguous()


def build_encoder(spec: EncoderSpec, *, grid: bool = False) -> ImageEncoder:
    """Make an encoder with random weights, drawn under the caller's torch seed; `grid` as in `ImageEncoder`.

    Raises
    ------
    VseppError
        If the family or the architecture does not exist; the message lists the existing ones.
    """
    family, name = family_of(spec)
    cut = family.build(name, spec.input_size, components.options("image encoder", spec.family))
    return ImageEncoder(spec, cut, grid=grid)


def family_of(spec: EncoderSpec) -> tuple[ModuleType, str]:
    """Module and network that `<family>/<name>` names; VseppError if there is no such network."""
    family, _, name = spec.architecture.partition("/")
    module = components.load("image encoder", family)
    known = module.architectures()
    if name not in known:
        raise VseppError(f"encoder {spec.architecture!r}: {family} has no {name!r}, but {', '.join(known)}")
    return module, name


def import_encoder(spec: EncoderSpec, file: Path | None, out: Path) -> dict[str, Any]:
    """Write an encoder with imported weights, as `import_weights` makes it; returns facts for the manifest."""
    encoder = import_weights(spec, file)
    save_encoder(encoder, out)
    return {"dim": encoder.dim}


def import_weights(spec: EncoderSpec, file: Path | None = None) -> ImageEncoder:
    """Make an encoder with the weights that `spec.weights` names.

    `torchvision/<entry>` and `pip` are published weights, `random` draws them under the caller's torch seed; `scenes` and
    `file/<name>` are a file with the weights of the whole or the cut network. No pickle is executed.

    Parameters
    ----------
    spec
        The encoder.
    file
        Path of the file (.pth, .pt or .safetensors): of `scenes`, `vsepp.shipped.encoder_weights`. It is not part of the spec, so that
        the same weights in another place give the same encoder.

    Raises
    ------
    VseppError
        If the source does not exist, cannot be read, holds another network's weights, or does not have the
        SHA-256 that its name promises.
    """
    source, _, name = spec.weights.partition("/")
    family, architecture = family_of(spec)
    options = components.options("image encoder", spec.family)
    if source not in ("random", "file", "scenes"):
        return ImageEncoder(spec, family.published(architecture, spec.weights, spec.input_size, options))
    cut: CutNetwork = family.build(architecture, spec.input_size, options)
    if source != "random":
        assert file is not None  # the plan names it
        cut.put(file, repr(spec.architecture), Path(name).name)
    return ImageEncoder(spec, cut)


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


def load_encoder(spec: EncoderSpec, folder: Path, *, grid: bool = False) -> ImageEncoder:
    """Read an encoder that `save_encoder` wrote; `grid` as in `ImageEncoder`.

    Raises
    ------
    VseppError
        If the weights are missing or damaged, or are another network's than the spec's.
    """

    def build(shapes: weights.Shapes) -> ImageEncoder:
        return build_encoder(spec, grid=grid)

    return weights.load(folder / WEIGHTS, build, repr(spec.architecture), prefix="network.")


def encoder_dim(folder: Path) -> int:
    """D_φ of an encoder that `save_encoder` wrote, without reading its weights; VseppError if its description is missing or damaged."""
    path = folder / DESCRIPTION
    with reading(path, f"an encoder's description; delete {folder}, and run the step that makes it again"):
        return int(json.loads(path.read_text(encoding="utf-8"))["dim"])
