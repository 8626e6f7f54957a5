"""All metrics, from ranks: tables, intervals and claims find them here. A new metric needs an entry of `METRICS`; no model is trained or
evaluated again for it.

NumPy is imported where it is needed, since configuration reads the names of metrics and must start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vsepp.base.declared import TASKS
from vsepp.base.errors import VseppError
from vsepp.evaluation.paper import CUTS, PAPER, Metric, chance_rsum

if TYPE_CHECKING:
    import numpy as np

    from vsepp.evaluation.ranks import Ranks, TaskRanks

AT_CHANCE = "ranks like chance"
"""Said of a model for which `ranks_like_chance` is true."""
_Z = 1.959964
"""Standard deviations of a normal distribution within which 95 % lie."""


def _r_precision(ranks: TaskRanks) -> Any:
    counts = ranks.counts
    return ranks.sums(ranks.places < counts.repeat(counts)) / counts


def _average_precision(ranks: TaskRanks) -> Any:
    """A positive at place p from 0, the j-th of its query, adds j / (p + 1) / R where p is below R."""
    counts = ranks.counts
    gains = (ranks.order + 1) / (ranks.places + 1) * (ranks.places < counts.repeat(counts))
    return ranks.sums(gains) / counts


def _ndcg(ranks: TaskRanks, k: int = 10) -> Any:
    import numpy as np

    gains = 1 / np.log2(ranks.places + 2) * (ranks.places < k)
    best = np.cumsum(1 / np.log2(np.arange(k) + 2))
    return ranks.sums(gains) / best[np.minimum(ranks.counts, k) - 1]


def _most_positives(ranks: TaskRanks) -> int:
    return int(ranks.counts.max())


METRICS: dict[str, Metric] = {
    **PAPER,
    "mrr": Metric("MRR", lambda ranks: 1 / (ranks.best + 1)),
    "rprecision": Metric("R-Precision", _r_precision, depth=_most_positives),
    "mapr": Metric("mAP@R", _average_precision, depth=_most_positives),
    "ndcg10": Metric("nDCG@10", _ndcg, depth=lambda ranks: 10),
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


def per_image(ranks: Ranks, metric: str) -> np.ndarray | None:
    """Value of a metric for each image that asks, in per cent; the mean of all is the metric.

    Parameters
    ----------
    ranks
        Ranks under a protocol or a truth.
    metric
        One of `AVERAGED`.

    Returns
    -------
    np.ndarray
        `(n_images,)` float64; `None` where the metric's task was not ranked, or lists of the best are too short for it. Queries of one
        image count together: m + (f − m·q) / q̄, with a fold's metric m and mean number of queries q̄, for an image whose q queries have values that add up to f; where all images have
        equally many queries, this is f / q.

    Raises
    ------
    VseppError
        On a metric without values per image.
    """
    import numpy as np

    if metric not in AVERAGED:
        raise VseppError(f"metric: expected one of {', '.join(AVERAGED)}, got {metric!r}")
    if metric == "rsum":
        recalls = [per_image(ranks, recall) for recall in RECALLS]
        return None if any(values is None for values in recalls) else np.sum(recalls, axis=0)  # type: ignore[arg-type]
    task, _, key = metric.partition("_")
    if task not in ranks or not METRICS[key].is_known(ranks[task]):
        return None
    n = 1 + max(int(asking.images.max()) for asking in ranks.values())
    images, size = ranks[task].images, ranks[task].fold
    # A metric is the mean over the folds, so folds matter where they have unequal numbers of queries.
    per_query = (size / np.bincount(images // size, minlength=n // size))[:, None]
    weights = np.bincount(images, minlength=n).reshape(-1, size) * per_query
    values = np.bincount(images, weights=METRICS[key].per_query(ranks[task]), minlength=n).reshape(-1, size)
    shares = METRICS[key].factor * values * per_query
    return (shares + shares.mean(axis=1, keepdims=True) * (1 - weights)).ravel()


def ranks_like_chance(ranks: Ranks, n_images: int, n_captions: int) -> bool:
    """Whether no test tells a ranking from chance: the 95 % interval of its rsum over the images does not lie above chance's rsum.

    Of lists of the best, the recalls that they are long enough for take the place of rsum.

    One image tells nothing.

    Parameters
    ----------
    ranks
        As in `per_image`.
    n_images, n_captions
        Number of images and of captions that were ranked, in all folds.
    """
    import numpy as np

    cuts = [[k for k in CUTS if METRICS[f"r{k}"].is_known(ranks[task])] for task in ("i2t", "t2i")]
    recalls = [f"{task}_r{k}" for task, ks in zip(("i2t", "t2i"), cuts, strict=True) for k in ks]
    values = np.sum([per_image(ranks, recall) for recall in recalls], axis=0)  # type: ignore[arg-type]
    if len(values) < 2:
        return True
    folds = len(values) // ranks["i2t"].fold
    positives = [ranks[task].counts for task in ("i2t", "t2i")]
    low = values.mean() - _Z * values.std(ddof=1) / len(values) ** 0.5
    return bool(low <= chance_rsum(n_images / folds, n_captions / folds, positives, cuts))
