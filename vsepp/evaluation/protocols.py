"""Protocols: which test images are ranked against which, and whose metrics are averaged.

| name | folds | metrics |
|---|---|---|
| `1K` | the first `fold_size` images | of that fold (all of Flickr30K's 1,000) |
| `5x1K` | five consecutive folds of `fold_size` images | mean of each metric over the folds |
| `5K` | all images at once | of all images (all of COCO's 5,000) |

Folds follow the order of the test images' file. A single fold's score is higher than that of all
images and not comparable with it, so a record keeps its protocol.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vsepp.errors import VseppError
from vsepp.evaluation.embeddings import Embeddings, write_arrays
from vsepp.evaluation.metrics import RetrievalMetrics, mean_metrics, retrieval_metrics
from vsepp.evaluation.ranks import Ranks, retrieval_ranks
from vsepp.provenance.manifest import write_text

PROTOCOLS = ("1K", "5x1K", "5K")
DEFAULT_FOLD_SIZE = 1000
_FOLDS = {"1K": 1, "5x1K": 5}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a protocol says of a set of embeddings. Nothing is rounded."""

    protocol: str
    fold_size: int
    """Images of a fold: with `5K` all of them."""
    n_images: int
    """Images that were ranked, all folds together."""
    n_captions: int
    similarity: str
    """Its name."""
    metrics: RetrievalMetrics
    """Mean over the folds."""
    per_fold: tuple[RetrievalMetrics, ...]
    ranks: Ranks
    """Each query's rank within its fold: images `0 … n_images-1`, captions as `caption_rows` names them."""
    caption_rows: np.ndarray
    """`(n_captions,)` int64, ascending: rows of the caption embeddings that were ranked."""

    def to_dict(self) -> dict:
        """All but the ranks, as `metrics.json` holds it."""
        return {
            "protocol": self.protocol,
            "fold_size": self.fold_size,
            "folds": len(self.per_fold),
            "n_images": self.n_images,
            "n_captions": self.n_captions,
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
    n_images = folds[-1].stop
    i2t, t2i = np.empty(n_images), np.empty(len(embeddings.caption_to_image))
    per_fold = []
    for fold in folds:
        ranks, captions = _fold_ranks(embeddings, fold)
        i2t[fold], t2i[captions] = ranks.i2t, ranks.t2i
        per_fold.append(retrieval_metrics(ranks))
    caption_rows = np.flatnonzero(embeddings.caption_to_image < n_images)
    return Evaluation(
        protocol=protocol,
        fold_size=folds[0].stop,
        n_images=n_images,
        n_captions=len(caption_rows),
        similarity=embeddings.similarity.name,
        metrics=mean_metrics(per_fold),
        per_fold=tuple(per_fold),
        ranks=Ranks(i2t, t2i[caption_rows]),
        caption_rows=caption_rows,
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


def protocol_folds(protocol: str, n_images: int, fold_size: int = DEFAULT_FOLD_SIZE) -> list[slice]:
    """Ranges of test images that a protocol ranks among themselves; errors as in `evaluate`."""
    if protocol not in PROTOCOLS:
        raise VseppError(f"protocol: expected one of {', '.join(PROTOCOLS)}, got {protocol!r}")
    if protocol == "5K":
        return [slice(0, n_images)]
    if fold_size < 1:
        raise VseppError(f"fold size: expected at least 1 image, got {fold_size}")
    folds = _FOLDS[protocol]
    if n_images < folds * fold_size:
        raise VseppError(
            f"protocol {protocol} needs {folds} × {fold_size} = {folds * fold_size} test images, "
            f"got {n_images}; give a smaller fold size, or take protocol 5K, which ranks all images at once"
        )
    return [slice(start, start + fold_size) for start in range(0, folds * fold_size, fold_size)]


def format_summary(evaluation: Evaluation) -> str:
    """A small table of both directions for people; figures are rounded here and nowhere else."""
    folds = f"{len(evaluation.per_fold)} fold" + ("" if len(evaluation.per_fold) == 1 else "s")
    lines = [
        f"protocol {evaluation.protocol}: {folds} of {evaluation.fold_size} images, "
        f"{evaluation.n_captions} captions in all, {evaluation.similarity} similarity",
        f"{'':<32}{'R@1':>7}{'R@5':>7}{'R@10':>7}{'Med r':>8}{'Mean r':>9}",
    ]
    directions = {
        "caption retrieval (image→text)": evaluation.metrics.i2t,
        "image retrieval (text→image)": evaluation.metrics.t2i,
    }
    for name, side in directions.items():
        lines.append(
            f"{name:<32}{side.r1:>7.1f}{side.r5:>7.1f}{side.r10:>7.1f}{side.medr:>8.1f}{side.meanr:>9.1f}"
        )
    return "\n".join([*lines, f"rsum {evaluation.metrics.rsum:.1f}"])


def _fold_ranks(embeddings: Embeddings, fold: slice) -> tuple[Ranks, np.ndarray]:
    """Ranks within a fold, and the rows of its captions in file order."""
    owner = embeddings.caption_to_image
    captions = np.flatnonzero((owner >= fold.start) & (owner < fold.stop))
    selected = embeddings.caption_embeddings
    if len(captions) < len(owner):
        selected = selected[captions]
    ranks = retrieval_ranks(
        embeddings.image_embeddings[fold], selected, owner[captions] - fold.start, embeddings.similarity
    )
    return ranks, captions
