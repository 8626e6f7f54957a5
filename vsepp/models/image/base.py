"""What every image encoder is: a cut network with the scaling of its input."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from vsepp.errors import VseppError
from vsepp.models.image.compiled import compile_network, explained
from vsepp.spec import EncoderSpec

_MEMORY_FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


class CutNetwork(NamedTuple):
    """A classification network without its classifier, as a family's `build` returns it."""

    network: nn.Module
    """Pixels `(n, 3, size, size)` to features `(n, dim)`."""
    dim: int
    """D_φ of Eq. 1."""
    removed: tuple[str, ...] = ()
    """Prefixes of the parameters that a whole network's weights have and the cut one has not."""


class ImageEncoder(nn.Module):
    """φ(i; θ_φ) of Eq. 1: an image's feature, from the penultimate layer of a classification network.

    Parameters
    ----------
    spec
        Gives the scaling of the input, the memory format, and whether the network is compiled.
    cut
        The network itself; its parameters keep their names, whatever the spec says.
    """

    def __init__(self, spec: EncoderSpec, cut: CutNetwork) -> None:
        super().__init__()
        self.spec = spec
        self._memory_format = _MEMORY_FORMATS[spec.memory_format]
        self.network = cut.network.to(memory_format=self._memory_format)
        if spec.compile != "off":
            compile_network(self.network, spec)
        self.dim = cut.dim
        self.removed = cut.removed
        # Constants of the spec, so not part of the weights.
        scale = torch.tensor(spec.std, dtype=torch.float64) * 255
        offset = torch.tensor(spec.mean, dtype=torch.float64) * 255
        self.register_buffer("_offset", offset.float().view(1, 3, 1, 1), persistent=False)
        self.register_buffer("_scale", scale.float().view(1, 3, 1, 1), persistent=False)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._offset.device

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Normalised pixels `(n, 3, size, size)`, as `normalise` returns them, to features `(n, dim)`.

        Raises
        ------
        VseppError
            When the network is to be compiled and cannot be.
        """
        if self.spec.compile == "off":
            return self.network(pixels)
        with explained(self.spec, pixels.device):
            features = self.network(pixels)
        # What a CUDA graph returns is overwritten by its next replay.
        return features.clone() if self.spec.compile == "cuda_graphs" else features

    def normalise(self, crops: torch.Tensor) -> torch.Tensor:
        """Scale crops as the network expects them: `(x/255 - mean) / std` per channel.

        Parameters
        ----------
        crops
            uint8 `(n, height, width, 3)` or `(n, 3, height, width)`, RGB.

        Returns
        -------
        torch.Tensor
            float32 `(n, 3, height, width)` on the crops' device, in the spec's memory format whichever way the
            crops came, so that equal crops give equal bits.
        """
        if crops.dtype != torch.uint8 or crops.dim() != 4 or 3 not in (crops.shape[1], crops.shape[3]):
            raise VseppError(
                f"{self.spec.architecture}: expected uint8 crops (n, size, size, 3) or (n, 3, size, size), "
                f"got {crops.dtype} {tuple(crops.shape)}"
            )
        offset, scale = self._offset.to(crops.device), self._scale.to(crops.device)
        if self._memory_format is torch.channels_last:
            # Whole lines of pixels at once: three channels at a time take a CPU six times as long.
            by_pixel = (crops if crops.shape[3] == 3 else crops.permute(0, 2, 3, 1)).contiguous()
            width = by_pixel.shape[2]
            lines = by_pixel.flatten(2).to(torch.float32)
            lines.sub_(offset.flatten().repeat(width)).div_(scale.flatten().repeat(width))
            return lines.unflatten(2, (width, 3)).permute(0, 3, 1, 2)
        by_channel = crops.permute(0, 3, 1, 2) if crops.shape[3] == 3 else crops
        pixels = by_channel.to(torch.float32, memory_format=torch.contiguous_format)
        return pixels.sub_(offset).div_(scale)
