"""What a model is given of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class ImageBatch:
    """Images as a model takes them: a vector each, a set of vectors each, or crops for an encoder inside the model."""

    values: torch.Tensor
    """Features `(n, dim)`; sets `(n, k, dim)`, padded by zeros; or uint8 crops `(n, size, size, 3)`."""
    lengths: torch.Tensor | None = None
    """int64 `(n,)` on the CPU, number of vectors of each image; `None` unless `values` are sets."""

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> ImageBatch:
        """The batch with its values changed, such as copied to a device."""
        return ImageBatch(change(self.values), self.lengths)

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Its tensors, the values first."""
        return iter((self.values,) if self.lengths is None else (self.values, self.lengths))
