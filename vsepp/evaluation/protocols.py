"""Scores of a test set under a protocol: ranks and metrics of each fold, and their mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from vsepp.evaluation.embeddings import Embeddings, write_arrays
from vsepp.evaluation.folds import DEFAULT_FOLD_SIZE, protocol_folds
from vsepp.evaluation.metrics import RetrievalMetrics, mean_metrics, retrieval_metrics
from vsepp.evaluation.ranks import Ranks, retrieval_ranks
from vsepp.provenance.manifest import write_text


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a protocol says of a set of embeddings. Nothing is rounded."""

    protocol: str
    fold_size: int
    """Images of a fold: with `5K` all of them."""
    similarity: str
    """Its name."""
    per_fold: tuple[RetrievalMetrics, ...]
    ranks: Ranks
    """Each query's rank within its fold: the first images, and captions as `caption_rows` names them."""
    caption_rows: np.ndarray
    """`(n_captions,)` int64, ascending: rows of the caption embeddings that were ranked."""

    @cached_property
    def metrics(self) -> RetrievalMetrics:
        """Mean over the folds."""
        return mean_metrics(self.per_fold)

    def to_dict(self) -> dict:
        """All but the ranks, as `metrics.json` holds it."""
        return {
            "protocol": self.protocol,
            "fold_size": self.fold_size,
            "folds": len(self.per_fold),
            "n_images": len(self.ranks.i2t),
            "n_captions": len(self.ranks.t2i),
            "similarity": self.similarity,
            **self.metrics.to_dict(),
            "per_fold": [fold.to_dict() for fold in self.per_fold],
        }


def evaluate(embeddings: Embeddings, protocol: str, fold_size: int = DEFAULT_FOLD_SIZE) -> Evaluation:
    """Rank a test set's embeddings under a protocol.

    Parameters
    ----------
    embeddings
        Of the whole test set, images in the order of its file.
    protocol
        `1K`, `5x1K` or `5K`.
    fold_size
        Images of a fold; `5K` does not use it.

    Raises
    ------
    VseppError
        On an unknown protocol, a fold size below 1, and fewer images than the protocol needs.
    """
    folds = protocol_folds(protocol, len(embeddings.image_embeddings), fold_size)
    owner, t2i = embeddings.caption_to_image, np.empty(len(embeddings.caption_to_image))
    found = []
    for fold in folds:
        rows = np.flatnonzero((owner >= fold.start) & (owner < fold.stop))
        found.append(retrieval_ranks(_part(embeddings, fold, rows)))
        t2i[rows] = found[-1].t2i
    caption_rows = np.flatnonzero(owner < folds[-1].stop)
    return Evaluation(
        protocol=protocol,
        fold_size=folds[0].stop,
        similarity=embeddings.similarity.name,
        per_fold=tuple(map(retrieval_metrics, found)),
        ranks=Ranks(np.concatenate([ranks.i2t for ranks in found]), t2i[caption_rows]),
        caption_rows=caption_rows,
    )


def _part(embeddings: Embeddings, images: slice, captions: np.ndarray) -> Embeddings:
    """The embeddings of a range of images and of the rows of their captions."""
    rows = embeddings.caption_embeddings
    return Embeddings(
        embeddings.image_embeddings[images],
        rows if len(captions) == len(rows) else rows[captions],
        embeddings.caption_to_image[captions] - images.start,
        embeddings.similarity,
    )


def save(evaluations: Sequence[Evaluation], folder: Path) -> None:
    """Write `metrics.json` (protocol → metrics) and `ranks.npz` (the ranks of every query) into a folder."""
    metrics = {evaluation.protocol: evaluation.to_dict() for evaluation in evaluations}
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1) + "\n")
    ranks: dict[str, np.ndarray] = {}
    for evaluation in evaluations:
        ranks[f"{evaluation.protocol}_i2t"] = evaluation.ranks.i2t
        ranks[f"{evaluation.protocol}_t2i"] = evaluation.ranks.t2i
        ranks[f"{evaluation.protocol}_caption_rows"] = evaluation.caption_rows
    write_arrays(folder / "ranks.npz", **ranks)


def format_summary(evaluation: Evaluation) -> str:
    """A small table of both directions for people; figures are rounded here and nowhere else."""
    folds = len(evaluation.per_fold)
    lines = [
        f"protocol {evaluation.protocol}: {folds} fold{'s' * (folds > 1)} of {evaluation.fold_size} images, "
        f"{len(evaluation.caption_rows)} captions in all, {evaluation.similarity} similarity",
        f"{'':<32}{'R@1':>7}{'R@5':>7}{'R@10':>7}{'Med r':>8}{'Mean r':>9}",
    ]
    metrics = evaluation.metrics
    for name, side in (
        ("caption retrieval (image→text)", metrics.i2t),
        ("image retrieval (text→image)", metrics.t2i),
    ):
        lines.append(
            f"{name:<32}{side.r1:>7.1f}{side.r5:>7.1f}{side.r10:>7.1f}{side.medr:>8.1f}{side.meanr:>9.1f}"
        )
    return "\n".join([*lines, f"rsum {metrics.rsum:.1f}"])
