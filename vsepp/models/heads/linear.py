"""The linear map W_f of an image's vector (Eq. 1), or of each vector of its set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from vsepp.base.run_spec import ModelSpec


class ImageHead(nn.Linear):
    """W_f, with a bias where the spec says so.

    Parameters
    ----------
    feature_dim
        D_φ, size of the CNN's feature.
    spec
        The model's spec.
    options
        The head has none.
    """

    def __init__(self, feature_dim: int, spec: ModelSpec, options: Any = None) -> None:
        super().__init__(feature_dim, spec.joint_dim, bias=spec.image_bias)

    def initialise(self) -> None:
        """Xavier's uniform distribution; a bias of zero."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, features: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        """Features `(n, D_φ)`, or sets of them `(n, k, D_φ)`, to `(n, D)` or `(n, k, D)`."""
        return super().forward(features)

    @staticmethod
    def feature_dim(weights: Mapping[str, torch.Tensor]) -> int:
        """D_φ of trained weights."""
        return weights["weight"].shape[1]
