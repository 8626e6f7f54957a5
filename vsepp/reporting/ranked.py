"""How models that are compared rank one test set: read from evaluations or from embeddings, anyone's, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.data.arrays import read_arrays
from vsepp.errors import VseppError
from vsepp.evaluation import protocols
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.ranks import Ranks, kept_ranks
from vsepp.provenance.manifest import MANIFEST, read_manifest, require_intact
from vsepp.provenance.studies import METRICS, RANKS, Kept
from vsepp.reporting import filters
from vsepp.reporting.records import TEST_IMAGES, Corpus, corpus_of
from vsepp.user_files import json_of, text_of

_ARRAYS = ("i2t", "t2i", "i2t_captions", "caption_rows", "caption_images")
_NEEDED = ("protocol", "folds", *TEST_IMAGES, "similarity", "rsum")
_TEST_NAMES = ("images of a fold", "test images", "test captions")

Source = Path | Kept
"""Where a model's ranks are: an evaluation's folder, a file of embeddings, or a record."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """One model of one seed, and how it ranks a test set under a protocol."""

    source: str
    """Folder or file."""
    seed: int | None
    """`None` where it is not known."""
    metrics: dict[str, Any]
    """A section of metrics.json."""
    ranks: Ranks
    caption_images: np.ndarray
    """`(n_captions,)`: row of each ranked caption's image."""
    corpus: Corpus | None
    """What was embedded; `None` where it is not known."""


def read_two(
    first: Source | Sequence[Source],
    second: Source | Sequence[Source],
    protocol: str | None,
    fold_size: int | None,
) -> tuple[list[Ranked], list[Ranked]]:
    """Read two models, of the seeds that are compared; parameters and errors as in `vsepp.reporting.compare.compare`."""
    sides = [[_read(source) for source in _sources(side)] for side in (first, second)]
    evaluations = [source for side in sides for source in side if isinstance(source, Kept)]
    protocol = protocol or _common_protocol(evaluations)
    # Embeddings are ranked in folds as large as those of the evaluations that they stand beside.
    sizes = [one.metrics[protocol]["fold_size"] for one in evaluations if protocol in one.metrics]
    fold_size = fold_size or next(iter(sizes), protocols.DEFAULT_FOLD_SIZE)
    models = [[_ranked(source, protocol, fold_size) for source in side] for side in sides]
    a, b = _paired(*models)
    for model in (*a, *b):
        _require_same_test(a[0], model)
    return a, b


def _sources(model: Source | Sequence[Source]) -> list[Source]:
    """Where each seed of a model lies."""
    sources: list[Source] = []
    for source in [model] if isinstance(model, str | Path | Kept) else model:
        if isinstance(source, Kept):
            sources.append(source)
            continue
        seeds = sorted(Path(source).glob("seed-*"), key=lambda path: (len(path.name), path.name))
        sources += seeds or [Path(source)]
    if not sources:
        raise VseppError("expected two models to compare, got none")
    return sources


def _read(source: Source) -> Source:
    """What is kept of an evaluation; a file of embeddings stays a path until it is known under which protocol it is ranked."""
    if isinstance(source, Kept) or source.is_file():
        return source
    folder = _evaluation(source)
    has_manifest = (folder / MANIFEST).is_file()
    if has_manifest:
        require_intact(folder, METRICS, RANKS)
    metrics = json_of(text_of(folder / METRICS, "the metrics of an evaluation"), str(folder / METRICS))
    try:
        is_complete = all({*_NEEDED} <= set(section) for section in metrics.values())
    except (TypeError, AttributeError):
        is_complete = False
    if not is_complete:
        raise VseppError(
            f"{folder / METRICS}: expected protocol → metrics with {', '.join(_NEEDED)}, as `vsepp evaluate` writes it"
        )
    names = [f"{protocol}_{part}" for protocol in metrics for part in _ARRAYS]
    try:
        arrays = read_arrays(folder / RANKS, names, "ranks")
    except VseppError as error:
        raise VseppError(f"{error}. Evaluate the model again") from error
    return Kept(
        where=str(folder),
        evaluated=read_manifest(folder) if has_manifest else {},
        trained=None,
        metrics=metrics,
        history="",
        arrays=arrays,
    )


