"""The hardest negative of every query: GOAL and the losses that GOAL takes apart are made of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vsepp.losses import Batch
from vsepp.losses.violations import negatives


@dataclass(frozen=True)
class Triplets:
    """The 2q queries of a batch, q images and then their q captions, each with its positive and its m candidates.

    Similarities are fp32 or wider, with gradient.
    """

    positive: torch.Tensor
    """`(2q,)`, p: the similarity of a query and its positive."""
    negative: torch.Tensor
    """`(2q,)`, n: the similarity of a query and its hardest negative; 0 where it has none."""
    candidates: torch.Tensor
    """`(2q, m)`, the similarities of a query and its candidates for negatives."""
    own: torch.Tensor
    """bool `(2q, m)`: the candidate is the query's own pair, which is no negative of it."""
    hardest: torch.Tensor
    """int64 `(2q,)`, position of the hardest negative among the candidates; one of them, if several are equally hard."""
    alone: torch.Tensor
    """bool `(2q,)`: the query has no negatives."""


def triplets(scores: torch.Tensor, batch: Batch) -> Triplets:
    """Find the hardest negatives of the batch's queries, in both directions.

    Parameters
    ----------
    scores
        `(n, n)`, `scores[image, caption]`; the pairs lie on the diagonal.
    batch
        Its queries, and m candidates for negatives.
    """
    captions, images, excluded = negatives(scores, batch)
    both, own = torch.cat([captions, images]), excluded.repeat(2, 1)
    alone = own.all(dim=1)
    negative, hardest = both.masked_fill(own, -torch.inf).max(dim=1)
    positive = scores.diagonal()[: batch.queries].to(both.dtype).repeat(2)
    return Triplets(positive, negative.masked_fill(alone, 0.0), both, own, hardest, alone)
