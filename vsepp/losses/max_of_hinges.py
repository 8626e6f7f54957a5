"""Max of Hinges, the MH loss (Eq. 6): the hardest negative alone counts. The loss of VSE++."""

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
    """MH loss, Eq. 6, summed over the queries and both directions.

    A query without a negative costs nothing; of equally hard negatives one receives the gradient.
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
    return captions.max(dim=1).values.sum() + images.max(dim=1).values.sum()
