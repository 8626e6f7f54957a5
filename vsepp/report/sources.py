"""Where models that are compared lie, and how each is read, all under one protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vsepp.base.declared import PROTOCOLS
from vsepp.base.errors import VseppError
from vsepp.base.manifest import MANIFEST, read_manifest
from vsepp.base.publish import evaluation_of
from vsepp.evaluation.evaluate import evaluate
from vsepp.evaluation.test_set import TestSet
from vsepp.evaluation.truth import DEFAULT_FOLD_SIZE, own_captions
from vsepp.report.entries import HISTORY_FILE, METRICS_FILE, RANKS_FILE
from vsepp.report.models import MeasuredModel, seed_folders, seed_in
from vsepp.report.records import read_results

Source = Path | MeasuredModel
"""Where a model's ranks are: an evaluation's folder, a file of embeddings, or a model that was read."""


def read_sides(
    models: Mapping[str, Source | Sequence[Source]], protocol: str | None, fold_size: int | None
) -> tuple[str, dict[str, list[MeasuredModel]]]:
    """The protocol under which models are compared, and each model's seeds; arguments and errors as of `vsepp.report.compare.compare`."""
    sides = {name: [_read(source) for source in _sources(model)] for name, model in models.items()}
    evaluated = [model for side in sides.values() for model in side if isinstance(model, MeasuredModel)]
    protocol = protocol or _common_protocol(evaluated)
    like = next((model for model in evaluated if protocol in model.metrics), None)
    # Embeddings are ranked in folds as large as the folds of the evaluations beside them.
    fold_size = fold_size or (like.metrics[protocol]["fold_size"] if like else DEFAULT_FOLD_SIZE)
    return protocol, {
        name: [
            _named(source, protocol, like)
            if isinstance(source, MeasuredModel)
            else _ranked(source, protocol, fold_size)
            for source in side
        ]
        for name, side in sides.items()
    }


def _sources(model: Source | Sequence[Source]) -> list[Source]:
    """Where each seed of a model lies."""
    sources: list[Source] = []
    for source in [model] if isinstance(model, str | Path | MeasuredModel) else model:
        sources += (
            [source] if isinstance(source, MeasuredModel) else seed_folders(Path(source)) or [Path(source)]
        )
    if not sources:
        raise VseppError("expected two models to compare, got none")
    return sources


def _read(source: Source) -> Source:
    """A model that was evaluated; a file of embeddings stays a path until its protocol is known."""
    if isinstance(source, MeasuredModel) or (source.exists() and not source.is_dir()):
        return source
    results, _, name = source.absolute().as_posix().rpartition("/runs/")
    evaluation = source if (source / METRICS_FILE).is_file() else Path(results, "evaluations", name)
    if not (evaluation / METRICS_FILE).is_file():
        raise VseppError(
            f"{source}: expected the folder of an evaluation, with {METRICS_FILE} and {RANKS_FILE}, or of a trained run that was evaluated "
            "(evaluations/ beside runs/), or an .npz of embeddings"
        )
    # The history, where it is that of this model, says whether the training collapsed.
    results, _, name = evaluation.absolute().as_posix().rpartition("/evaluations/")
    run = Path(results, "runs", name)
    trained = (run / HISTORY_FILE).is_file() and evaluation_of(run) == evaluation.absolute()
    return read_results(evaluation, run if trained else None, trained=trained)


def _common_protocol(models: Sequence[MeasuredModel]) -> str:
    """The first protocol that all evaluations have."""
    if not models:
        return "5K"
    for protocol in models[0].metrics:
        if all(_same_images(model, protocol, models[0]) for model in models):
            return protocol
    have = " and ".join(dict.fromkeys(", ".join(model.metrics) for model in models))
    raise VseppError(f"no protocol in common: they were evaluated under {have}; evaluate all under one")


def _same_images(model: MeasuredModel, protocol: str, like: MeasuredModel) -> str:
    """A model's name for what a protocol of another model ranks: the same protocol or, of one fold, another one of its images."""
    if protocol in model.metrics:
        return protocol
    wanted = like.metrics[protocol]
    for name, test in model.metrics.items():
        same = all(test[key] == wanted[key] for key in ("folds", "fold_size", "n_images"))
        if same and {name, protocol} <= set(PROTOCOLS):
            return name
    return ""


def _named(model: MeasuredModel, protocol: str, like: MeasuredModel | None) -> MeasuredModel:
    """A model with its ranks under the name of a protocol; `like`: a model that was evaluated under it."""
    name = _same_images(model, protocol, like) if like else protocol
    if name in ("", protocol):
        return model
    arrays = {
        protocol + key.removeprefix(name): array
        for key, array in model.arrays.items()
        if key.startswith(f"{name}_")
    }
    return replace(model, metrics={protocol: {**model.metrics[name], "protocol": protocol}}, arrays=arrays)


def _ranked(file: Path, protocol: str, fold_size: int) -> MeasuredModel:
    """The model of a file of embeddings, as they rank here."""
    tested = TestSet.read(file)
    (evaluation,) = evaluate(tested, [own_captions(tested.caption_to_image, protocol, fold_size)])
    test = evaluation.to_dict()
    ids = {}
    if tested.image_ids is not None:
        ids["image_ids"] = _ids_digest(tested.image_ids[: test["n_images"]])
    if tested.caption_ids is not None:
        ids["caption_ids"] = _ids_digest(tested.caption_ids[evaluation.truth.tasks["t2i"].queries])
    return MeasuredModel(
        name=file.stem,
        seed=seed_in(file),
        where=str(file),
        evaluated=read_manifest(file.parent) if (file.parent / MANIFEST).is_file() else {},
        metrics={protocol: test},
        arrays=evaluation.arrays,
        ids=ids,
    )


def _ids_digest(ids: np.ndarray) -> str:
    """Digest of ids in their order, whatever type holds them."""
    return hashlib.sha256("\n".join(map(str, ids.tolist())).encode()).hexdigest()
