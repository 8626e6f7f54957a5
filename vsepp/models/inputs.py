"""Images as inputs of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from vsepp.models.poolings.padding import padding_of


@dataclass(frozen=True, eq=False)
class ImageBatch:
    """Images as a model takes them: a vector each, a set of vectors each, or crops for an encoder inside the model."""

    values: torch.Tensor
    """Features `(n, dim)`; sets `(n, k, dim)`, padded by zeros; or uint8 crops `(n, size, size, 3)`."""
    lengths: torch.Tensor | None = None
    """int64 `(n,)` on the CPU, number of vectors of each image, of sets and of crops with `kept`; else `None`."""
    kept: torch.Tensor | None = None
    """int64 `(n, most)`, with crops for an encoder that gives grids: the cells that count, `lengths` of them; `None`: all cells."""

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> ImageBatch:
        """The batch with its `values` and `kept` changed, such as copied to a device."""
        return ImageBatch(change(self.values), self.lengths, None if self.kept is None else change(self.kept))

    def part(self, rows: slice) -> ImageBatch:
        """Some of its images."""
        return ImageBatch(*(tensor[rows] for tensor in self))

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Its tensors, as `JointEmbedding.embed_images` takes them."""
        return (tensor for tensor in (self.values, self.lengths, self.kept) if tensor is not None)


def taken(values: torch.Tensor, kept: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Take the vectors `kept` `(n, most)` of sets `(n, k, dim)`, padded by zeros after `lengths` `(n,)`: `(n, most, dim)`."""
    sets = values.gather(1, kept[:, :, None].expand(-1, -1, values.shape[2]))
    return sets.masked_fill(padding_of(sets, lengths), 0.0)
