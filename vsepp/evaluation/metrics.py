"""R@K, Med r, Mean r and rsum, from ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass

import numpy as np

from vsepp.errors import VseppError
from vsepp.evaluation.ranks import Ranks


@dataclass(frozen=True)
class DirectionMetrics:
    """How well one direction retrieves. Nothing is rounded."""

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

    def to_dict(self) -> dict:
        """Both directions and rsum, as `metrics.json` holds them."""
        return {**asdict(self), "rsum": self.rsum}


def direction_metrics(ranks: np.ndarray) -> DirectionMetrics:
    """Metrics of one direction.

    Med r is the floor of the median of the 0-based ranks, plus 1, as in the released code; Mean r is their mean plus 1. A rank
    may be fractional, since a tie counts half. R@K counts ranks below K: a correct item tied for first place with one other
    (rank 0.5) counts for R@1, with two others (rank 1) it does not.

    Parameters
    ----------
    ranks
        `(n_queries,)`, 0 is best.

    Raises
    ------
    VseppError
        If there are no queries.
    """
    if len(ranks) == 0:
        raise VseppError("no ranks: expected at least one query")
    r1, r5, r10 = (100.0 * float(np.mean(ranks < k)) for k in (1, 5, 10))
    median = float(np.floor(np.median(ranks)))
    return DirectionMetrics(r1, r5, r10, medr=median + 1, meanr=float(np.mean(ranks)) + 1)


def retrieval_metrics(ranks: Ranks) -> RetrievalMetrics:
    """Metrics of both directions."""
    return RetrievalMetrics(direction_metrics(ranks.i2t), direction_metrics(ranks.t2i))


def mean_metrics(folds: Sequence[RetrievalMetrics]) -> RetrievalMetrics:
    """Mean over folds of each metric, Med r included."""

    def mean(sides: list[DirectionMetrics]) -> DirectionMetrics:
        return DirectionMetrics(
            *(float(np.mean(values)) for values in zip(*map(astuple, sides), strict=True))
        )

    return RetrievalMetrics(mean([fold.i2t for fold in folds]), mean([fold.t2i for fold in folds]))
