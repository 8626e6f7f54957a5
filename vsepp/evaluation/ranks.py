"""Ranks by counting: the number of wrong items that score above a correct one, plus half of the wrong items tied with it.

Scores are `scores[image, caption]`, always that way round. They are computed and counted part by part, so that no
`(n_images, n_captions)` array is ever in memory. Nothing is sorted: a rank is a count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from vsepp.base.declared import TASKS
from vsepp.base.errors import VseppError
from vsepp.evaluation.blocks import EmbeddingScores
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.scores import BestLists, Pairs, ScoredSet, ScoreMatrix, Scores
from vsepp.evaluation.truth import Truth, captions_of, own_captions


@dataclass(frozen=True, eq=False)
class PositiveRanks:
    """Rank of every correct item of each query of one direction, 0 is best; halves come from ties."""

    starts: np.ndarray
    """`(n_queries + 1,)` int64: where each query's positives begin."""
    ranks: np.ndarray
    """`(n_positives,)` float64: wrong items above, plus half of the wrong ones tied. Other correct items do not count."""
    is_whole: bool = True
    """Whether ranks of all positives are there; old records kept only the best of each query."""
    images: np.ndarray | None = None
    """`(n_queries,)` int64: the image of each query, from 0; `None` where every image and every caption is a query, in their order."""

    @classmethod
    def of_best(cls, ranks: np.ndarray, is_whole: bool = False) -> PositiveRanks:
        """Ranks of one positive per query, `(n_queries,)`: the best or the only one."""
        return cls(np.arange(len(ranks) + 1), ranks, is_whole)

    @cached_property
    def best(self) -> np.ndarray:
        """`(n_queries,)`: rank of each query's best positive."""
        return np.minimum.reduceat(self.ranks, self.starts[:-1])

    @cached_property
    def counts(self) -> np.ndarray:
        """`(n_queries,)`: number of positives of each query."""
        return np.diff(self.starts)

    @cached_property
    def order(self) -> np.ndarray:
        """`(n_positives,)`: the place of each positive among its query's positives, the best first, from 0."""
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
    """Ranks of every positive; `None` where only the best was kept."""
    t2i_all: PositiveRanks | None = None
    within: Mapping[str, PositiveRanks] = field(default_factory=dict)
    """Ranks of `t2t` and `i2i`, for truths that have these tasks."""

    @property
    def n_images(self) -> int:
        """Number of images that ask, or have a caption that asks: a bootstrap draws among them."""
        judged = (self.i2t_all, self.t2i_all, *self.within.values())
        asking = [int(each.images.max()) + 1 for each in judged if each and each.images is not None]
        return max(asking, default=len(self.i2t))

    def of(self, task: str) -> PositiveRanks:
        """Ranks of one task: of every positive, where they were kept.

        Raises
        ------
        VseppError
            If the task is retrieval among captions or among images, and was not evaluated.
        """
        if task in ("i2t", "t2i"):
            return getattr(self, f"{task}_all") or PositiveRanks.of_best(getattr(self, task))
        if task not in self.within:
            raise VseppError(f"{task}: not evaluated; `vsepp evaluate --truth cxc` does, of embeddings")
        return self.within[task]


def rank_positives(scores: Scores, truth: Truth) -> Ranks:
    """Rank every positive of every query of a truth.

    A rank is the number of wrong items scored above the positive plus half of the wrong ones tied with it, so a collapsed model
    ranks at chance, not at the top. Other positives of the query are not wrong items.

    Raises
    ------
    VseppError
        If the truth names images or captions that are not ranked.
    """
    truth.require_within(*scores.shape)
    i2t, t2i = truth.i2t, truth.t2i
    # Correct items that are not ranked stand behind all ranked items.
    there = i2t.items < scores.shape[1]
    images, captions = i2t.rows[there], i2t.items[there]
    of_images, of_captions = scores.above(
        Pairs(images, captions, scores.of(images, captions, "i2t")),
        Pairs(t2i.items, t2i.rows, scores.of(t2i.items, t2i.rows, "t2i")),
    )
    twice = np.full(len(there), 2 * scores.shape[1])
    twice[there] = of_images
    of_i2t = PositiveRanks(i2t.starts, twice / 2)
    of_t2i = PositiveRanks(t2i.starts, of_captions / 2)
    return Ranks(of_i2t.best, of_t2i.best, of_i2t, of_t2i)


def scores_of(
    tested: Embeddings | ScoredSet, device: Any = None
) -> EmbeddingScores | ScoreMatrix | BestLists:
    """The scores of a test set; `device` is for embeddings, see `EmbeddingScores`."""
    return tested.scores if isinstance(tested, ScoredSet) else EmbeddingScores(tested, device)


def retrieval_ranks(tested: Embeddings | ScoredSet, device: Any = None) -> Ranks:
    """Rank every image against every caption, both ways, in one pass over the scores; own captions are the correct items.

    Differs from the released code, where an unstable sort decides ties.

    Parameters
    ----------
    tested
        All images and captions.
    device
        A torch device, or `None` for NumPy; see `EmbeddingScores`.
    """
    return rank_positives(scores_of(tested, device), own_captions(tested.caption_to_image))


def kept_ranks(arrays: Mapping[str, np.ndarray], protocol: str) -> Ranks:
    """Ranks under a protocol or of a truth, from the arrays of a `ranks.npz`.

    Older evaluations lack the ranks of each caption for its image.

    Raises
    ------
    KeyError
        If another array is missing.
    VseppError
        If the arrays do not fit each other.
    """
    if f"{protocol}_i2t_starts" in arrays:
        return _judged_ranks(arrays, protocol)
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


def _judged_ranks(arrays: Mapping[str, np.ndarray], truth: str) -> Ranks:
    """Ranks of a truth; images are counted from 0, images without a query left out."""
    parts = {
        task: [arrays[f"{truth}_{task}{part}"] for part in ("_starts", "", "_images")]
        for task in TASKS
        if f"{truth}_{task}_starts" in arrays
    }
    asking = np.unique(np.concatenate([images for _, _, images in parts.values()]))
    found = {}
    for task, (starts, ranks, images) in parts.items():
        whole = len(starts) == len(images) + 1 and starts[0] == 0 and starts[-1] == len(ranks)
        if not whole or (np.diff(starts) < 1).any():
            raise VseppError(f"ranks of {truth}, {task}: starts, ranks and images do not fit each other")
        found[task] = PositiveRanks(starts, ranks, images=np.searchsorted(asking, images))
    i2t, t2i = found.pop("i2t"), found.pop("t2i")
    return Ranks(i2t.best, t2i.best, i2t, t2i, found)


def own_ranks(t2i: np.ndarray, i2t_captions: np.ndarray, caption_images: np.ndarray) -> Ranks:
    """Ranks of own captions, from the kept arrays, `(n_captions,)` each.

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
    """Rank of each caption for its image, `(n_captions,)` in the order of the captions: `i2t_captions` of `own_ranks`."""
    found = np.empty(len(caption_images))
    found[captions_of(caption_images).items] = ranks.of("i2t").ranks
    return found
