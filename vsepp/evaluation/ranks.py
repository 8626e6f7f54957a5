"""Ranks by counting: the number of wrong items that score above a correct one, plus half of the wrong items tied with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from vsepp.base.declared import TASKS
from vsepp.base.errors import VseppError
from vsepp.evaluation.paper import CUTS, PAPER
from vsepp.evaluation.scores import EmbeddingScores, Pairs, Scores
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
    whole: bool = True
    """Whether ranks of all positives are there; old records kept only the best of each query."""
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

    def found(self, k: int) -> np.ndarray:
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


# --- The paper's metrics -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DirectionMetrics:
    """The paper's metrics of one task. Nothing is rounded. NaN: lists of the best are too short for it."""

    r1: float
    """R@1: percentage of queries with a rank below 1."""
    r5: float
    """R@5, percent."""
    r10: float
    """R@10, percent."""
    medr: float
    """Med r, 1 is best: the floor of the median of the ranks from 0, plus 1, as in the released code; a mean of whole numbers for several
    folds."""
    meanr: float
    """Mean r, 1 is best."""

    @classmethod
    def of_folds(cls, ranks: TaskRanks) -> list[DirectionMetrics]:
        """The metrics of each fold."""
        folds = [[metric.factor * value for value in metric.by_fold(ranks)] for metric in PAPER.values()]
        return [cls(**dict(zip(PAPER, values, strict=True))) for values in zip(*folds, strict=True)]


@dataclass(frozen=True)
class RetrievalMetrics:
    """The paper's metrics of all tasks."""

    i2t: DirectionMetrics
    """Caption retrieval."""
    t2i: DirectionMetrics
    """Image retrieval."""
    t2t: DirectionMetrics | None = None
    """Caption → caption, under truths that have it."""
    i2i: DirectionMetrics | None = None
    """Image → image, likewise."""

    @property
    def rsum(self) -> float:
        """Sum of the six recalls of both directions; 600 is best. NaN without one of them."""
        return sum(side.r1 + side.r5 + side.r10 for side in (self.i2t, self.t2i))

    @property
    def recalls(self) -> dict[str, float]:
        """`i2t_r1`, …, `t2i_r10` and `rsum`, as histories of training hold them."""
        sides = {"i2t": self.i2t, "t2i": self.t2i}
        found = {f"{task}_{key}": getattr(sides[task], key) for task in sides for key in ("r1", "r5", "r10")}
        return {**found, "rsum": self.rsum}

    def to_dict(self) -> dict[str, Any]:
        """All tasks that there are, and rsum, as `metrics.json` holds them, without what is NaN."""
        tasks = {task: _known(found) for task, found in asdict(self).items() if found}
        return {**tasks, **_known({"rsum": self.rsum})}


def _known(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if not math.isnan(value)}


def metrics_of_folds(ranks: Ranks) -> list[RetrievalMetrics]:
    """The paper's metrics of each fold."""
    tasks = {task: DirectionMetrics.of_folds(of_task) for task, of_task in ranks.items()}
    return [
        RetrievalMetrics(**dict(zip(tasks, fold, strict=True))) for fold in zip(*tasks.values(), strict=True)
    ]


def retrieval_metrics(ranks: Ranks) -> RetrievalMetrics:
    """The paper's metrics: the mean over the folds of each metric, Med r included."""
    tasks = {task: [astuple(fold) for fold in DirectionMetrics.of_folds(of)] for task, of in ranks.items()}
    means = {task: DirectionMetrics(*np.mean(folds, axis=0).tolist()) for task, folds in tasks.items()}
    return RetrievalMetrics(**means)


def chance_rsum(
    n_images: float,
    n_captions: float,
    positives: Sequence[Any] | None = None,
    cuts: Sequence[Sequence[int]] = (CUTS, CUTS),
) -> float:
    """rsum for a ranking by chance, or the sum of some of its recalls.

    Parameters
    ----------
    n_images, n_captions
        Number of images and of captions in a fold.
    positives
        For each direction, number of positives of each query, `(n_queries,)`; by default own captions, equally many for all
        images.
    cuts
        For each direction, the K of each recall that is added up.
    """
    of_images, of_captions = positives or (n_captions / n_images, 1.0)
    rsum = 0.0
    for counts, gallery, some in zip((of_images, of_captions), (n_captions, n_images), cuts, strict=True):
        for k in some:
            # None of a query's positives among the first k.
            left = gallery - np.arange(min(k, int(gallery)))
            missed = np.prod(1 - np.minimum(1, np.divide.outer(counts, left)), axis=-1)
            rsum += 100.0 * (1 - float(np.mean(missed)))
    return rsum


# --- Ranking -------------------------------------------------------------------------------------------------------


