"""The paper's five metrics, which every evaluation writes and trainings are validated by. `vsepp.evaluation.metrics` has all metrics.

NumPy is imported where it is needed, since configuration reads the names of metrics and must start fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vsepp.base.errors import VseppError

if TYPE_CHECKING:
    from vsepp.evaluation.ranks import TaskRanks

CUTS = (1, 5, 10)
"""K of the paper's R@K."""


def _mean(values: Any) -> float:
    return float(values.mean())


@dataclass(frozen=True)
class Metric:
    """One number for how well one task retrieves."""

    name: str
    """Name at the head of a column."""
    of: Callable[[TaskRanks], Any]
    """Value of each query, `(n_queries,)`, from the ranks of its positives."""
    mean: Callable[[Any], float] = _mean
    """Values of all queries of a fold → the metric. Where the metric is not their mean, no values per image average to it."""
    factor: float = 100.0
    """100 for a metric in per cent."""
    lower_is_better: bool = False
    needs_all: bool = False
    """Whether it needs the ranks of every positive, not of each query's best alone."""
    depth: Callable[[TaskRanks], float] = lambda ranks: math.inf
    """How many of each query's best items it needs; by default all."""

    @property
    def is_mean(self) -> bool:
        """Whether it is the mean of its queries' values."""
        return self.mean is _mean

    def is_known(self, ranks: TaskRanks) -> bool:
        """Whether the lists that were ranked are long enough; see `TaskRanks.depth`."""
        return ranks.depth is None or self.depth(ranks) <= ranks.depth

    def values(self, ranks: TaskRanks) -> Any:
        """Value of each query, `(n_queries,)`, without the factor.

        Raises
        ------
        VseppError
            If it needs ranks that were not kept.
        """
        if self.needs_all and not ranks.whole:
            raise VseppError(
                f"{self.name}: needs the ranks of all correct items, which were not kept; evaluate again"
            )
        return self.of(ranks)

    def by_fold(self, ranks: TaskRanks) -> list[float]:
        """The metric of each fold, without the factor, NaN where lists are too short for it; errors as in `values`."""
        known = self.is_known(ranks)
        return [self.mean(values) if known else math.nan for values in ranks.by_fold(self.values(ranks))]

    def __call__(self, ranks: TaskRanks) -> float:
        """The metric of all queries, the mean over the folds; errors as in `values`."""
        folds = self.by_fold(ranks)
        return self.factor * (sum(folds) / len(folds))


def _median_rank(values: Any) -> float:
    import numpy as np

    return float(np.floor(np.median(values))) + 1


def _median_depth(ranks: TaskRanks) -> int:
    """The place of the upper one of the two ranks in the middle, which the median is the mean of."""
    return max(int(sorted(best)[len(best) // 2]) + 1 for best in ranks.by_fold(ranks.best))


PAPER: dict[str, Metric] = {
    "r1": Metric("R@1", lambda ranks: ranks.found(1), depth=lambda ranks: 1),
    "r5": Metric("R@5", lambda ranks: ranks.found(5), depth=lambda ranks: 5),
    "r10": Metric("R@10", lambda ranks: ranks.found(10), depth=lambda ranks: 10),
    "medr": Metric(
        "Med r", lambda ranks: ranks.best, _median_rank, 1.0, lower_is_better=True, depth=_median_depth
    ),
    "meanr": Metric("Mean r", lambda ranks: ranks.best, lambda v: _mean(v) + 1, 1.0, lower_is_better=True),
}
"""Key → metric."""
