"""Which candidates are negatives of which query, how similar they are, and how much they violate a margin.

All losses over the pairs of a batch are made of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from vsepp.base.errors import VseppError
from vsepp.losses.batch import WHOLE, Batch


def rows_for_mask(options: Any) -> tuple[str, ...]:
    """What a loss with the option `mask_same_image` needs to know about the pairs: its `needs`."""
    return ("image_rows",) if options.mask_same_image else ()


def positives(scores: torch.Tensor, batch: Batch) -> torch.Tensor:
    """How similar each query is to its own pair, `(queries,)`."""
    return scores.diagonal()[: batch.queries]


class Negatives(NamedTuple):
    """How similar queries are to candidates for negatives, each `(queries, m)`."""

    captions: torch.Tensor
    """`captions[query, candidate]` for the image as query, at least in single precision."""
    images: torch.Tensor
    """`images[query, candidate]` for the caption as query, likewise."""
    excluded: torch.Tensor
    """bool: the candidate is no negative of the query."""


def negatives(scores: torch.Tensor, batch: Batch, *, mask_same_image: bool = False) -> Negatives:
    """How similar each query is to each candidate, and which candidates are no negatives of it.

    A pair is never its own negative. Candidates are the batch, a subset of it, or more pairs than the batch (Section 3.6).

    Parameters
    ----------
    scores
        `(n, n)`, `scores[image, caption]`, with the pairs on the diagonal.
    batch
        Its queries, and m candidates for negatives.
    mask_same_image
        Do not use captions of a query's own image, or that image, as its negatives; otherwise two captions of one image
        are negatives of each other.

    Raises
    ------
    VseppError
        If `mask_same_image` is set and the batch has no `image_rows`.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    captions, images = scores[: batch.queries], scores.T[: batch.queries]
    candidates = torch.arange(len(scores), device=scores.device)
    own = candidates[: batch.queries]
    if batch.negatives is not None:
        candidates = batch.negatives
        captions, images = captions[:, candidates], images[:, candidates]
    if mask_same_image:
        if batch.image_rows is None:
            raise VseppError("mask_same_image: expected batch.image_rows, the image of each pair, int64 (n,)")
        own, candidates = batch.image_rows[own], batch.image_rows[candidates]
    return Negatives(captions, images, own[:, None] == candidates)


def hinge_costs(
    scores: torch.Tensor, margin: float, batch: Batch = WHOLE, *, mask_same_image: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """How much each negative violates the margin of each query: the brackets [·]₊ of Eqs. 5 and 6.

    Parameters
    ----------
    scores, batch, mask_same_image
        As `negatives` takes them.
    margin
        α.

    Returns
    -------
    tuple[torch.Tensor, torch.Tensor]
        `captions[query, negative]` = [α − s(i, c) + s(i, ĉ)]₊ for the image as query, and
        `images[query, negative]` = [α − s(i, c) + s(î, c)]₊ for the caption as query; each `(queries, m)`,
        0 where the candidate is not a negative.

    Raises
    ------
    VseppError
        If `mask_same_image` is set and the batch has no `image_rows`.
    """
    captions, images, excluded = negatives(scores, batch, mask_same_image=mask_same_image)
    positive = positives(scores, batch)[:, None]

    def costs(negative: torch.Tensor) -> torch.Tensor:
        return torch.relu(margin - positive + negative).masked_fill(excluded, 0.0)

    return costs(captions), costs(images)


@dataclass(frozen=True)
class Triplets:
    """The 2q queries of a batch, q images and then their q captions, each with its positive and its hardest negative.

    Similarities are fp32 or wider, with gradient.
    """

    positive: torch.Tensor
    """`(2q,)`, p: the similarity of a query and its positive."""
    negative: torch.Tensor
    """`(2q,)`, n: the similarity of a query and its hardest negative; 0 where it has none."""
    alone: torch.Tensor
    """bool `(2q,)`: the query has no negatives."""
    candidates: torch.Tensor
    """`(2q, m)`, the similarities of a query and its candidates for negatives."""
    excluded: torch.Tensor
    """bool `(2q, m)`: the candidate is the query's own pair, which is no negative of it."""
    hardest: torch.Tensor
    """int64 `(2q,)`, position of the hardest negative among the candidates; one of them, if several are equally hard."""

    @classmethod
    def from_scores(cls, scores: torch.Tensor, batch: Batch) -> Triplets:
        """Find the hardest negatives of the batch's queries, in both directions; arguments as of `negatives`."""
        captions, images, excluded = negatives(scores, batch)
        candidates, excluded = torch.cat([captions, images]), excluded.repeat(2, 1)
        alone = excluded.all(dim=1)
        negative, hardest = candidates.masked_fill(excluded, -torch.inf).max(dim=1)
        positive = positives(scores, batch).to(candidates.dtype).repeat(2)
        return cls(positive, negative.masked_fill(alone, 0.0), alone, candidates, excluded, hardest)
