"""The largest value of each dimension."""

from __future__ import annotations

import torch

from vsepp.models.sets import Plain, padding_of

CITATION = "Chen et al., 2021: Learning the best pooling strategy for visual semantic embedding"


class Pooling(Plain):
    """max_k x_k of each dimension over the vectors of a set; it has no options."""

    def forward(self, values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Sets `(n, k, d)` of `lengths` `(n,)` to `(n, d)`."""
        return values.masked_fill(padding_of(values, lengths), -torch.inf).max(dim=1).values
