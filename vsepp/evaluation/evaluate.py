"""Protocols: which test images are ranked against which, and over what metrics are averaged.

| name | folds | metrics |
|---|---|---|
| `1K` | the first `fold_size` images | of that fold (all of Flickr30K's 1,000) |
| `5x1K` | five consecutive folds of `fold_size` images | mean of each metric over the folds |
| `5K` | all images at once | of all images (all of COCO's 5,000) |

Folds follow the order of the test images' file. Recalls within a fold are higher than recalls over all images and
not comparable with them, so a result always names its protocol.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from vsepp.base.declared import PROTOCOLS
from vsepp.base.errors import VseppError
from vsepp.base.files import write_arrays, write_text
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.metrics import FOLDS, RetrievalMetrics, mean_metrics, retrieval_metrics
from vsepp.evaluation.ranks import (
    Ranks,
    by_caption,
    own_ranks,
    rank_positives,
    retrieval_ranks,
)
from vsepp.evaluation.scores import BestLists, ScoredSet, ScoreMatrix, similarity_text
from vsepp.evaluation.truth import own_captions

DEFAULT_FOLD_SIZE = 1000
LISTS = "best.npz"
"""File of the re-ranked lists, beside `ranks.npz`."""
Rerank = Callable[[Embeddings, slice, np.ndarray], BestLists]
"""The embeddings of a fold, and which images and captions of the whole test set it has → the best items of each query with new scores."""


class Scored(Protocol):
    """Results of a test set under a protocol or a truth, as they are written."""

    @property
    def protocol(self) -> str:
        """Name of the protocol or of the truth."""

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """`<protocol>_<part>` → an array of `ranks.npz`."""

    @property
    def lists(self) -> Mapping[str, np.ndarray]:
        """See `Evaluation.lists`."""

    def to_dict(self) -> dict:
        """All but the ranks, as `metrics.json` holds it."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The metrics of a set of embeddings under a protocol. Nothing is rounded."""

    protocol: str
    fold_size: int
    """Images per fold; all images with `5K`."""
    similarity: str
    """Name of the similarity, or the words of a `ScoredSet`."""
    per_fold: tuple[RetrievalMetrics, ...]
    ranks: Ranks
    """Each query's rank within its fold: queries are the images of the folds, and the captions in `caption_rows`."""
    caption_rows: np.ndarray
    """`(n_captions,)` int64, ascending: rows of the caption embeddings that were ranked."""
    caption_images: np.ndarray
    """`(n_captions,)` int64: the row of the image of each caption in `caption_rows`."""
    lists: Mapping[str, np.ndarray] = field(default_factory=dict)
    """`i2t_items`, `i2t_scores`, `t2i_items`, `t2i_scores`, `(n_queries, k)`, where the k best of each query were re-ranked: rows of the
    embeddings, the most similar first, and their new scores."""

    @property
    def reranked(self) -> int:
        """k, how many items of each query were re-ranked; 0: none."""
        return self.lists["t2i_items"].shape[1] if self.lists else 0

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """As `Scored.arrays`."""
        parts = {"i2t": self.ranks.i2t, "t2i": self.ranks.t2i}
        if self.ranks.i2t_all is not None:
            parts["i2t_captions"] = by_caption(self.ranks, self.caption_images)
        parts |= {"caption_rows": self.caption_rows, "caption_images": self.caption_images}
        return {f"{self.protocol}_{part}": array for part, array in parts.items()}

    @cached_property
    def metrics(self) -> RetrievalMetrics:
        """Mean over the folds."""
        return mean_metrics(self.per_fold)

    def __str__(self) -> str:
        """A small table of both directions to read; numbers are rounded here and nowhere else."""
        folds = len(self.per_fold)
        lines = [
            f"protocol {self.protocol}: {folds} fold{'s' * (folds > 1)} of {self.fold_size} images, "
            f"{len(self.caption_rows)} captions in all, {similarity_text(self.similarity)}"
            + (f", re-ranked, {self.reranked} of {self.fold_size}" if self.lists else ""),
            f"{'':<32}{'R@1':>7}{'R@5':>7}{'R@10':>7}{'Med r':>8}{'Mean r':>9}",
        ]
        metrics = self.metrics
        for name, side in (
            ("caption retrieval (image→text)", metrics.i2t),
            ("image retrieval (text→image)", metrics.t2i),
        ):
            lines.append(
                f"{name:<32}{side.r1:>7.1f}{side.r5:>7.1f}{side.r10:>7.1f}{side.medr:>8.1f}{side.meanr:>9.1f}"
            )
        return "\n".join([*lines, f"rsum {metrics.rsum:.1f}"])

    def to_dict(self) -> dict:
        """All but the ranks, as `metrics.json` holds it."""
        return {
            "protocol": self.protocol,
            "fold_size": self.fold_size,
            "folds": len(self.per_fold),
            "n_images": len(self.ranks.i2t),
            "n_captions": len(self.ranks.t2i),
            "similarity": self.similarity,
            **({"reranked": self.reranked} if self.lists else {}),
            **self.metrics.to_dict(),
            "per_fold": [fold.to_dict() for fold in self.per_fold],
        }