def _evaluation(path: Path) -> Path:
    """The evaluation that a path names: itself, or the one beside a run."""
    if (path / METRICS).is_file() and (path / RANKS).is_file():
        return path
    results, is_run, name = path.absolute().as_posix().rpartition("/runs/")
    if not is_run:
        raise VseppError(
            f"{path}: expected a folder with {METRICS} and {RANKS}, a trained run's folder or an .npz of embeddings"
        )
    beside = Path(results, "evaluations", name)
    if not (beside / METRICS).is_file():
        raise VseppError(
            f"{path}: its evaluation is not there; expected {beside / METRICS}: evaluate the run first"
        )
    return beside


def _common_protocol(evaluations: Sequence[Kept]) -> str:
    """The first protocol that all evaluations have."""
    if not evaluations:
        return "5K"
    listed = [list(evaluation.metrics) for evaluation in evaluations]
    common = [protocol for protocol in listed[0] if all(protocol in names for names in listed)]
    if not common:
        have = " and ".join(dict.fromkeys(map(", ".join, listed)))
        raise VseppError(f"no protocol in common: they were evaluated under {have}; evaluate both under one")
    return common[0]


def _ranked(source: Source, protocol: str, fold_size: int) -> Ranked:
    """How a model ranks its test set: as it was evaluated, or embeddings here."""
    if isinstance(source, Path):
        made = protocols.evaluate(Embeddings.load(source), protocol, fold_size)
        manifest = read_manifest(source.parent) if (source.parent / MANIFEST).is_file() else {}
        corpus = corpus_of(manifest)
        return Ranked(str(source), _seed(source), made.to_dict(), made.ranks, made.caption_images, corpus)
    if protocol not in source.metrics:
        raise VseppError(f"{source.where}: no protocol {protocol}; it has {', '.join(source.metrics)}")
    try:
        ranks = kept_ranks(source.arrays, protocol)
    except KeyError as error:
        raise VseppError(
            f"{source.where}/{RANKS}: has no {error.args[0]}; evaluate the model again"
        ) from error
    except VseppError as error:
        raise VseppError(f"{source.where}/{RANKS}: {error}. Evaluate the model again") from error
    return Ranked(
        source.where,
        _seed(Path(source.where)),
        source.metrics[protocol],
        ranks,
        source.arrays[f"{protocol}_caption_images"],
        corpus_of(source.evaluated),
    )


def _seed(path: Path) -> int | None:
    """The seed that a path names."""
    named = [part.removeprefix("seed-") for part in path.absolute().parts if part.startswith("seed-")]
    return int(named[-1]) if named and named[-1].isdecimal() else None


def _paired(first: Sequence[Ranked], second: Sequence[Ranked]) -> tuple[list[Ranked], list[Ranked]]:
    """Both models of the seeds that are compared."""
    sides = (first, second)
    if len(first) == len(second) == 1 or any(len(side) == 1 and side[0].seed is None for side in sides):
        pairs = max(map(len, sides))
        a, b = (list(side) * (pairs // len(side)) for side in sides)
        return a, b
    by_seed: list[dict[int | None, Ranked]] = [{}, {}]
    for models, of_side in zip(sides, by_seed, strict=True):
        for model in models:
            if of_side.setdefault(model.seed, model) is not model and model.seed is not None:
                raise VseppError(
                    f"seed {model.seed} is given twice, of {model.source} among others; keep one"
                )
    common = sorted(seed for seed in by_seed[0] if seed is not None and seed in by_seed[1])
    if not common:
        a_has, b_has = (filters.listing(sorted(map(str, side))) for side in by_seed)
        raise VseppError(f"no seed in common: A has {a_has}, B has {b_has}; name one seed's folder of each")
    a, b = ([side[seed] for seed in common] for side in by_seed)
    return a, b


def _require_same_test(first: Ranked, other: Ranked) -> None:
    """Refuse a model that ranks other images or captions than the first one."""
    for key, name in zip(TEST_IMAGES, _TEST_NAMES, strict=True):
        if first.metrics[key] != other.metrics[key]:
            raise VseppError(
                f"not the same test set: {first.source} has {first.metrics[key]} {name}, "
                f"{other.source} has {other.metrics[key]}"
            )
    if first.corpus and other.corpus and not first.corpus.equals(other.corpus):
        raise VseppError(
            f"not the same test set: images and captions of {first.source} are those of {first.corpus}, of {other.source} those "
            f"of {other.corpus}; image by image they cannot be compared. Evaluate both on one test set"
        )
    differs = np.flatnonzero(first.caption_images != other.caption_images)
    if differs.size:
        row = differs[0]
        raise VseppError(
            f"not the same test set: the captions belong to other images; ranked caption {row} to image "
            f"{first.caption_images[row]} in {first.source}, to image {other.caption_images[row]} in {other.source}"
        )
