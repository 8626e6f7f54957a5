"""A test set under truths: own captions under a protocol, or what people found correct, see `vsepp.evaluation.truth`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.base.files import write_arrays, write_text
from vsepp.evaluation.best import BestLists
from vsepp.evaluation.gallery import by_rows
from vsepp.evaluation.paper import CUTS, PAPER, RetrievalMetrics, metrics_of_folds, retrieval_metrics
from vsepp.evaluation.ranks import Ranks, rank_counts, task_ranks
from vsepp.evaluation.ratings import Correlation, correlation
from vsepp.evaluation.scores import Scores
from vsepp.evaluation.test_set import TestSet
from vsepp.evaluation.truth import Positives, Truth, kinds

LISTS = "best.npz"
"""File of the re-ranked lists, beside `ranks.npz`."""
Rerank = Callable[[Any, slice, np.ndarray], BestLists]
"""Scores of a fold, and which images and captions of the whole test set it has → the best items of each query with new scores."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A test set under a truth. Nothing is rounded."""

    truth: Truth
    similarity: str
    """Name of the similarity, or what else the scores are, in words."""
    shape: tuple[int, int]
    """Number of images and of captions that were ranked, in all folds."""
    ranks: Ranks
    """In the order of the truth, whatever the order of the test set; of own captions each query's ranks within its fold."""
    correlations: Mapping[str, Correlation] = field(default_factory=dict)
    """Name of ratings → how the scores go with them."""
    lists: Mapping[str, np.ndarray] = field(default_factory=dict)
    """`i2t_items`, `i2t_scores`, `t2i_items`, `t2i_scores`, `(n_queries, k)`, where the k best of each query were re-ranked: rows of the
    test set, the most similar first, and their new scores. Written for own captions alone."""

    @property
    def protocol(self) -> str:
        """Name of the protocol or of the truth, under which metrics and ranks are written."""
        return self.truth.name

    @property
    def fold_size(self) -> int:
        """Images that are ranked among each other."""
        return self.shape[0] // len(self.truth.folds)

    @property
    def reranked(self) -> int:
        """k, how many items of each query were re-ranked; 0: none."""
        return self.lists["t2i_items"].shape[1] if self.lists else 0

    @property
    def depths(self) -> dict[str, int]:
        """Task → how many of each query's best items are known, where lists do not hold all; metrics that need more are left out."""
        return {task: ranks.depth for task, ranks in self.ranks.items() if ranks.depth is not None}

    @cached_property
    def ties(self) -> dict[str, dict[str, int]]:
        """Task → `r1`, `r5`, `r10` → number of queries of which the order of tied items decides whether they count, where there are any."""
        ties: dict[str, dict[str, int]] = {}
        for task, ranks in self.ranks.items():
            for k in CUTS:
                tied = int(ranks.tied_at(k).sum())
                if tied and PAPER[f"r{k}"].is_known(ranks):
                    ties.setdefault(task, {})[f"r{k}"] = tied
        return ties

    @cached_property
    def metrics(self) -> RetrievalMetrics:
        """Mean over the folds."""
        return retrieval_metrics(self.ranks)

    @property
    def per_fold(self) -> list[RetrievalMetrics]:
        """The metrics of each fold."""
        return metrics_of_folds(self.ranks)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """`<protocol>_<part>` → an array of `ranks.npz`, see `vsepp.evaluation.ranks.kept_ranks`."""
        arrays: dict[str, np.ndarray] = {}
        if not self.truth.by_people:
            t2i = self.truth.tasks["t2i"]
            captions = np.searchsorted(t2i.queries, self.truth.tasks["i2t"].items)
            arrays = {"i2t": self.ranks["i2t"].best, "t2i": self.ranks["t2i"].ranks}
            arrays["i2t_captions"] = np.empty(len(captions))
            arrays["i2t_captions"][captions] = self.ranks["i2t"].ranks
            arrays |= {"caption_rows": t2i.queries, "caption_images": t2i.items}
        else:
            for task, ranks in self.ranks.items():
                arrays[task], arrays[f"{task}_starts"] = ranks.ranks, ranks.starts
                arrays[f"{task}_images"] = self.truth.images_of(task)
        return {f"{self.protocol}_{part}": array for part, array in arrays.items()}

    def to_dict(self) -> dict[str, Any]:
        """All but the ranks, as `metrics.json` holds it."""
        return {
            "protocol": self.protocol,
            **({"truth": self.truth.digest} if self.truth.by_people else {}),
            "fold_size": self.fold_size,
            "folds": len(self.truth.folds),
            "n_images": self.shape[0],
            "n_captions": self.shape[1],
            "similarity": self.similarity,
            **({"reranked": self.reranked} if self.lists else {}),
            **({"depth": self.depths} if self.depths else {}),
            **({"ties": self.ties} if self.ties else {}),
            **self.metrics.to_dict(),
            **({} if self.truth.by_people else {"per_fold": [fold.to_dict() for fold in self.per_fold]}),
            **{
                name: {
                    "spearman": spearman.value,
                    "sd": spearman.sd,
                    "interval_images": [spearman.low, spearman.high],
                }
                for name, spearman in self.correlations.items()
            },
        }

    def __str__(self) -> str:
        """What was ranked and every metric, to read."""
        from vsepp.evaluation.shown import evaluation_text

        return evaluation_text(self)


