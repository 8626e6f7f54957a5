"""Similarities of the negatives of a batch: losses that compare without a margin are made of them."""

from __future__ import annotations

import torch

from vsepp.losses import WHOLE, Batch
from vsepp.losses.violations import hinge_costs


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
        `captions[query, candidate]` for the image as query, `images[query, candidate]` for the caption as query, and
        `excluded[query, candidate]`, true where the candidate is no negative; each `(queries, m)`. The similarities have at
        least single precision; where `excluded` is true they mean nothing.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    # What a negative is, `hinge_costs` decides. Against a positive that lies below all scores every negative costs something,
    # namely how far it lies above that positive.
    low = scores.detach().amin() - 1
    captions, images = hinge_costs(
        scores.diagonal_scatter(low.expand(len(scores))), 0.0, batch, mask_same_image=mask_same_image
    )
    return captions + low, images + low, captions == 0
