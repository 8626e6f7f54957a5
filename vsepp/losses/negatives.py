"""Which candidates are negatives of which query, and how similar they are: losses that compare without a margin are made of it.

`vsepp.losses.violations` draws the same lines in its own words: its code is part of what every model of VSE++ was made with, so
it stays as it is.
"""

from __future__ import annotations

import torch

from vsepp.errors import VseppError
from vsepp.losses import WHOLE, Batch


def negatives(
    scores: torch.Tensor, batch: Batch = WHOLE, *, mask_same_image: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """How similar each query is to each candidate, and which candidates are no negatives of it.

    Parameters
    ----------
    scores
        `(n, n)`, `scores[image, caption]`; the pairs lie on the diagonal.
    batch, mask_same_image
        As `vsepp.losses.violations.hinge_costs` takes them.

    Returns
    -------
    tuple[torch.Tensor, torch.Tensor, torch.Tensor]
        `captions[query, candidate]` for the image as query, `images[query, candidate]` for the caption as query, both with at
        least single precision, and `excluded[query, candidate]`, true where the candidate is no negative; each `(queries, m)`.

    Raises
    ------
    VseppError
        If images are to be masked and the batch does not say which they are.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    pairs = torch.arange(len(scores), device=scores.device)
    asked, candidates = pairs[: batch.queries], pairs if batch.negatives is None else batch.negatives
    captions, images = scores[: batch.queries], scores.T[: batch.queries]
    if batch.negatives is not None:
        captions, images = captions[:, candidates], images[:, candidates]
    own, same = asked, candidates
    if mask_same_image:
        if batch.image_rows is None:
            raise VseppError(
                "mask_same_image: batch.image_rows is None; expected each pair's image, int64 (n,)"
            )
        own, same = batch.image_rows[asked], batch.image_rows[candidates]
    return captions, images, own[:, None] == same