def evaluate(tested: TestSet, truths: Sequence[Truth], rerank: Rerank | None = None) -> list[Evaluation]:
    """Rank a test set under truths.

    Parameters
    ----------
    tested
        The whole test set, images in file order.
    truths
        Own captions of the test set, see `vsepp.evaluation.truth.own_captions`; and truths with ids, for a test set with ids in any order.
    rerank
        Scores the best items of each fold anew; other items are tied below. `None`: the scores alone rank.

    Returns
    -------
    list
        For each truth; without tasks and ratings that the scores do not tell.

    Raises
    ------
    VseppError
        If ids are missing or differ from a truth's gallery, if a caption is of another image there, and for lists of the best that a protocol cuts into folds.
    """
    # A fold may belong to several protocols, and is re-ranked once.
    folds: dict[tuple[int, int], _Fold] = {}
    requests = []
    for truth in truths:
        spans = [fold.indices(tested.scores.shape[0])[:2] for fold in truth.folds]
        requests.append((truth, by_rows(truth, tested), spans))
    for _, _, spans in requests:
        for span in spans:
            if span not in folds:
                folds[span] = _Fold.from_span(tested, *span, rerank)
    return [
        _evaluated(tested, truth, in_rows, [folds[span] for span in spans], reranked=rerank is not None)
        for truth, in_rows, spans in requests
    ]


def _evaluated(
    tested: TestSet, truth: Truth, in_rows: Truth, folds: Sequence[_Fold], *, reranked: bool
) -> Evaluation:
    """A test set under one truth; `in_rows`: the truth by the test set's rows."""
    counts = {}
    for fold in folds:
        part, inside = fold.part(in_rows)
        for task, fold_counts in rank_counts(fold.scores, part).items():
            if task not in counts:
                counts[task] = np.empty((2, len(in_rows.tasks[task].items)), np.int64)
            counts[task][:, inside[task]] = fold_counts
    return Evaluation(
        truth,
        tested.scores.words,
        (sum(fold.scores.shape[0] for fold in folds), sum(fold.scores.shape[1] for fold in folds)),
        task_ranks(truth, counts, folds[0].scores.depths),
        _correlations(truth, in_rows, folds[0].scores),
        _joined(folds) if reranked and not truth.by_people else {},
    )


