"""The padding of sets that are stacked to one tensor, and the base of poolings without options."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vsepp.base.placement import upload


def padding_of(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Which vectors of `(n, k, d)` are padding: bool `(n, k, 1)` on the values' device; `lengths` int64 `(n,)` are on the CPU."""
    return upload(torch.arange(values.shape[1]) >= lengths[:, None], values.device)[:, :, None]


class Plain(nn.Module):
    """A pooling that has no options."""

    def __init__(self, options: Any = None) -> None:
        super().__init__()
