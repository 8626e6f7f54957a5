"""Ranks by counting: the number of wrong items that score above a correct one, plus half of the wrong items tied with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from vsepp.base.declared import TASKS
from vsepp.base.errors import VseppError
from vsepp.evaluation.embedding_scores import EmbeddingScores
from vsepp.evaluation.scores import Pairs, Scores
from vsepp.evaluation.test_set import TestSet
from vsepp.evaluation.truth import Positives, Truth, own_captions


@dataclass(frozen=True, eq=False)
class TaskRanks:
    """Rank of every correct item of each query of one task, 0 is best; halves come from ties."""

    starts: np.ndarray
    """`(n_queries + 1,)` int64: where each query's positives begin."""
    ranks: np.ndarray
    """`(n_positives,)` float64: wrong items above, plus half of the wrong ones tied. Other correct items do not count."""
    images: np.ndarray
    """`(n_queries,)` int64: the image of each query, from 0; images that ask in no task are not counted."""
    fold: int
    """Number of images in a fold. Images of a fold follow each other."""
    tied: np.ndarray | None = None
    """`(n_positives,)` int64: wrong items tied with each positive; `None` of ranks that were kept, which do not tell."""
    depth: int | None = None
    """How many of each query's best items are known; a positive that is not among them has no rank, only one beyond. `None`: all."""

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

    def hits(self, k: int) -> np.ndarray:
        """`(n_queries,)` bool: whether a correct item is among the first k. Tied for first place with one other (rank 0.5) it counts for
        R@1, with two others (rank 1) it does not."""
        return self.best < k

    def tied_at(self, k: int) -> np.ndarray:
        """`(n_queries,)` bool: whether the order of tied items decides if a correct one is among the first k."""
        if self.tied is None:
            return np.zeros(len(self.counts), bool)
        first, last = (
            np.minimum.reduceat(self.ranks + half, self.starts[:-1])
            for half in (-self.tied / 2, self.tied / 2)
        )
        return (first < k) & (last >= k)

    def by_fold(self, values: np.ndarray) -> list[np.ndarray]:
        """Values of the queries, `(n_queries,)`, fold by fold."""
        folds = self.images // self.fold
        return [values[folds == fold] for fold in range(int(folds.max()) + 1)]


Ranks = Mapping[str, TaskRanks]
"""Task → its ranks; a test set without scores of captions among captions has no `t2t`."""


def retrieval_ranks(tested: TestSet, device: Any = None) -> Ranks:
    """Rank every image against every caption, both ways, in one pass over the scores; own captions are the correct items.

    Differs from the released code, where an unstable sort decides ties.

    Parameters
    ----------
    tested
        All images and captions.
    device
        A torch device for embeddings, or `None` for NumPy; see `EmbeddingScores`.
    """
    scores = tested.scores
    if device is not None and isinstance(scores, EmbeddingScores):
        scores = scores.on(device)
    return rank_positives(scores, own_captions(tested.caption_to_image))


def rank_positives(scores: Scores, truth: Truth) -> Ranks:
    """Rank every positive of every query of a truth among all images and captions; see `rank_counts`."""
    return task_ranks(truth, rank_counts(scores, truth), scores.depths)


def rank_counts(scores: Scores, truth: Truth) -> dict[str, np.ndarray]:
    """Count the wrong items above every positive of every query of a truth, in one pass over the scores.

    A rank is the number of wrong items scored above the positive plus half of the wrong ones tied with it, so a collapsed model
    ranks at chance, not at the top. Other positives of the query are not wrong items.

    Parameters
    ----------
    scores
        Scores of all images and captions.
    truth
        By the rows of these images and captions.

    Returns
    -------
    dict
        Task → wrong items above each positive, and those above or tied, int64 `(2, n_positives)`; without tasks that no score tells.
    """
    galleries = dict(zip("it", scores.shape, strict=True))
    i2t, t2i = truth.tasks["i2t"], truth.tasks["t2i"]
    i2t_places, t2i_places = _ranked_places(i2t, galleries["t"]), _ranked_places(t2i, galleries["i"])
    images, captions = i2t.rows[i2t_places], i2t.items[i2t_places]
    i2t_pairs = Pairs(images, captions, scores.pair_scores(images, captions, "i2t"))
    images, captions = t2i.items[t2i_places], t2i.rows[t2i_places]
    t2i_pairs = Pairs(images, captions, scores.pair_scores(images, captions, "t2i"))
    i2t_above, t2i_above = scores.above(i2t_pairs, t2i_pairs)
    # Positives that are not ranked stand behind all items that are.
    counts = {"i2t": np.full((2, len(i2t.items)), galleries["t"])}
    counts["t2i"] = np.full((2, len(t2i.items)), galleries["i"])
    counts["i2t"][:, i2t_places], counts["t2i"][:, t2i_places] = i2t_above, t2i_above
    for task in ("t2t", "i2i"):
        within = scores.among(task) if task in truth.tasks else None
        if within is not None:
            counts[task] = _counts_among(within, truth.tasks[task])
    return counts


