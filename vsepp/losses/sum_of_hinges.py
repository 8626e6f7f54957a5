"""Sum of Hinges, the SH loss (Eq. 5): every negative that violates the margin counts. The loss of VSE0."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vsepp.base.declared import PositiveFloat
from vsepp.losses.batch import WHOLE, Batch
from vsepp.losses.common import hinge_costs, rows_for_mask

CITATION = "Kiros, Salakhutdinov and Zemel, 2014: Unifying visual-semantic embeddings with multimodal neural language models"
needs = rows_for_mask


@dataclass(frozen=True)
class Options:
    """Options of the SH loss."""

    margin: PositiveFloat = 0.2
    """α."""
    mask_same_image: bool = False
    """Do not use captions of a query's own image, or that image, as its negatives."""


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """SH loss, Eq. 5, summed over the queries and both directions.

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
    return captions.sum() + images.sum()
