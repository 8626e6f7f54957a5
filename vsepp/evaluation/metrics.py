"""The paper's metrics, from ranks: what trainings validate by and evaluations write. `vsepp.evaluation.metric_list` has all metrics.

NumPy is imported where it is needed, since configuration reads the names of metrics and must start fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import TYPE_CHECKING, Any

from vsepp.base.errors import VseppError

if TYPE_CHECKING:
    import numpy as np

    from vsepp.evaluation.ranks import PositiveRanks, Ranks


FOLDS = {"1K": 1, "5x1K": 5}
"""Protocol → folds of the test set; any other protocol takes all images."""


def _mean(values: Any) -> float:
    return float(values.mean())


@dataclass(frozen=True)
class Metric:
    """One number for how well one direction retrieves."""

    name: str
    """Name at the head of a column."""
    of: Callable[[PositiveRanks], Any]
    """Value of each query, `(n_queries,)`, from the ranks of its positives."""
    mean: Callable[[Any], float] = _mean
    """Values of all queries → the metric. Where the metric is not their mean, no values per image average to it."""
    factor: float = 100.0
    """100 for a metric in per cent."""
    lower_is_better: bool = False
    needs_all: bool = False
    """Whether it needs the ranks of every positive, not of each query's best alone."""

    @property
    def is_mean(self) -> bool:
        """Whether it is the mean of its queries' values."""
        return self.mean is _mean

    def values(self, ranks: PositiveRanks) -> Any:
        """Value of each query, `(n_queries,)`, without the factor.

        Raises
        ------
        VseppError
            If it needs ranks that were not kept.
        """
        if self.needs_all and not ranks.is_whole:
            raise VseppError(
                f"{self.name}: needs the ranks of all correct items, which were not kept; evaluate again"
            )
        return self.of(ranks)

    def __call__(self, ranks: PositiveRanks) -> float:
        """The metric of all queries; errors as in `values`."""
        return self.factor * self.mean(self.values(ranks))


def _recall(k: int) -> Metric:
    """A correct item tied for first place with one other (rank 0.5) counts for R@1, with two others (rank 1) it does not."""
    return Metric(f"R@{k}", lambda ranks: ranks.best < k)


def _floor_of_median(values: Any) -> float:
    import numpy as np

    return float(np.floor(np.median(values))) + 1


PAPER: dict[str, Metric] = {
    "r1": _recall(1),
    "r5": _recall(5),
    "r10": _recall(10),
    "medr": Metric("Med r", lambda ranks: ranks.best, _floor_of_median, 1.0, lower_is_better=True),
    "meanr": Metric("Mean r", lambda ranks: ranks.best, lambda v: _mean(v) + 1, 1.0, lower_is_better=True),
}
"""The paper's metrics, key → metric. Med r is the floor of the median of the ranks from 0, plus 1, as in the released code; Mean r is the
mean of these ranks plus 1."""


@dataclass(frozen=True)
class DirectionMetrics:
    """The paper's metrics of one direction. Nothing is rounded."""

    r1: float
    """R@1: percentage of queries with a rank below 1."""
    r5: float
    """R@5, percent."""
    r10: float
    """R@10, percent."""
    medr: float
    """Med r, 1 is best; a whole number for one fold, a mean of whole numbers for several."""
    meanr: float
    """Mean r, 1 is best."""


@dataclass(frozen=True)
class RetrievalMetrics:
    """Both directions of retrieval."""

    i2t: DirectionMetrics
    """Caption retrieval."""
    t2i: DirectionMetrics
    """Image retrieval."""

    @property
    def rsum(self) -> float:
        """Sum of the six recalls; 600 is best."""
        return sum(side.r1 + side.r5 + side.r10 for side in (self.i2t, self.t2i))

    @property
    def recalls(self) -> dict[str, float]:
        """`i2t_r1`, …, `t2i_r10` and `rsum`, as histories of training hold them."""
        sides = {"i2t": self.i2t, "t2i": self.t2i}
        found = {f"{task}_{key}": getattr(sides[task], key) for task in sides for key in ("r1", "r5", "r10")}
        return {**found, "rsum": self.rsum}

    def to_dict(self) -> dict:
        """Both directions and rsum, as `metrics.json` holds them."""
        return {**asdict(self), "rsum": self.rsum}


def direction_metrics(ranks: np.ndarray) -> DirectionMetrics:
    """The paper's metrics of one direction, see `PAPER`.

    Parameters
    ----------
    ranks
        `(n_queries,)`, rank of each query's best correct item; 0 is best, and a rank may be fractional, since a tie counts half.

    Raises
    ------
    VseppError
        If there are no queries.
    """
    from vsepp.evaluation.ranks import PositiveRanks

    if len(ranks) == 0:
        raise VseppError("no ranks: expected at least one query")
    best = PositiveRanks.of_best(ranks)
    return DirectionMetrics(**{key: metric(best) for key, metric in PAPER.items()})


def retrieval_metrics(ranks: Ranks) -> RetrievalMetrics:
    """The paper's metrics of both directions."""
    return RetrievalMetrics(direction_metrics(ranks.i2t), direction_metrics(ranks.t2i))


def mean_metrics(folds: Sequence[RetrievalMetrics]) -> RetrievalMetrics:
    """Mean over folds of each metric, Med r included."""
    import numpy as np

    i2t, t2i = np.mean([[astuple(fold.i2t), astuple(fold.t2i)] for fold in folds], axis=0).tolist()
    return RetrievalMetrics(DirectionMetrics(*i2t), DirectionMetrics(*t2i))


def chance_rsum(n_images: int, n_captions: float, positives: Sequence[Any] | None = None) -> float:
    """rsum for a ranking by chance.

    Parameters
    ----------
    n_images, n_captions
        Number of images and of captions in a fold.
    positives
        For each direction, number of positives of each query, `(n_queries,)`; by default own captions, equally many for all
        images.
    """
    import numpy as np

    of_images, of_captions = positives or (n_captions / n_images, 1.0)
    rsum = 0.0
    for counts, gallery in ((of_images, n_captions), (of_captions, n_images)):
        for k in (1, 5, 10):
            # None of a query's positives among the first k.
            left = gallery - np.arange(min(k, int(gallery)))
            missed = np.prod(1 - np.minimum(1, np.divide.outer(counts, left)), axis=-1)
            rsum += 100.0 * (1 - float(np.mean(missed)))
    return rsum
