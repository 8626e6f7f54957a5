"""A set's first vector: the state of `[CLS]` of a BERT, or the whole image of ten windows."""

from __future__ import annotations

import torch

from vsepp.models.sets import Plain

CITATION = "Chen et al., 2021: Learning the best pooling strategy for visual semantic embedding"


class Pooling(Plain):
    """x_1; it has no options."""

    def forward(self, values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Sets `(n, k, d)` to `(n, d)`; their `lengths` do not matter."""
        return values[:, 0]
