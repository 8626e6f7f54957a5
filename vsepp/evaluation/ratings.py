"""How scores go with people's ratings of how alike pairs are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vsepp.evaluation.truth import Ratings

ESTIMATES = 1000
"""Number of estimates of a correlation: from drawings of half of the queries, and as many from resampled images."""


@dataclass(frozen=True)
class Correlation:
    """Spearman's correlation of scores with ratings, times 100.

    As its authors print it: for each estimate half of the queries are drawn, and one rated item of each query.
    """

    value: float
    """Mean of the estimates."""
    sd: float
    """Standard deviation of the estimates: how much the drawing moves the correlation; it says nothing of other images."""
    low: float
    """95 % interval over images, from as many estimates on resampled images. This interval is ours: the authors print none."""
    high: float


def correlation(ratings: Ratings, scores: np.ndarray, images: np.ndarray) -> Correlation:
    """Spearman's correlation of scores with ratings, and how sure it is.

    Parameters
    ----------
    ratings
        Ratings of n pairs.
    scores
        `(n,)`, a model's scores of the pairs.
    images
        `(n,)`, the image of each query.
    """
    rng = np.random.default_rng(0)
    order = np.argsort(ratings.queries, kind="stable")
    queries, starts = np.unique(ratings.queries[order], return_index=True)
    counts = np.diff(np.append(starts, len(order)))
    rated, scored = _Ranked(ratings.scores[order]), _Ranked(scores[order])

    def estimate(chosen: np.ndarray) -> float:
        pairs = starts[chosen] + (rng.random(len(chosen)) * counts[chosen]).astype(np.int64)
        return 100 * _pearson(rated.among(pairs), scored.among(pairs))

    halves = [estimate(rng.permutation(len(queries))[: len(queries) // 2]) for _ in range(ESTIMATES)]
    asking = images[order][starts]
    by_image = np.argsort(asking, kind="stable")
    _, first, size = np.unique(asking[by_image], return_index=True, return_counts=True)
    resampled = []
    for _ in range(ESTIMATES):
        drawn = rng.integers(len(first), size=len(first))
        within = np.arange(size[drawn].sum()) - np.repeat(np.cumsum(size[drawn]) - size[drawn], size[drawn])
        resampled.append(estimate(by_image[np.repeat(first[drawn], size[drawn]) + within]))
    low, high = np.percentile(resampled, [2.5, 97.5])
    return Correlation(float(np.mean(halves)), float(np.std(halves)), float(low), float(high))


class _Ranked:
    """Numbers that are sorted once, so that ranks of many choices of them are counted."""

    def __init__(self, values: np.ndarray) -> None:
        different, self._places = np.unique(values, return_inverse=True)
        self._kinds = len(different)

    def among(self, rows: np.ndarray) -> np.ndarray:
        """Ranks of some of the numbers among each other, `(n,)`; equal numbers have their mean rank."""
        places = self._places[rows]
        counts = np.bincount(places, minlength=self._kinds)
        return (np.cumsum(counts) - (counts - 1) / 2)[places]


def _pearson(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation; 0 where all numbers of a side are equal, as for a collapsed model."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])
