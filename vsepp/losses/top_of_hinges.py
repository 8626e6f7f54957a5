"""The k hardest negatives of each query: between MH (k = 1) and SH (all)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vsepp.base.declared import Count, PositiveFloat
from vsepp.losses.batch import WHOLE, Batch
from vsepp.losses.common import hinge_costs, rows_for_mask

CITATION = "Fan, Lyu, Ying and Hu, 2017: Learning with average top-k loss"
needs = rows_for_mask


@dataclass(frozen=True)
class Options:
    """Options of the k largest violations."""

    margin: PositiveFloat = 0.2
    """α."""
    k: Count = 5
    """Number of hardest negatives that count; with fewer candidates all count."""
    mask_same_image: bool = False
    """Do not use captions of a query's own image, or that image, as its negatives."""


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """Sum of the k largest violations of the margin, summed over the queries and both directions.

    With k = 1 it is MH (Eq. 6). With k at or above the number of candidates it is SH (Eq. 5), so a short last batch is no
    error. Of equally hard negatives at the k-th place, one receives the gradient. Differs from the source: the k largest
    violations of each query count, not of the training set, and they are summed, as in SH and MH, not averaged.

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
    k = min(options.k, captions.shape[1])
    return captions.topk(k, dim=1).values.sum() + images.topk(k, dim=1).values.sum()