def retrieval_ranks(tested: TestSet, device: Any = None) -> Ranks:
    """Rank every image against every caption, both ways, in one pass over the scores; own captions are the correct items.

    Differs from the released code, where an unstable sort decides ties.

    Parameters
    ----------
    tested
        All images and captions.
    device
        A torch device for embeddings, or `None` for NumPy; see `vsepp.evaluation.scores.EmbeddingScores`.
    """
    scores = tested.scores
    if device is not None and isinstance(scores, EmbeddingScores):
        scores = scores.on(device)
    return rank(scores, own_captions(tested.caption_to_image))


def rank(scores: Scores, truth: Truth) -> Ranks:
    """Rank every positive of every query of a truth among all images and captions; see `rank_each`."""
    (ranks,) = rank_each(scores, [truth])
    return task_ranks(truth, ranks, scores.depths)


def rank_each(scores: Scores, truths: Sequence[Truth]) -> list[dict[str, np.ndarray]]:
    """Rank every positive of every query of some truths, in one pass over the scores.

    A rank is the number of wrong items scored above the positive plus half of the wrong ones tied with it, so a collapsed model
    ranks at chance, not at the top. Other positives of the query are not wrong items.

    Parameters
    ----------
    scores
        Scores of all images and captions.
    truths
        Truths by the rows of these images and captions.

    Returns
    -------
    list
        For each truth, task → of its positives the wrong items above, and those above or tied, int64 `(2, n_positives)`; without tasks
        that no score tells.

    Raises
    ------
    VseppError
        If a truth names images or captions that are not ranked.
    """
    n_images, n_captions = scores.shape
    for truth in truths:
        _require_ranked(truth, {"i": n_images, "t": n_captions})
    i2t = _Asked([truth.tasks["i2t"] for truth in truths], n_captions)
    t2i = _Asked([truth.tasks["t2i"] for truth in truths], n_images)
    of_i2t = Pairs(i2t.queries, i2t.items, scores.of(i2t.queries, i2t.items, "i2t"))
    of_t2i = Pairs(t2i.items, t2i.queries, scores.of(t2i.items, t2i.queries, "t2i"))
    above = scores.above(of_i2t, of_t2i)
    found = {"i2t": i2t.counts(of_i2t.scores, above[0]), "t2i": t2i.counts(of_t2i.scores, above[1])}
    counts = [{task: found[task][number] for task in found} for number in range(len(truths))]
    for task in ("t2t", "i2i"):
        asking = [number for number, truth in enumerate(truths) if task in truth.tasks]
        within = scores.among(task) if asking else None
        if within is not None:
            of_task = _counts_among(within, [truths[number].tasks[task] for number in asking])
            for number, of_truth in zip(asking, of_task, strict=True):
                counts[number][task] = of_truth
    return counts


def task_ranks(truth: Truth, counts: Mapping[str, np.ndarray], depths: Mapping[str, int]) -> Ranks:
    """Ranks of a truth with their queries, from counts as `rank_each` gives them, and `Scores.depths`."""
    images = {task: truth.images_of(task) for task in counts}
    asking = np.unique(np.concatenate(list(images.values())))
    fold = len(asking) // len(truth.folds)
    return {
        task: TaskRanks(
            truth.tasks[task].starts,
            of_task.sum(axis=0) / 2,
            np.searchsorted(asking, images[task]),
            fold,
            tied=of_task[1] - of_task[0],
            depth=depths.get(task),
        )
        for task, of_task in counts.items()
    }


def _require_ranked(truth: Truth, counts: Mapping[str, int]) -> None:
    """Refuse a truth with rows of images or captions that there are not; the correct captions of images may be absent."""
    for task, each in truth.tasks.items():
        more = truth.absent if task == "i2t" else 0
        for rows, kind, absent in ((each.queries, task[0], 0), (each.items, task[2], more)):
            outside = rows[(rows < 0) | (rows >= counts[kind] + absent)]
            if len(outside):
                name = {"i": "image", "t": "caption"}[kind]
                raise VseppError(
                    f"truth {truth.name}, {task}: {name} row {outside[0]} is not among the {counts[kind]} that are ranked "
                    f"({len(outside)} rows are not); take a truth of this test set"
                )


