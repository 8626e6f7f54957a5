"""The Circle loss on the hardest negative alone, without its relaxed margins."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import softplus

from vsepp.base.declared import PositiveFloat
from vsepp.losses.batch import WHOLE, Batch
from vsepp.losses.common import Triplets

CITATION = (
    "Sun, Cheng, Zhang, Zhang, Zheng, Wang and Wei, 2020: Circle loss: a unified perspective of pair similarity optimization; "
    "on the hardest negative: Xuan and Chen, 2023"
)


@dataclass(frozen=True)
class Options:
    """Options of the loss."""

    tau: PositiveFloat = 10.0
    """τ."""
    offset: float = 0.0
    """Offset added to n² − p(2 − p), as a margin."""


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """log(1 + exp(τ(n² − p(2 − p) + offset))), p of the positive and n of the hardest negative.

    So p is drawn to 1 and n to 0, the more the farther they are. Summed over the queries and both directions; a query
    without negatives costs nothing. See `vsepp.losses.batch` for the arguments.
    """
    triplets = Triplets.from_scores(scores, batch)
    p, n = triplets.positive, triplets.negative
    costs = softplus(options.tau * (n.square() - p * (2 - p) + options.offset))
    return costs.masked_fill(triplets.alone, 0.0).sum()
