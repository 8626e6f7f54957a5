"""A set's first vector: the state of `[CLS]` of a BERT, or the whole image of ten windows."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

CITATION = (
    "Chen, Hu, Wu, Jiang and Wang, 2021: Learning the best pooling strategy for visual semantic embedding"
)


class Pooling(nn.Module):
    """x_1; it has no options."""

    def __init__(self, options: Any = None) -> None:
        super().__init__()

    def forward(self, values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Sets `(n, k, d)` to `(n, d)`; their `lengths` do not matter."""
        return values[:, 0]
