"""Max of Hinges, the MH loss (Eq. 6): the hardest negative alone counts. The loss of VSE++."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vsepp.base.declared import Fraction, PositiveFloat
from vsepp.losses.batch import WHOLE, Batch, first_epoch_after
from vsepp.losses.common import hinge_costs, rows_for_mask

CITATION = "Faghri et al., 2018: VSE++: improving visual-semantic embeddings with hard negatives"
needs = rows_for_mask


@dataclass(frozen=True)
class Options:
    """Options of the MH loss."""

    margin: PositiveFloat = 0.2
    """α."""
    mask_same_image: bool = False
    """Do not use captions of a query's own image, or that image, as its negatives."""
    curriculum: Fraction = 0.0
    """Part of the epochs, from the first, that are trained with SH (Section 3.5)."""


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """MH loss, Eq. 6, summed over the queries and both directions; SH, Eq. 5, while the curriculum lasts.

    A query without negatives costs nothing; of equally hard negatives, one receives the gradient.
    Differs from the paper: Eq. 4 is a mean over pairs; the released code sums, and so do we.

    Parameters
    ----------
    scores
        `(n, n)`, `scores[image, caption]`, with the pairs on the diagonal.
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
    if batch.epoch < first_epoch_after(options.curriculum, batch.epochs):
        return captions.sum() + images.sum()
    return captions.max(dim=1).values.sum() + images.max(dim=1).values.sum()
