"""The mean of a set's vectors."""

from __future__ import annotations

import torch

from vsepp.base.placement import upload
from vsepp.models.sets import Plain, padding_of

CITATION = "Chen et al., 2021: Learning the best pooling strategy for visual semantic embedding"


class Pooling(Plain):
    """Σ_k x_k / N over the N vectors of each set; it has no options."""

    def forward(self, values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Sets `(n, k, d)` of `lengths` `(n,)` to `(n, d)`."""
        total = values.masked_fill(padding_of(values, lengths), 0.0).sum(dim=1)
        return total / upload(lengths, values.device)[:, None]
