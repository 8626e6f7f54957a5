"""The mean of the k largest values of each dimension."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from vsepp.base.declared import Count
from vsepp.base.placement import upload
from vsepp.models.sets import padding_of

CITATION = "Chen et al., 2021: Learning the best pooling strategy for visual semantic embedding"


@dataclass(frozen=True)
class Options:
    """How many values count."""

    k: Count = 5
    """Number of the largest values; a smaller set counts whole."""


class Pooling(nn.Module):
    """Mean of the k largest values of each dimension (VSE∞, Table 1: K-Max)."""

    def __init__(self, options: Options = Options()) -> None:
        super().__init__()
        self.k = options.k

    def forward(self, values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Sets `(n, k, d)` of `lengths` `(n,)` to `(n, d)`."""
        k = min(self.k, values.shape[1])
        largest = values.masked_fill(padding_of(values, lengths), -torch.inf).topk(k, dim=1).values
        counted = lengths.clamp(max=k)
        total = largest.masked_fill(padding_of(largest, counted), 0.0).sum(dim=1)
        return total / upload(counted, values.device)[:, None]
