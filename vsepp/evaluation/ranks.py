"""Ranks by counting: the number of wrong items that score above a correct one, plus half of those tied with it.

Scores are `scores[image, caption]`, always that way round. They are computed and counted part by part, so that no
`(n_images, n_captions)` array is ever in memory. Nothing is sorted: a rank is a count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vsepp.errors import VseppError
from vsepp.evaluation.blocks import EmbeddingScores
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.scores import Pairs, Scores
from vsepp.evaluation.truth import Truth, captions_of, own_captions


@dataclass(frozen=True, eq=False)
class PositiveRanks:
    """Rank of every correct item of each query of one direction, 0 is best; halves come from ties."""

    starts: np.ndarray
    """`(n_queries + 1,)` int64: where each query's positives begin."""
    ranks: np.ndarray
    """`(n_positives,)` float64: wrong items above, plus half of the wrong ones tied. Other correct items are not wrong ones."""
    is_whole: bool = True
    """Whether they are of all positives; of old records the best of each query alone was kept."""

    @classmethod
    def of_best(cls, ranks: np.ndarray, is_whole: bool = False) -> PositiveRanks:
        """Ranks of one positive each query, `(n_queries,)`: the best one, or the only one."""
        return cls(np.arange(len(ranks) + 1), ranks, is_whole)

    @cached_property
    def best(self) -> np.ndarray:
        """`(n_queries,)`: of each query's best positive."""
        return np.minimum.reduceat(self.ranks, self.starts[:-1])

    @cached_property
    def counts(self) -> np.ndarray:
        """`(n_queries,)`: positives of each query."""
        return np.diff(self.starts)

    @cached_property
    def order(self) -> np.ndarray:
        """`(n_positives,)`: the place of each positive among its query's, the best first, from 0."""
        query = np.repeat(np.arange(len(self.counts)), self.counts)
        order = np.empty(len(self.ranks), np.int64)
        order[np.lexsort((self.ranks, query))] = np.arange(len(self.ranks)) - self.starts[query]
        return order

    @cached_property
    def places(self) -> np.ndarray:
        """`(n_positives,)`: the place of each positive among all items, from 0: its rank, and the positives before it."""
        return self.ranks + self.order

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum over the positives of each query, `(n_positives,)` to `(n_queries,)`."""
        return np.add.reduceat(values, self.starts[:-1])


@dataclass(frozen=True, eq=False)
class Ranks:
    """Ranks in both directions."""

    i2t: np.ndarray
    """Caption retrieval: `(n_queries,)` float64, rank of an image's best caption among the wrong ones."""
    t2i: np.ndarray
    """Image retrieval: `(n_queries,)` float64, rank of a caption's best image among the wrong ones."""
    i2t_all: PositiveRanks | None = None
    """Ranks of every positive; `None` where the best alone was kept."""
    t2i_all: PositiveRanks | None = None

    def of(self, direction: str) -> PositiveRanks:
        """Ranks of one direction, `i2t` or `t2i`: of every positive, where they were kept."""
        return getattr(self, f"{direction}_all") or PositiveRanks.of_best(getattr(self, direction))


def rank_positives(scores: Scores, truth: Truth) -> Ranks:
    """Rank every positive of every query of a truth.

    A rank is the number of wrong items scored above the positive plus half of the wrong ones tied with it, so a collapsed model
    ranks at chance, not at the top. Other positives of the query are not wrong items.

    Raises
    ------
    VseppError
        If the truth names what is not ranked.
    """
    truth.require_within(*scores.shape)
    i2t, t2i = truth.i2t, truth.t2i
    sought = [
        Pairs(images, captions, scores.of(images, captions, direction))
        for direction, images, captions in (("i2t", i2t.rows, i2t.items), ("t2i", t2i.items, t2i.rows))
    ]
    found = [
        PositiveRanks(positives.starts, twice / 2)
        for positives, twice in zip((i2t, t2i), scores.above(*sought), strict=True)
    ]
    return Ranks(found[0].best, found[1].best, *found)


def retrieval_ranks(embeddings: Embeddings, device: Any = None) -> Ranks:
    """Rank every image against every caption, both ways, in one pass over the scores; own captions are the correct items.

    Differs from the released code, where an unstable sort decides ties.

    Parameters
    ----------
    embeddings
        Of all images and captions.
    device
        A torch device, or `None` for NumPy; see `EmbeddingScores`.
    """
    return rank_positives(EmbeddingScores(embeddings, device), own_captions(embeddings.caption_to_image))


def kept_ranks(arrays: Mapping[str, np.ndarray], protocol: str) -> Ranks:
    """Ranks of own captions under a protocol, from the arrays of a `ranks.npz`.

    Those of each caption for its image are not in evaluations that are older than they.

    Raises
    ------
    KeyError
        If another one is missing.
    VseppError
        If they do not fit each other.
    """
    i2t, t2i, images = (arrays[f"{protocol}_{part}"] for part in ("i2t", "t2i", "caption_images"))
    i2t_captions = arrays.get(f"{protocol}_i2t_captions")
    fit = images.ndim == 1 and images.dtype.kind in "iu" and len(images) > 0 and images.min(initial=0) >= 0
    if not fit or any(ranks.shape != images.shape for ranks in (t2i, i2t_captions) if ranks is not None):
        raise VseppError(
            f"ranks under {protocol}: t2i, i2t_captions and caption_images, rows from 0, do not have a number for each caption"
        )
    if i2t_captions is None:
        return Ranks(i2t, t2i, None, PositiveRanks.of_best(t2i, is_whole=True))
    return own_ranks(t2i, i2t_captions, images)


def own_ranks(t2i: np.ndarray, i2t_captions: np.ndarray, caption_images: np.ndarray) -> Ranks:
    """Ranks of own captions, from what is kept of them, `(n_captions,)` each.

    Parameters
    ----------
    t2i
        Rank of each caption's image.
    i2t_captions
        Rank of each caption for its image.
    caption_images
        Row of each caption's image.
    """
    positives = captions_of(caption_images)
    i2t = PositiveRanks(positives.starts, i2t_captions[positives.items])
    return Ranks(i2t.best, t2i, i2t, PositiveRanks.of_best(t2i, is_whole=True))


def by_caption(ranks: Ranks, caption_images: np.ndarray) -> np.ndarray:
    """Rank of each caption for its image, `(n_captions,)` in the order of the captions: what `own_ranks` takes apart by image."""
    found = np.empty(len(caption_images))
    found[captions_of(caption_images).items] = ranks.of("i2t").ranks
    return found
