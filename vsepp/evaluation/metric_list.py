"""All metrics: tables, intervals and claims find them here. A new metric needs an entry; no model is trained or evaluated again for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vsepp.base.declared import TASKS
from vsepp.evaluation.metrics import PAPER, Metric

if TYPE_CHECKING:
    from vsepp.evaluation.ranks import PositiveRanks


def _r_precision(ranks: PositiveRanks) -> Any:
    counts = ranks.counts
    return ranks.sums(ranks.places < counts.repeat(counts)) / counts


def _average_precision(ranks: PositiveRanks) -> Any:
    """A positive at place p from 0, the j-th of its query, adds j / (p + 1) / R where p is below R."""
    counts = ranks.counts
    gains = (ranks.order + 1) / (ranks.places + 1) * (ranks.places < counts.repeat(counts))
    return ranks.sums(gains) / counts


def _ndcg(ranks: PositiveRanks, k: int = 10) -> Any:
    import numpy as np

    gains = 1 / np.log2(ranks.places + 2) * (ranks.places < k)
    best = np.cumsum(1 / np.log2(np.arange(k) + 2))
    return ranks.sums(gains) / best[np.minimum(ranks.counts, k) - 1]


METRICS: dict[str, Metric] = {
    **PAPER,
    "mrr": Metric("MRR", lambda ranks: 1 / (ranks.best + 1)),
    "rprecision": Metric("R-Precision", _r_precision, needs_all=True),
    "mapr": Metric("mAP@R", _average_precision, needs_all=True),
    "ndcg10": Metric("nDCG@10", _ndcg, needs_all=True),
}
"""Key → metric."""
RECALLS = tuple(f"{direction}_r{k}" for direction in ("i2t", "t2i") for k in (1, 5, 10))
"""Recalls that rsum adds up."""
COMPARED = (*RECALLS, "rsum")
"""Metrics that histories of training have, and by which runs are compared."""
SCORES = (*(f"{task}_{key}" for task in TASKS for key in METRICS), "rsum")
"""Metrics that an evaluation under a protocol or a truth has, or that its ranks give."""
AVERAGED = tuple(score for score in SCORES if score == "rsum" or METRICS[score.partition("_")[2]].is_mean)
"""Metrics that are the mean of a value per image: they can have intervals, and be claimed."""
