"""What every image encoder is: a cut network with the scaling of its input."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from vsepp.errors import VseppError
from vsepp.spec import EncoderSpec


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
        Gives the scaling of the input.
    cut
        The network itself.
    """

    def __init__(self, spec: EncoderSpec, cut: CutNetwork) -> None:
        super().__init__()
        self.spec = spec
        # On a CPU the mini encoders run three times as fast in this layout, and GPUs prefer it too.
        self.network = cut.network.to(memory_format=torch.channels_last)
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
        """Normalised pixels `(n, 3, size, size)`, as `normalise` returns them, to features `(n, dim)`."""
        return self.network(pixels)

    def normalise(self, crops: torch.Tensor) -> torch.Tensor:
        """Scale crops as the network expects them: `(x/255 - mean) / std` per channel.

        Parameters
        ----------
        crops
            uint8 `(n, height, width, 3)` or `(n, 3, height, width)`, RGB.

        Returns
        -------
        torch.Tensor
            float32 `(n, 3, height, width)` on the crops' device, in channels-last memory whichever way the
            crops came, so that equal crops give equal bits.
        """
        if crops.dtype != torch.uint8 or crops.dim() != 4 or 3 not in (crops.shape[1], crops.shape[3]):
            raise VseppError(
                f"{self.spec.architecture}: expected uint8 crops (n, size, size, 3) or (n, 3, size, size), "
                f"got {crops.dtype} {tuple(crops.shape)}"
            )
        if crops.shape[3] == 3:
            crops = crops.permute(0, 3, 1, 2)
        pixels = crops.to(torch.float32, memory_format=torch.channels_last)
        return pixels.sub_(self._offset.to(pixels.device)).div_(self._scale.to(pixels.device))