def evaluate(
    tested: Embeddings | ScoredSet,
    protocol: str,
    fold_size: int = DEFAULT_FOLD_SIZE,
    rerank: Rerank | None = None,
) -> Evaluation:
    """Rank a test set under a protocol.

    Parameters
    ----------
    tested
        The whole test set, images in file order.
    protocol
        `1K`, `5x1K` or `5K`.
    fold_size
        Images per fold; not used by `5K`.
    rerank
        Scores the best items of each fold of embeddings anew; other items are tied below. `None`: the scores alone rank.

    Raises
    ------
    VseppError
        On an unknown protocol, a fold size below 1, fewer images than the protocol needs, and lists that the protocol cuts into folds.
    """
    owner = tested.caption_to_image
    folds = protocol_folds(protocol, int(owner.max()) + 1, fold_size)  # each image has a caption
    t2i, i2t_captions = np.empty((2, len(owner)))
    found, rows_of, best = [], [], []
    for fold in folds:
        rows = np.flatnonzero((owner >= fold.start) & (owner < fold.stop))
        part = _part(tested, fold, rows)
        if rerank is None or isinstance(part, ScoredSet):
            found.append(retrieval_ranks(part))
        else:
            best.append(rerank(part, fold, rows))
            found.append(rank_positives(best[-1], own_captions(part.caption_to_image)))
        rows_of.append(rows)
        t2i[rows], i2t_captions[rows] = found[-1].t2i, by_caption(found[-1], owner[rows])
    caption_rows = np.flatnonzero(owner < folds[-1].stop)
    return Evaluation(
        protocol=protocol,
        fold_size=folds[0].stop,
        similarity=tested.similarity if isinstance(tested, ScoredSet) else tested.similarity.name,
        per_fold=tuple(map(retrieval_metrics, found)),
        ranks=own_ranks(t2i[caption_rows], i2t_captions[caption_rows], owner[caption_rows]),
        caption_rows=caption_rows,
        caption_images=owner[caption_rows],
        lists=_joined(folds, rows_of, best),
    )


def _joined(
    folds: Sequence[slice], caption_rows: Sequence[np.ndarray], best: Sequence[BestLists]
) -> dict[str, np.ndarray]:
    """Lists of all folds as `Evaluation.lists` has them, from each fold's images, captions and lists."""
    if not best:
        return {}
    i2t, t2i = (list(zip(*(one.lists[task] for one in best), strict=True)) for task in ("i2t", "t2i"))
    # Captions of a fold need not stand together in the file.
    order = np.argsort(np.concatenate(caption_rows))
    captions = [rows[items] for rows, items in zip(caption_rows, i2t[0], strict=True)]
    images = [fold.start + items for fold, items in zip(folds, t2i[0], strict=True)]
    return {
        "i2t_items": np.concatenate(captions),
        "i2t_scores": np.concatenate(i2t[1]),
        "t2i_items": np.concatenate(images)[order],
        "t2i_scores": np.concatenate(t2i[1])[order],
    }


def _part(tested: Embeddings | ScoredSet, images: slice, captions: np.ndarray) -> Embeddings | ScoredSet:
    """The part of a test set with a range of images and their captions, given by row."""
    owner = tested.caption_to_image[captions] - images.start
    if not isinstance(tested, ScoredSet):
        rows = tested.caption_embeddings
        some = rows if len(captions) == len(rows) else rows[captions]
        return Embeddings(tested.image_embeddings[images], some, owner, tested.similarity)
    if tested.scores.shape == (images.stop - images.start, len(captions)):
        return tested
    if not isinstance(tested.scores, ScoreMatrix):
        raise VseppError(
            f"{tested.similarity}: expected protocol 5K, which ranks all images at once; a list of the whole gallery holds few "
            "items of a fold, and recalls from these would be too low; give a matrix of scores or embeddings"
        )
    return ScoredSet(ScoreMatrix(tested.scores.scores[images][:, captions]), owner, tested.similarity)


def save(evaluations: Sequence[Scored], folder: Path) -> None:
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


def protocol_folds(protocol: str, n_images: int, fold_size: int = DEFAULT_FOLD_SIZE) -> list[slice]:
    """Ranges of test images that a protocol ranks among themselves; errors as in `evaluate`."""
    if protocol not in PROTOCOLS:
        raise VseppError(f"protocol: expected one of {', '.join(PROTOCOLS)}, got {protocol!r}")
    if protocol == "5K":
        return [slice(0, n_images)]
    if fold_size < 1:
        raise VseppError(f"fold size: expected at least 1 image, got {fold_size}")
    folds = FOLDS[protocol]
    if n_images < folds * fold_size:
        raise VseppError(
            f"protocol {protocol} needs {folds} × {fold_size} = {folds * fold_size} test images, "
            f"got {n_images}; give a smaller fold size, or use protocol 5K, which ranks all images at once"
        )
    return [slice(start, start + fold_size) for start in range(0, folds * fold_size, fold_size)]
