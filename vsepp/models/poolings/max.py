"""The largest value of each dimension."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vsepp.models.poolings.padding import padding_of

CITATION = (
    "Chen, Hu, Wu, Jiang and Wang, 2021: Learning the best pooling strategy for visual semantic embedding"
)


class Pooling(nn.Module):
    """max_k x_k of each dimension over the vectors of a set; it has no options."""

    def __init__(self, options: Any = None) -> None:
        super().__init__()

    def forward(self, values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Sets `(n, k, d)` of `lengths` `(n,)` to `(n, d)`."""
        return values.masked_fill(padding_of(values, lengths), -torch.inf).max(dim=1).values
