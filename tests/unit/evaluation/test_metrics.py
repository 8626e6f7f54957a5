"""Recalls, median and mean ranks against matrices that were ranked by hand."""

import numpy as np
import pytest

from vsepp.evaluation.metrics import METRICS
from vsepp.evaluation.paper import DirectionMetrics, chance_rsum, retrieval_metrics
from vsepp.evaluation.ranks import TaskRanks


def of_best(ranks):
    """Ranks of one positive a query, a query an image."""
    n = len(ranks)
    return TaskRanks(np.arange(n + 1), np.asarray(ranks, float), np.arange(n), n)


def direction_metrics(ranks):
    (metrics,) = DirectionMetrics.from_folds(of_best(ranks))
    for key, value in vars(metrics).items():  # the table has the same
        assert METRICS[key](of_best(ranks)) == value
    return metrics


def test_recalls_median_and_mean_by_hand():
    metrics = direction_metrics(np.array([0.0, 0.0, 4.0, 5.0, 9.0, 10.0, 100.0, 0.0]))
    # Below 1: three of eight; below 5: four; below 10: six. Sorted 0 0 0 4 5 9 10 100, median 4.5, mean 16.
    assert metrics == DirectionMetrics(r1=37.5, r5=50.0, r10=75.0, medr=5.0, meanr=17.0)


@pytest.mark.parametrize(
    ("ranks", "medr"),
    [
        ([0, 0, 0], 1),
        ([0, 1, 2], 2),
        ([0, 1], 1),
        ([1, 2], 2),
        ([0.5, 0.5], 1),
        ([499.5] * 4, 500),
        ([1.5, 2.0], 2),
    ],
)
def test_median_rank_is_the_floor_of_the_median_plus_one(ranks, medr):
    assert direction_metrics(np.array(ranks, dtype=float)).medr == medr


@pytest.mark.parametrize(("rank", "r1", "r5"), [(0.5, 100, 100), (1.0, 0, 100), (4.5, 0, 100), (5.0, 0, 0)])
def test_a_fractional_rank_counts_below_k(rank, r1, r5):
    metrics = direction_metrics(np.array([rank]))
    assert (metrics.r1, metrics.r5) == (r1, r5)


def test_rsum_adds_six_recalls():
    metrics = retrieval_metrics({"i2t": of_best([0, 6]), "t2i": of_best([0, 2, 20, 30])})
    assert metrics.rsum == (50 + 50 + 100) + (25 + 50 + 50)
    assert metrics.to_dict() == {
        "i2t": {"r1": 50.0, "r5": 50.0, "r10": 100.0, "medr": 4.0, "meanr": 4.0},
        "t2i": {"r1": 25.0, "r5": 50.0, "r10": 50.0, "medr": 12.0, "meanr": 14.0},
        "rsum": 325.0,
    }


def test_chance_of_a_ranking_by_lot():
    # Four images with two captions each: an image's first caption is one of its two in 2 of 8 cases, as an image is the right one
    # in 1 of 4; among the first five captions it has none in 6/8 · 5/7 · 4/6 · 3/5 · 2/4.
    assert chance_rsum(4, 8) == pytest.approx(
        25 + 25 + 100 * (1 - 6 / 8 * 5 / 7 * 4 / 6 * 3 / 5 * 2 / 4) + 300
    )
    assert chance_rsum(100, 100) == pytest.approx(2 * (1 + 5 + 10))
    assert chance_rsum(4, 4) == pytest.approx(2 * (25 + 100 + 100))
