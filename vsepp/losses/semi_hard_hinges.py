"""The hardest semi-hard negative of each query: within the margin, but not above the positive."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vsepp.base.declared import PositiveFloat
from vsepp.losses.batch import WHOLE, Batch
from vsepp.losses.common import hinge_costs, rows_for_mask

CITATION = "Schroff, Kalenichenko and Philbin, 2015: FaceNet: a unified embedding for face recognition and clustering"
needs = rows_for_mask


@dataclass(frozen=True)
class Options:
    """Options of semi-hard negatives."""

    margin: PositiveFloat = 0.2
    """α."""
    mask_same_image: bool = False
    """Do not use captions of a query's own image, or that image, as its negatives."""


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """Violation by the hardest negative that is no more similar than the positive, summed over queries and both directions.

    A query without such a negative costs nothing. So a query costs at most α in each direction, and has no gradient if all its
    negatives lie above its positive. Differs from the source, Eq. 4: there a negative as similar as the positive is not
    semi-hard; here it is, so that a model with equal similarities everywhere has a gradient and costs α per query and direction,
    as with MH. The source may take any semi-hard negative; here the hardest counts.

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
    mask = options.mask_same_image
    costs = hinge_costs(scores, options.margin, batch, mask_same_image=mask)
    # Without a margin, only negatives above the positive cost anything, to the last bit.
    above = hinge_costs(scores.detach(), 0.0, batch, mask_same_image=mask)
    captions, images = (cost.masked_fill(harder > 0, 0.0) for cost, harder in zip(costs, above, strict=True))
    return captions.max(dim=1).values.sum() + images.max(dim=1).values.sum()
