"""Generalised pooling (GPO): learned weights of a set's values in descending order (VSE∞, Section 3.2).

The weights depend on a set's size alone, and all dimensions share them. Mean, max, k-max and min are special cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from vsepp.base.declared import Count, PositiveFloat
from vsepp.base.placement import upload
from vsepp.models.sets import padding_of

CITATION = "Chen et al., 2021: Learning the best pooling strategy for visual semantic embedding"
BASE = 10_000.0


@dataclass(frozen=True)
class Options:
    """Sizes of the network that gives the weights."""

    code_dim: Count = 32
    """Size of a position's code; an even number. Text: 32. Code: 32."""
    dim: Count = 32
    """Size of the BiGRU's state per direction. Text: 32. Code: 32."""
    temperature: PositiveFloat = 0.1
    """Divides the positions' scores before the softmax. Text: not mentioned. Code: .1."""

    def __post_init__(self) -> None:
        if self.code_dim % 2:
            raise ValueError(
                f"code_dim: got {self.code_dim}; expected an even number: a sine and a cosine a frequency"
            )


class Pooling(nn.Module):
    """Σ_k θ_k x_(k), where x_(1) ≥ x_(2) ≥ … are a set's values of one dimension.

    θ is the softmax over the positions of one linear map of a BiGRU's states, mean of both directions, over sinusoidal codes of
    the positions (Eqs. 3–6). Positions count from 0, as in the released code; the text counts from 1.
    """

    def __init__(self, options: Options = Options()) -> None:
        super().__init__()
        self.code_dim, self.temperature = options.code_dim, options.temperature
        self.gru = nn.GRU(options.code_dim, options.dim, batch_first=True, bidirectional=True)
        self.score = nn.Linear(options.dim, 1, bias=False)

    def forward(self, values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Sets `(n, k, d)` of `lengths` `(n,)` to `(n, d)`, in the precision of its weights, under autocast too."""
        with torch.autocast(values.device.type, enabled=False):
            return weighted(
                values.to(self.score.weight.dtype), lengths, self.weights(lengths, values.shape[1])
            )

    def weights(self, lengths: torch.Tensor, longest: int) -> torch.Tensor:
        """θ of sets of `lengths`, `(n, longest)`; 0 beyond a set's length.

        Computed once for each distinct length.
        """
        distinct, row = (-lengths).unique(return_inverse=True)  # packing wants the longest first
        distinct, device = -distinct, self.score.weight.device
        codes = position_codes(longest, self.code_dim, self.score.weight.dtype)
        codes = upload(codes, device).expand(len(distinct), -1, -1)
        states, _ = self.gru(pack_padded_sequence(codes, distinct, batch_first=True))
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=longest)
        scores = self.score(states.unflatten(2, (2, -1)).mean(dim=2))
        scores = scores.masked_fill(padding_of(scores, distinct), -torch.inf).squeeze(2)
        theta = torch.softmax(scores / self.temperature, dim=1)
        return theta.index_select(0, upload(row, device))


def position_codes(positions: int, dim: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Sinusoidal codes of positions from 0: `(positions, dim)`, sine and cosine of each frequency in turn (Eq. 4)."""
    frequencies = BASE ** (-torch.arange(0, dim, 2, dtype=dtype) / dim)
    angles = torch.arange(positions)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)


def weighted(values: torch.Tensor, lengths: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    """Σ_k θ_k x_(k) of sets `(n, k, d)` of `lengths` `(n,)` with weights `(n, k)` (Eq. 2): `(n, d)`."""
    # Negative, so that ascending is descending and padding comes last; along the last axis, where a sort finds values side by side.
    padding = padding_of(values, lengths)
    rows = (-values).masked_fill(padding, torch.inf).transpose(1, 2).contiguous()
    padding = padding.transpose(1, 2)
    if rows.device.type == "cpu":
        return -_SortedSum.apply(rows, padding, theta)
    ascending = rows.sort(dim=2, stable=True).values.masked_fill(padding, 0.0)
    return -torch.bmm(ascending, theta[:, :, None]).squeeze(2)


class _SortedSum(torch.autograd.Function):
    """Sum of rows `(n, d, k)` in ascending order, weighted by `(n, k)`: `(n, d)`.

    Numpy sorts short rows several times as fast as torch does on a CPU.
    """

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, padding: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
        order = torch.from_numpy(np.argsort(rows.numpy(), axis=2))
        ascending = torch.from_numpy(np.sort(rows.numpy(), axis=2)).masked_fill_(padding, 0.0)
        ctx.save_for_backward(order, ascending, theta)
        return torch.bmm(ascending, theta[:, :, None]).squeeze(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, torch.Tensor]:
        order, ascending, theta = ctx.saved_tensors
        ascending_gradient = gradient[:, :, None] * theta[:, None, :]
        rows_gradient = torch.empty_like(ascending_gradient).scatter_(2, order, ascending_gradient)
        return rows_gradient, None, torch.bmm(gradient[:, None, :], ascending).squeeze(1)
