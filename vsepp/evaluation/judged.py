"""A test set under a truth that people made: ranks of every positive of its tasks, metrics, and how scores go with ratings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vsepp.base.declared import TASKS
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.blocks import EmbeddingScores, Vectors
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.metrics import PAPER
from vsepp.evaluation.ranks import PositiveRanks, rank_positives
from vsepp.evaluation.scores import Pairs, ScoredSet, Scores, similarity_text
from vsepp.evaluation.truth import Positives, Ratings, Truth

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


@dataclass(frozen=True, eq=False)
class Judged:
    """A test set under a truth. Nothing is rounded."""

    truth: Truth
    similarity: str
    shape: tuple[int, int]
    """Number of images and of captions that were ranked."""
    ranks: Mapping[str, PositiveRanks]
    """Task → ranks in the order of the truth, which the order of the embeddings does not change."""
    correlations: Mapping[str, Correlation]
    lists: Mapping[str, np.ndarray]
    """Empty; see `Evaluation.lists`."""

    @property
    def protocol(self) -> str:
        """The truth's name, under which its metrics and ranks are written."""
        return self.truth.name

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for `ranks.npz`, see `kept_ranks`."""
        found = {}
        for task, ranks in self.ranks.items():
            found[f"{self.protocol}_{task}"] = ranks.ranks
            found[f"{self.protocol}_{task}_starts"] = ranks.starts
            found[f"{self.protocol}_{task}_images"] = self.truth.images_of(task)
        return found

    def to_dict(self) -> dict[str, Any]:
        """All but the ranks, as `metrics.json` holds it."""
        metrics = {
            task: {key: metric(ranks) for key, metric in PAPER.items()} for task, ranks in self.ranks.items()
        }
        return {
            "protocol": self.protocol,
            "truth": self.truth.digest,
            "fold_size": self.shape[0],
            "folds": 1,
            "n_images": self.shape[0],
            "n_captions": self.shape[1],
            "similarity": self.similarity,
            **metrics,
            "rsum": sum(metrics[task][recall] for task in ("i2t", "t2i") for recall in ("r1", "r5", "r10")),
            **{
                what: {"spearman": each.value, "sd": each.sd, "interval_images": [each.low, each.high]}
                for what, each in self.correlations.items()
            },
        }

    def __str__(self) -> str:
        """Recalls to read; numbers are rounded here and nowhere else. `vsepp.report.judged.as_text` has all metrics."""
        lines = [self.heading, f"{'':<20}{'R@1':>7}{'R@5':>7}{'R@10':>7}{'Med r':>8}{'Mean r':>9}"]
        for task, ranks in self.ranks.items():
            values = [metric(ranks) for metric in PAPER.values()]
            lines.append("{:<20}{:>7.1f}{:>7.1f}{:>7.1f}{:>8.1f}{:>9.1f}".format(TASKS[task], *values))
        return "\n".join([*lines, *self.notes])

    @property
    def heading(self) -> str:
        """What was ranked."""
        n_images, n_captions = self.shape
        queries = ", ".join(f"{len(ranks.counts):,} of {TASKS[task]}" for task, ranks in self.ranks.items())
        return (
            f"truth {self.protocol}: {n_images:,} images, {n_captions:,} captions, {similarity_text(self.similarity)}\n"
            f"queries: {queries}"
        )

    @property
    def notes(self) -> list[str]:
        """Correlations, the number of correct captions that are not ranked, and the truth's digest."""
        notes = [
            f"{what.upper()}: Spearman {each.value:.1f} ± {each.sd:.1f} over {ESTIMATES:,} drawings; over images "
            f"[{each.low:.1f}, {each.high:.1f}]"
            for what, each in self.correlations.items()
        ]
        if self.truth.absent:
            notes.append(f"{self.truth.absent} correct captions outside the test set count as not found")
        return [*notes, f"digest {self.truth.digest}"]


