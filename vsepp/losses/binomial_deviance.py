"""Binomial deviance on the hardest negative alone: positive and negative count each for itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import softplus

from vsepp.base.declared import PositiveFloat
from vsepp.losses.batch import WHOLE, Batch
from vsepp.losses.common import Triplets

CITATION = "Yi, Lei and Li, 2014: Deep metric learning for person re-identification; on the hardest negative: Xuan and Chen, 2023"


@dataclass(frozen=True)
class Options:
    """Options of the loss."""

    alpha: PositiveFloat = 2.0
    """α: how steeply a far positive costs more."""
    beta: PositiveFloat = 10.0
    """β: how steeply a near negative costs more."""
    threshold: float = 0.5
    """λ, the similarity between far and near."""


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """log(1 + exp(−α(p − λ)))/α + log(1 + exp(β(n − λ)))/β, p of the positive and n of the hardest negative.

    Summed over the queries and both directions; a query without negatives costs nothing. See `vsepp.losses.batch` for the
    arguments.
    """
    triplets = Triplets.from_scores(scores, batch)
    far = softplus(-options.alpha * (triplets.positive - options.threshold)) / options.alpha
    near = softplus(options.beta * (triplets.negative - options.threshold)) / options.beta
    return (far + near).masked_fill(triplets.alone, 0.0).sum()