def task_ranks(truth: Truth, counts: Mapping[str, np.ndarray], depths: Mapping[str, int]) -> Ranks:
    """Ranks of a truth with their queries, from counts as `rank_counts` gives them, and `Scores.depths`."""
    images = {task: truth.images_of(task) for task in counts}
    asking = np.unique(np.concatenate(list(images.values())))
    fold = len(asking) // len(truth.folds)
    return {
        task: TaskRanks(
            truth.tasks[task].starts,
            (above + above_or_tied) / 2,
            np.searchsorted(asking, images[task]),
            fold,
            tied=above_or_tied - above,
            depth=depths.get(task),
        )
        for task, (above, above_or_tied) in counts.items()
    }


def _ranked_places(positives: Positives, gallery: int) -> np.ndarray:
    """Places of the positives that are in the gallery, ordered by query, then by item."""
    places = np.flatnonzero(positives.items < gallery)
    return places[np.lexsort((positives.items[places], positives.rows[places]))]


def _counts_among(scores: Scores, positives: Positives) -> np.ndarray:
    """Counts of one kind of items among themselves. The query itself is no wrong item: it is scored as one of the positives, then left out."""
    with_query = Positives(
        positives.queries,
        positives.starts + np.arange(len(positives.starts)),
        np.insert(positives.items, positives.starts[1:], positives.queries),
    )
    places = _ranked_places(with_query, scores.shape[1])
    queries, items = with_query.rows[places], with_query.items[places]
    pairs = Pairs(queries, items, scores.pair_scores(queries, items, "i2t"))
    counts = np.empty((2, len(places)), np.int64)
    counts[:, places], _ = scores.above(pairs, Pairs(*(column[:0] for column in pairs)))
    return counts[:, with_query.rows != with_query.items]


def kept_ranks(
    arrays: Mapping[str, np.ndarray],
    protocol: str,
    fold_size: int | None = None,
    depths: Mapping[str, int] | None = None,
) -> Ranks:
    """Ranks under a protocol or of a truth, from the arrays of a `ranks.npz`.

    Parameters
    ----------
    arrays
        Arrays by name, see `vsepp.evaluation.evaluate.Evaluation.arrays`.
    protocol
        Its name.
    fold_size
        Number of images in a fold of a protocol; all by default.
    depths
        Task → `TaskRanks.depth`, of tasks that have one.

    Raises
    ------
    VseppError
        If an array is missing, or the arrays do not fit each other.
    """
    try:
        if f"{protocol}_i2t_starts" in arrays:
            ranks = _kept_of_truth(arrays, protocol)
        else:
            ranks = _kept_of_own(arrays, protocol, fold_size)
    except KeyError as error:
        raise VseppError(
            f"ranks under {protocol}: there is no array {error}; evaluate the model again"
        ) from None
    return {task: replace(kept, depth=(depths or {}).get(task)) for task, kept in ranks.items()}


def _kept_of_own(arrays: Mapping[str, np.ndarray], protocol: str, fold_size: int | None) -> Ranks:
    """Ranks of own captions under a protocol."""
    parts = ("i2t", "i2t_captions", "t2i", "caption_images")
    i2t, i2t_captions, t2i, images = (arrays[f"{protocol}_{part}"] for part in parts)
    fit = images.ndim == 1 and images.dtype.kind in "iu" and len(images) > 0 and images.min(initial=0) >= 0
    if not fit or not t2i.shape == i2t_captions.shape == images.shape:
        raise VseppError(
            f"ranks under {protocol}: t2i, i2t_captions and caption_images, rows from 0, do not have a number for each caption"
        )
    own, fold = Positives.from_pairs(images, np.arange(len(images))), fold_size or len(i2t)
    return {
        "i2t": TaskRanks(own.starts, i2t_captions[own.items], np.arange(len(i2t)), fold),
        "t2i": TaskRanks(np.arange(len(t2i) + 1), t2i, images, fold),
    }


def _kept_of_truth(arrays: Mapping[str, np.ndarray], truth: str) -> Ranks:
    """Ranks of a truth; images are counted from 0, images without a query left out."""
    parts = {
        task: [arrays[f"{truth}_{task}{part}"] for part in ("_starts", "", "_images")]
        for task in TASKS
        if f"{truth}_{task}_starts" in arrays
    }
    asking = np.unique(np.concatenate([images for _, _, images in parts.values()]))
    for task, (starts, ranks, images) in parts.items():
        whole = len(starts) == len(images) + 1 and starts[0] == 0 and starts[-1] == len(ranks)
        if not whole or (np.diff(starts) < 1).any():
            raise VseppError(f"ranks of {truth}, {task}: starts, ranks and images do not fit each other")
    return {
        task: TaskRanks(starts, ranks, np.searchsorted(asking, images), len(asking))
        for task, (starts, ranks, images) in parts.items()
    }
