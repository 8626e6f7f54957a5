"""The multi-similarity loss of image-caption pairs: all near negatives count, by how near they are beside the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch.nn.functional import softplus

from vsepp.base.declared import PositiveFloat
from vsepp.losses.batch import WHOLE, Batch
from vsepp.losses.common import Triplets

CITATION = "Wang, Han, Huang, Dong and Scott, 2019: Multi-similarity loss with general pair weighting for deep metric learning"


@dataclass(frozen=True)
class Options:
    """Options of the loss; the defaults are GOAL's, not the citation's."""

    alpha: PositiveFloat = 2.0
    """α."""
    beta: PositiveFloat = 10.0
    """β."""
    threshold: float = 0.5
    """λ."""
    epsilon: Annotated[float, Field(ge=0)] = 0.1
    """ε: a negative counts if it comes this close to the positive; the positive counts if some negative does."""


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """log(1 + exp(−α(p − λ)))/α + log(1 + Σ exp(β(n − λ)))/β over the negatives n > p − ε, where there are any.

    Differs from the citation: a query has one positive, and the loss is summed over the queries and both directions, not
    averaged. See `vsepp.losses.batch` for the arguments.
    """
    triplets = Triplets.from_scores(scores, batch)
    # Written so that a NaN counts, and is seen.
    mined = ~(triplets.excluded | (triplets.candidates <= triplets.positive[:, None] - options.epsilon))
    far = softplus(-options.alpha * (triplets.positive - options.threshold)) / options.alpha
    exponents = (options.beta * (triplets.candidates - options.threshold)).masked_fill(~mined, -torch.inf)
    # log(1 + Σ exp) without overflow: 1 is the exponential of a further exponent, 0.
    near = torch.cat([torch.zeros_like(far)[:, None], exponents], dim=1).logsumexp(dim=1) / options.beta
    return (far + near).masked_fill(~mined.any(dim=1), 0.0).sum()
