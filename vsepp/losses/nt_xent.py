"""NT-Xent on the hardest negative alone (GOAL, Eq. 6)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import softplus

from vsepp.base.declared import PositiveFloat
from vsepp.losses.batch import WHOLE, Batch
from vsepp.losses.common import Triplets

CITATION = (
    "Goldberger, Roweis, Hinton and Salakhutdinov, 2004: Neighbourhood components analysis; on the hardest "
    "negative: Xuan and Chen, 2023"
)


@dataclass(frozen=True)
class Options:
    """Options of the loss."""

    tau: PositiveFloat = 10.0
    """τ: similarities are multiplied by it."""


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """log(1 + exp(τ(n − p))), p of the positive and n of the hardest negative; see `vsepp.losses.batch` for the arguments.

    Summed over the queries and both directions; a query without negatives costs nothing.
    """
    triplets = Triplets.from_scores(scores, batch)
    costs = softplus(options.tau * (triplets.negative - triplets.positive))
    return costs.masked_fill(triplets.alone, 0.0).sum()