def judge(tested: Embeddings | ScoredSet, truth: Truth) -> Judged:
    """Rank a test set under a truth.

    Parameters
    ----------
    tested
        A test set with ids, in any order. Retrieval among captions and among images, and their correlations, need embeddings with an
        inner product as similarity.
    truth
        A truth with ids.

    Raises
    ------
    VseppError
        If ids are missing, or differ from the truth's gallery, naming the first and how many differ.
    """
    scores, sides, similarity = _in_order(tested, truth)
    both = rank_positives(scores, truth)
    ranks = {"i2t": both.of("i2t"), "t2i": both.of("t2i")}
    for task, vectors in sides.items():
        if (positives := truth.tasks.get(task)) is not None:
            ranks[task] = _ranks_within(_among(vectors), positives)
    correlations = {}
    for what, ratings in truth.ratings.items():
        if ratings.task == "i2t":
            found = scores.of(ratings.queries, ratings.items, "i2t")
        elif ratings.task in sides:
            found = _among(sides[ratings.task]).of(ratings.queries, ratings.items, "i2t")
        else:
            continue
        correlations[what] = correlation(ratings, found, truth.images_of(ratings.task, ratings.queries))
    return Judged(truth, similarity, scores.shape, ranks, correlations, {})


def _in_order(tested: Embeddings | ScoredSet, truth: Truth) -> tuple[Scores, dict[str, np.ndarray], str]:
    """Scores of the gallery in the truth's order; task → vectors of items ranked among themselves; the similarity's name."""
    assert truth.image_ids is not None and truth.caption_ids is not None
    gallery = np.asarray(truth.caption_ids)[: len(truth.caption_ids) - truth.absent]
    images = _rows("image", tested.image_ids, np.asarray(truth.image_ids), truth.name)
    captions = _rows("caption", tested.caption_ids, gallery, truth.name)
    if isinstance(tested, ScoredSet):
        return tested.scores.in_order(images, captions), {}, tested.similarity
    i2i, t2t = tested.image_embeddings[images], tested.caption_embeddings[captions]
    scores = EmbeddingScores(Vectors(i2i, t2t, tested.similarity))
    return scores, {"t2t": t2t, "i2i": i2i} if scores.is_product else {}, tested.similarity.name


def _rows(kind: str, ids: np.ndarray | None, gallery: np.ndarray, truth: str) -> np.ndarray:
    """Row of each id of the gallery."""
    if ids is None:
        raise VseppError(f"truth {truth}: expected {kind}_ids, ids in COCO, one a row; the file has none")
    for some, where, others in ((gallery, "the file", ids), (ids, f"the gallery of {truth}", gallery)):
        missing = np.setdiff1d(some, others)
        if len(missing):
            raise VseppError(
                f"truth {truth}: {kind} {missing[0]} is not in {where} ({len(missing)} {kind}s are not); expected the "
                f"{len(gallery):,} {kind}s of COCO's test set, each once, in any order"
            )
    order = np.argsort(ids)
    return order[np.searchsorted(ids, gallery, sorter=order)]


def _among(vectors: np.ndarray) -> EmbeddingScores:
    """Scores of vectors with each other."""
    return EmbeddingScores(Vectors(vectors, vectors, Component("dot")))


def _ranks_within(scores: EmbeddingScores, positives: Positives) -> PositiveRanks:
    """Ranks of one kind of items among themselves. The query itself is no wrong item: it is scored as one of the positives, then left out."""
    every = Positives.of_pairs(
        np.concatenate([positives.rows, positives.queries]),
        np.concatenate([positives.items, positives.queries]),
    )
    right = scores.of(every.rows, every.items, "i2t")
    none = np.zeros(0, np.int64)
    twice, _ = scores.above(Pairs(every.rows, every.items, right), Pairs(none, none, right[:0]))
    return PositiveRanks(positives.starts, twice[every.rows != every.items] / 2)


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
    rated, found = ratings.scores[order], scores[order]

    def estimate(chosen: np.ndarray) -> float:
        pairs = starts[chosen] + (rng.random(len(chosen)) * counts[chosen]).astype(np.int64)
        return 100 * _spearman(rated[pairs], found[pairs])

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


def _spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's correlation; 0 where all numbers of a side are equal, as for a collapsed model."""
    from scipy import stats

    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(stats.rankdata(first), stats.rankdata(second))[0, 1])
