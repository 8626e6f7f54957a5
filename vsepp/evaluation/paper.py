"""The paper's five metrics, which every evaluation writes and trainings are validated by. `vsepp.evaluation.metrics` has all metrics.

NumPy is imported where it is needed, since configuration reads the names of metrics and must start fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vsepp.evaluation.ranks import Ranks, TaskRanks

CUTS = (1, 5, 10)
"""K of the paper's R@K."""


def _mean(values: Any) -> float:
    return float(values.mean())


@dataclass(frozen=True)
class Metric:
    """One number for how well one task retrieves."""

    name: str
    """Name at the head of a column."""
    per_query: Callable[[TaskRanks], Any]
    """Value of each query, `(n_queries,)`, from the ranks of its positives."""
    mean: Callable[[Any], float] = _mean
    """Values of all queries of a fold → the metric. Where the metric is not their mean, no values per image average to it."""
    factor: float = 100.0
    """100 for a metric in per cent."""
    lower_is_better: bool = False
    depth: Callable[[TaskRanks], float] = lambda ranks: math.inf
    """How many of each query's best items it needs; by default all."""

    @property
    def is_mean(self) -> bool:
        """Whether it is the mean of its queries' values."""
        return self.mean is _mean

    def is_known(self, ranks: TaskRanks) -> bool:
        """Whether the lists that were ranked are long enough; see `TaskRanks.depth`."""
        return ranks.depth is None or self.depth(ranks) <= ranks.depth

    def by_fold(self, ranks: TaskRanks) -> list[float]:
        """The metric of each fold, without the factor, NaN where lists are too short for it."""
        known = self.is_known(ranks)
        return [self.mean(values) if known else math.nan for values in ranks.by_fold(self.per_query(ranks))]

    def __call__(self, ranks: TaskRanks) -> float:
        """The metric of all queries, the mean over the folds."""
        folds = self.by_fold(ranks)
        return self.factor * (sum(folds) / len(folds))


def _median_rank(values: Any) -> float:
    import numpy as np

    return float(np.floor(np.median(values))) + 1


def _median_depth(ranks: TaskRanks) -> int:
    """The place of the upper one of the two ranks in the middle, which the median is the mean of."""
    return max(int(sorted(best)[len(best) // 2]) + 1 for best in ranks.by_fold(ranks.best))


PAPER: dict[str, Metric] = {
    "r1": Metric("R@1", lambda ranks: ranks.hits(1), depth=lambda ranks: 1),
    "r5": Metric("R@5", lambda ranks: ranks.hits(5), depth=lambda ranks: 5),
    "r10": Metric("R@10", lambda ranks: ranks.hits(10), depth=lambda ranks: 10),
    "medr": Metric(
        "Med r", lambda ranks: ranks.best, _median_rank, 1.0, lower_is_better=True, depth=_median_depth
    ),
    "meanr": Metric("Mean r", lambda ranks: ranks.best, lambda v: _mean(v) + 1, 1.0, lower_is_better=True),
}
"""Key → metric."""


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
    def from_folds(cls, ranks: TaskRanks) -> list[DirectionMetrics]:
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
        recalls = {
            f"{task}_{key}": getattr(sides[task], key) for task in sides for key in ("r1", "r5", "r10")
        }
        return {**recalls, "rsum": self.rsum}

    def to_dict(self) -> dict[str, Any]:
        """All tasks that there are, and rsum, as `metrics.json` holds them, without what is NaN."""
        tasks = {task: _known(metrics) for task, metrics in asdict(self).items() if metrics}
        return {**tasks, **_known({"rsum": self.rsum})}


def _known(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if not math.isnan(value)}


def metrics_of_folds(ranks: Ranks) -> list[RetrievalMetrics]:
    """The paper's metrics of each fold."""
    tasks = {task: DirectionMetrics.from_folds(task_ranks) for task, task_ranks in ranks.items()}
    return [
        RetrievalMetrics(**dict(zip(tasks, fold, strict=True))) for fold in zip(*tasks.values(), strict=True)
    ]


def retrieval_metrics(ranks: Ranks) -> RetrievalMetrics:
    """The paper's metrics: the mean over the folds of each metric, Med r included."""
    import numpy as np

    means = {}
    for task, task_ranks in ranks.items():
        folds = [astuple(fold) for fold in DirectionMetrics.from_folds(task_ranks)]
        means[task] = DirectionMetrics(*np.mean(folds, axis=0).tolist())
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
    import numpy as np

    rsum = 0.0
    counts_of_both = positives or (n_captions / n_images, 1.0)
    for counts, gallery, ks in zip(counts_of_both, (n_captions, n_images), cuts, strict=True):
        for k in ks:
            # None of a query's positives among the first k.
            left = gallery - np.arange(min(k, int(gallery)))
            missed = np.prod(1 - np.minimum(1, np.divide.outer(counts, left)), axis=-1)
            rsum += 100.0 * (1 - float(np.mean(missed)))
    return rsum