@dataclass(frozen=True, eq=False)
class _Fold:
    """Images that are ranked among each other, with their captions."""

    images: slice
    captions: np.ndarray
    scores: Scores
    places: Mapping[str, np.ndarray]
    """`i`, `t`: place in the fold of each image and caption of the test set; -1 outside."""

    @classmethod
    def from_span(cls, tested: TestSet, start: int, stop: int, rerank: Rerank | None) -> _Fold:
        owner, images = tested.caption_to_image, slice(start, stop)
        captions = np.flatnonzero((owner >= start) & (owner < stop))
        scores = tested.scores if len(captions) == len(owner) else tested.scores.part(images, captions)
        if rerank is not None:
            scores = rerank(scores, images, captions)
        places = {kind: np.full(count, -1) for kind, count in zip("it", tested.scores.shape, strict=True)}
        places["i"][images], places["t"][captions] = np.arange(stop - start), np.arange(len(captions))
        return cls(images, captions, scores, places)

    def part(self, truth: Truth) -> tuple[Truth, dict[str, np.ndarray]]:
        """The part of a truth with the queries of the fold, and task → whether each positive of the truth is in it."""
        absent = len(self.captions) + np.arange(truth.absent)
        places = {**self.places, "t": np.append(self.places["t"], absent)}
        tasks, inside = {}, {}
        for task, positives in truth.tasks.items():
            asker, asked = (places[kind] for kind in kinds(task))
            queries, counts = asker[positives.queries], np.diff(positives.starts)
            asking = queries >= 0
            inside[task] = np.repeat(asking, counts)
            starts = np.append(0, np.cumsum(counts[asking]))
            tasks[task] = Positives(queries[asking], starts, asked[positives.items[inside[task]]])
        return replace(truth, tasks=tasks), inside


def _correlations(truth: Truth, in_rows: Truth, scores: Scores) -> dict[str, Correlation]:
    """Name of ratings → how scores of all images and captions go with them; `in_rows`: the truth by their rows."""
    correlations = {}
    for name, ratings in truth.ratings.items():
        within = scores if ratings.task == "i2t" else scores.among(ratings.task)
        if within is not None:
            rated = in_rows.ratings[name]
            order = np.argsort(rated.queries, kind="stable")
            rated_scores = np.empty(len(order))
            rated_scores[order] = within.pair_scores(rated.queries[order], rated.items[order], "i2t")
            images = truth.images_of(ratings.task, ratings.queries)
            correlations[name] = correlation(ratings, rated_scores, images)
    return correlations


def _joined(folds: Sequence[_Fold]) -> dict[str, np.ndarray]:
    """Re-ranked lists of all folds as `Evaluation.lists` has them."""
    # Captions of a fold need not stand together in the file.
    order = np.argsort(np.concatenate([fold.captions for fold in folds]))
    parts: dict[str, list[np.ndarray]] = {}
    for fold in folds:
        lists = fold.scores.arrays
        lists["i2t_items"] = fold.captions[lists["i2t_items"]]
        lists["t2i_items"] = fold.images.start + lists["t2i_items"]
        for name, array in lists.items():
            parts.setdefault(name, []).append(array)
    joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return {name: array[order] if name.startswith("t2i") else array for name, array in joined.items()}


def save(evaluations: Sequence[Evaluation], folder: Path) -> None:
    """Write `metrics.json` (protocol or truth → metrics) and `ranks.npz` (the ranks of every query) into a folder.

    Re-ranked lists are written too, as `best.npz`: `<protocol>_<part>` → an array of `Evaluation.lists`.
    """
    metrics = {evaluation.protocol: evaluation.to_dict() for evaluation in evaluations}
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1) + "\n")
    arrays = {name: array for evaluation in evaluations for name, array in evaluation.arrays.items()}
    write_arrays(folder / "ranks.npz", compressed=True, **arrays)
    lists = {
        f"{evaluation.protocol}_{part}": values
        for evaluation in evaluations
        for part, values in evaluation.lists.items()
    }
    if lists:
        write_arrays(folder / LISTS, compressed=True, **lists)
