"""Images and captions as sets of vectors, and images as inputs of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from vsepp.base.placement import upload


def padding_of(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Which vectors of `(n, k, d)` are padding: bool `(n, k, 1)` on the values' device; `lengths` int64 `(n,)` are on the CPU."""
    return upload(torch.arange(values.shape[1]) >= lengths[:, None], values.device)[:, :, None]


class Sets(NamedTuple):
    """Sets of vectors on one device, and a mask that is false at padding."""

    values: torch.Tensor
    """`(n, k, d)`."""
    mask: torch.Tensor
    """bool `(n, k)`."""

    @classmethod
    def from_lengths(cls, values: torch.Tensor, lengths: torch.Tensor) -> Sets:
        """Make sets of values `(n, k, d)` and lengths int64 `(n,)` on the CPU."""
        return cls(values, ~padding_of(values, lengths).squeeze(2))

    def take(self, rows: torch.Tensor) -> Sets:
        """The sets at rows int64 `(m,)`."""
        return Sets(self.values[rows], self.mask[rows])


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
        """The images of a range."""
        lengths, kept = (None if tensor is None else tensor[rows] for tensor in (self.lengths, self.kept))
        return ImageBatch(self.values[rows], lengths, kept)


def take_vectors(values: torch.Tensor, kept: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Take the vectors `kept` `(n, most)` of sets `(n, k, dim)`, padded by zeros after `lengths` `(n,)`: `(n, most, dim)`."""
    sets = values.gather(1, kept[:, :, None].expand(-1, -1, values.shape[2]))
    return sets.masked_fill(padding_of(sets, lengths), 0.0)


class Plain(nn.Module):
    """A pooling that has no options."""

    def __init__(self, options: Any = None) -> None:
        super().__init__()