class _Asked:
    """The positives of several truths in one task, each pair once: what a pass over the scores counts for all of them.

    Parameters
    ----------
    positives
        Of each truth.
    gallery
        Number of items; positives beyond it are not ranked, and stand behind all that are.
    """

    def __init__(self, positives: Sequence[Positives], gallery: int) -> None:
        self._gallery = gallery
        self._there = [each.items < gallery for each in positives]
        keys = [
            each.rows[there] * gallery + each.items[there]
            for each, there in zip(positives, self._there, strict=True)
        ]
        every = np.unique(np.concatenate(keys))
        self._places = [np.searchsorted(every, of_truth) for of_truth in keys]
        self.queries, self.items = np.divmod(every, gallery)
        """`(n,)`, ordered by query, then by item."""

    def counts(self, scores: np.ndarray, above: np.ndarray) -> list[np.ndarray]:
        """Wrong items above each truth's positives, and those above or tied, `(2, n_positives)` each.

        Parameters
        ----------
        scores
            `(n,)`, of the pairs.
        above
            `(2, n)`, the same counts of items that are a positive of the pair's query under no truth.
        """
        # Under a truth, positives of the other truths are wrong items.
        above = above + _above_in_group(self.queries, scores)
        found = []
        for there, places in zip(self._there, self._places, strict=True):
            of_truth = np.full((2, len(there)), self._gallery)
            of_truth[:, there] = above[:, places] - _above_in_group(self.queries[places], scores[places])
            found.append(of_truth)
        return found


def _above_in_group(groups: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Number of scores of its group above each score, and of those above or tied, itself among them: int64 `(2, n)`."""
    order = np.lexsort((-scores, groups))
    groups, scores = groups[order], scores[order]
    new_group = np.r_[True, groups[1:] != groups[:-1]]
    new_score = new_group | np.r_[True, scores[1:] != scores[:-1]]
    # Of each score, where its group begins, and where the scores that equal it begin and end.
    group, first = (
        np.maximum.accumulate(np.where(new, np.arange(len(new)), 0)) for new in (new_group, new_score)
    )
    ends = np.append(np.flatnonzero(new_score)[1:], len(new_score))
    last = ends[np.cumsum(new_score) - 1]
    counts = np.empty((2, len(order)), np.int64)
    counts[:, order] = first - group, last - group
    return counts


def _counts_among(scores: Scores, positives: Sequence[Positives]) -> list[np.ndarray]:
    """Counts of one kind of items among themselves. The query itself is no wrong item: it is scored as one of the positives, then left out."""
    with_query = [
        Positives(
            each.queries,
            each.starts + np.arange(len(each.starts)),
            np.insert(each.items, each.starts[1:], each.queries),
        )
        for each in positives
    ]
    asked = _Asked(with_query, scores.shape[1])
    pairs = Pairs(asked.queries, asked.items, scores.of(asked.queries, asked.items, "i2t"))
    above, _ = scores.above(pairs, Pairs(*(values[:0] for values in pairs)))
    found = asked.counts(pairs.scores, above)
    return [counts[:, each.rows != each.items] for counts, each in zip(found, with_query, strict=True)]


# --- Files ---------------------------------------------------------------------------------------------------------


def kept_ranks(
    arrays: Mapping[str, np.ndarray],
    protocol: str,
    fold_size: int | None = None,
    depths: Mapping[str, int] | None = None,
) -> Ranks:
    """Ranks under a protocol or of a truth, from the arrays of a `ranks.npz`.

    Older evaluations lack the ranks of each caption for its image.

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
    KeyError
        If another array is missing.
    VseppError
        If the arrays do not fit each other.
    """
    of_truth = f"{protocol}_i2t_starts" in arrays
    found = _kept_of_truth(arrays, protocol) if of_truth else _kept_of_own(arrays, protocol, fold_size)
    return {task: replace(of_task, depth=(depths or {}).get(task)) for task, of_task in found.items()}


def _kept_of_own(arrays: Mapping[str, np.ndarray], protocol: str, fold_size: int | None) -> Ranks:
    """Ranks of own captions under a protocol."""
    i2t, t2i, images = (arrays[f"{protocol}_{part}"] for part in ("i2t", "t2i", "caption_images"))
    i2t_captions = arrays.get(f"{protocol}_i2t_captions")
    fit = images.ndim == 1 and images.dtype.kind in "iu" and len(images) > 0 and images.min(initial=0) >= 0
    if not fit or any(ranks.shape != images.shape for ranks in (t2i, i2t_captions) if ranks is not None):
        raise VseppError(
            f"ranks under {protocol}: t2i, i2t_captions and caption_images, rows from 0, do not have a number for each caption"
        )
    every, fold = np.arange(len(i2t)), fold_size or len(i2t)
    of_images = TaskRanks(np.arange(len(i2t) + 1), i2t, every, fold, whole=False)
    if i2t_captions is not None:
        own = Positives.of_pairs(images, np.arange(len(images)))
        of_images = TaskRanks(own.starts, i2t_captions[own.items], every, fold)
    return {"i2t": of_images, "t2i": TaskRanks(np.arange(len(t2i) + 1), t2i, images, fold)}


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
