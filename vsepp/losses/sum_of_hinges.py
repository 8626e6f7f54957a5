"""Sum of Hinges, the SH loss (Eq. 5): every negative that violates the margin counts."""

from __future__ import annotations

import torch

from vsepp.losses.violations import hinge_costs


def loss(
    scores: torch.Tensor,
    margin: float,
    *,
    queries: int | None = None,
    negatives: torch.Tensor | None = None,
    image_of: torch.Tensor | None = None,
) -> torch.Tensor:
    """SH loss, Eq. 5, summed over the queries and both directions.

    Differs from the paper: Eq. 4 is a mean over pairs; the released code sums, and so do we.

    Parameters
    ----------
    scores, margin, queries, negatives, image_of
        As in `vsepp.losses.violations.hinge_costs`.

    Returns
    -------
    torch.Tensor
        Scalar.
    """
    captions, images = hinge_costs(scores, margin, queries=queries, negatives=negatives, image_of=image_of)
    return captions.sum() + images.sum()
