"""The residual map of regions' features (VSE∞): y = A x + C ReLU(BN(B x)) of each region."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import batch_norm

from vsepp.base.declared import Count
from vsepp.base.run_spec import ModelSpec
from vsepp.models.heads import linear
from vsepp.models.sets import padding_of

CITATION = "Chen et al., 2021: Learning the best pooling strategy for visual semantic embedding"
BATCH_STATISTICS = True


@dataclass(frozen=True)
class Options:
    """What batch normalisation counts."""

    norm_pads: bool = True
    """The padding of sets counts in the means and variances of a training batch. Text: not mentioned. Code: it counts."""
    norm_parts: Count = 1
    """Equal parts of a training batch, each normalised with its own means and variances; the running ones are of the first. Text: not
    mentioned. Code: 4 with BERT, one a GPU; with the BiGRU 1."""


class ImageHead(nn.Module):
    """A and a map of two layers beside it; batch normalisation lies between them.

    Parameters
    ----------
    feature_dim
        D_φ, size of a region's feature.
    spec
        The model's spec: A has a bias where `image_bias` says so; the hidden layer has half of `joint_dim`.
    options
        See `Options`.
    """

    def __init__(self, feature_dim: int, spec: ModelSpec, options: Options = Options()) -> None:
        super().__init__()
        hidden = spec.joint_dim // 2
        self.norm_pads, self.norm_parts = options.norm_pads, options.norm_parts
        self.straight = linear.ImageHead(feature_dim, spec)  # A
        self.inner = nn.Linear(feature_dim, hidden)  # B
        self.norm = nn.BatchNorm1d(hidden)
        self.outer = nn.Linear(hidden, spec.joint_dim)  # C

    def initialise(self) -> None:
        """A: Xavier's uniform distribution and a bias of zero; the other layers keep torch's weights."""
        self.straight.initialise()

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Sets `(n, k, D_φ)` of `lengths` `(n,)` to `(n, k, D)`."""
        inner = self.inner(features)
        if self.training:
            parts = zip(inner.chunk(self.norm_parts), lengths.chunk(self.norm_parts), strict=True)
            normed = torch.cat([self._normed(*part, first=not place) for place, part in enumerate(parts)])
        else:
            normed = self.norm(inner.flatten(0, 1)).unflatten(0, inner.shape[:2])
        return self.straight(features) + self.outer(torch.relu(normed))

    def _normed(self, inner: torch.Tensor, lengths: torch.Tensor, *, first: bool) -> torch.Tensor:
        """A part of a training batch, normalised; the first one moves the running means and variances."""
        norm = self.norm

        def normed_rows(rows: torch.Tensor) -> torch.Tensor:
            if first:
                return norm(rows)
            return batch_norm(rows, None, None, norm.weight, norm.bias, training=True, eps=norm.eps)

        if self.norm_pads:
            return normed_rows(inner.flatten(0, 1)).unflatten(0, inner.shape[:2])
        mask = ~padding_of(inner, lengths).squeeze(2)
        normed = torch.zeros_like(inner)
        normed[mask] = normed_rows(inner[mask]).to(inner.dtype)
        return normed

    @staticmethod
    def feature_dim(weights: Mapping[str, torch.Tensor]) -> int:
        """D_φ of trained weights."""
        return weights["straight.weight"].shape[1]
