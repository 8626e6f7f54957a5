"""Hinge costs of the negatives of a batch: both losses of the paper are made of them."""

from __future__ import annotations

import torch

from vsepp.errors import VseppError
from vsepp.losses import WHOLE, Batch


def hinge_costs(
    scores: torch.Tensor, margin: float, batch: Batch = WHOLE, *, mask_same_image: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """How much each negative violates the margin of each query: the brackets [·]₊ of Eqs. 5 and 6.

    A pair is never its own negative. Candidates are the batch, a subset of it, or more pairs than the batch (Section 3.6).

    Parameters
    ----------
    scores
        `(n, n)`, `scores[image, caption]`; the pairs lie on the diagonal.
    margin
        α.
    batch
        Its queries, and m candidates for negatives.
    mask_same_image
        Do not use captions of a query's own image, or that image, as its negatives; otherwise two captions of one image
        are negatives of each other.

    Returns
    -------
    tuple[torch.Tensor, torch.Tensor]
        `captions[query, negative]` = [α − s(i, c) + s(i, ĉ)]₊ for the image as query, and
        `images[query, negative]` = [α − s(i, c) + s(î, c)]₊ for the caption as query; each `(queries, m)`,
        0 where the candidate is not a negative.

    Raises
    ------
    VseppError
        If images are to be masked and the batch does not say which they are.
    """
    pairs = torch.arange(len(scores), device=scores.device)
    asked = pairs if batch.queries is None else pairs[: batch.queries]
    if batch.negatives is None:
        candidates, of_image, of_caption = pairs, scores[asked], scores.T[asked]
    else:
        candidates = batch.negatives
        of_image = scores[asked[:, None], candidates]
        of_caption = scores.T[asked[:, None], candidates]
    own, same = asked, candidates
    if mask_same_image:
        if batch.image_rows is None:
            raise VseppError(
                "mask_same_image: batch.image_rows is None; expected each pair's image, int64 (n,)"
            )
        own, same = batch.image_rows[asked], batch.image_rows[candidates]
    excluded = own[:, None] == same
    positive = scores.diagonal()[: len(asked), None]

    def costs(negative: torch.Tensor) -> torch.Tensor:
        return torch.relu(margin - positive + negative).masked_fill(excluded, 0.0)

    return costs(of_image), costs(of_caption)
