"""Violations weighted by a soft-max: between MH (low temperature) and SH (high temperature)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vsepp.base.declared import PositiveFloat
from vsepp.losses.batch import WHOLE, Batch
from vsepp.losses.common import hinge_costs, rows_for_mask

CITATION = "Oh Song et al., 2016: Deep metric learning via lifted structured feature embedding"
needs = rows_for_mask


@dataclass(frozen=True)
class Options:
    """Options of the soft maximum of violations."""

    margin: PositiveFloat = 0.2
    """α."""
    temperature: PositiveFloat = 0.05
    """τ, in units of similarity: violations that differ by much more than it do not share the gradient."""
    mask_same_image: bool = False
    """Do not use captions of a query's own image, or that image, as its negatives."""


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """Soft maximum of the violations of the margin, summed over the queries and both directions.

    A query whose negatives violate the margin by cⱼ costs τ log(1 + Σⱼ (exp(cⱼ/τ) − 1)). Its gradient weighs each violation by
    exp(cⱼ/τ), up to a common factor: a soft-max. Negatives without a violation add nothing, and a single violation costs as
    much as in SH and MH. The value lies between MH (Eq. 6), its limit for τ → 0, and SH (Eq. 5), its limit for τ → ∞. Differs
    from the source, which smooths the hardest negative by a log-sum-exp before the margin is applied: here after it.

    Parameters
    ----------
    scores
        `(n, n)`, `scores[image, caption]`; the pairs lie on the diagonal.
    options
        See `Options`.
    batch
        What is known about the pairs; see `vsepp.losses.common.hinge_costs`.

    Returns
    -------
    torch.Tensor
        Scalar.
    """
    captions, images = hinge_costs(scores, options.margin, batch, mask_same_image=options.mask_same_image)
    return _soft_max(captions, options.temperature) + _soft_max(images, options.temperature)


def _soft_max(costs: torch.Tensor, temperature: float) -> torch.Tensor:
    scaled = costs / temperature
    # Any shift gives the same value; this one keeps every exponential at most 1.
    shift = scaled.detach().amax(dim=1)
    # exp(x − m) (1 − exp(−x)) is exp(x − m) − exp(−m) without a difference of nearly equal numbers.
    total = -((scaled - shift[:, None]).exp() * torch.expm1(-scaled)).sum(dim=1)
    return temperature * (shift + torch.log1p(torch.expm1(-shift) + total)).sum()
