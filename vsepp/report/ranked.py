"""Models that are compared: read from evaluations or from embeddings, anyone's, and paired seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from vsepp.base.errors import VseppError
from vsepp.base.manifest import MANIFEST, read_manifest
from vsepp.evaluation import evaluate as protocols
from vsepp.evaluation.embeddings import Embeddings
from vsepp.report import text
from vsepp.report.models import TEST_IMAGES, Ranked, scores
from vsepp.report.records import METRICS_FILE, RANKS_FILE, Kept, read_results

Source = Path | Kept
"""Where a model's ranks are: an evaluation's folder, a file of embeddings, or a record."""


def read_models(
    models: Mapping[str, Source | Sequence[Source]], protocol: str | None, fold_size: int | None
) -> tuple[dict[str, list[Ranked]], str]:
    """Read models by name, with the seeds that are compared, and the protocol; parameters and errors as in
    `vsepp.report.compare.compare`."""
    sides = {name: [_read(source) for source in _sources(model)] for name, model in models.items()}
    evaluations = [source for side in sides.values() for source in side if isinstance(source, Kept)]
    protocol = protocol or _common_protocol(evaluations)
    # Embeddings are ranked in folds as large as the folds of the evaluations beside them.
    sizes = [kept.metrics[protocol]["fold_size"] for kept in evaluations if protocol in kept.metrics]
    fold_size = fold_size or next(iter(sizes), protocols.DEFAULT_FOLD_SIZE)
    ranked = {name: [_ranked(source, protocol, fold_size) for source in side] for name, side in sides.items()}
    paired = _paired(ranked)
    # Refuses models of different test images.
    scores([one for side in paired.values() for one in side], protocol, TEST_IMAGES)
    return paired, protocol


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
    """What is kept of an evaluation; a file of embeddings stays a path until its protocol is known."""
    if isinstance(source, Kept) or source.is_file():
        return source
    results, _, name = source.absolute().as_posix().rpartition("/runs/")
    evaluation = source if (source / METRICS_FILE).is_file() else Path(results, "evaluations", name)
    if not (evaluation / METRICS_FILE).is_file():
        raise VseppError(
            f"{source}: expected the folder of an evaluation, with {METRICS_FILE} and {RANKS_FILE}, or of a trained run that was evaluated "
            "(evaluations/ beside runs/), or an .npz of embeddings"
        )
    return read_results(None, evaluation, trained=False)


def _common_protocol(evaluations: Sequence[Kept]) -> str:
    """The first protocol that all evaluations have."""
    if not evaluations:
        return "5K"
    listed = [list(evaluation.metrics) for evaluation in evaluations]
    common = [protocol for protocol in listed[0] if all(protocol in names for names in listed)]
    if not common:
        have = " and ".join(dict.fromkeys(map(", ".join, listed)))
        raise VseppError(f"no protocol in common: they were evaluated under {have}; evaluate all under one")
    return common[0]


def _ranked(source: Source, protocol: str, fold_size: int) -> Ranked:
    """A model as it was evaluated, or as its embeddings rank here."""
    if isinstance(source, Kept):
        return Ranked(source)
    evaluation = protocols.evaluate(Embeddings.load(source), protocol, fold_size)
    return Ranked(
        Kept(
            where=str(source),
            evaluated=read_manifest(source.parent) if (source.parent / MANIFEST).is_file() else {},
            trained=None,
            metrics={protocol: evaluation.to_dict()},
            history="",
            arrays=evaluation.arrays,
        )
    )


def seed_of(model: Ranked) -> int | None:
    """The last seed in the path of a model; `None` where the path names none."""
    parts = Path(model.kept.where).absolute().parts
    seeds = [part.removeprefix("seed-") for part in parts if part.startswith("seed-")]
    return int(seeds[-1]) if seeds and seeds[-1].isdecimal() else None


def _paired(models: Mapping[str, list[Ranked]]) -> dict[str, list[Ranked]]:
    """All models of the seeds that are compared; a model without a seed stands beside each seed of the others."""
    several = {name: side for name, side in models.items() if len(side) > 1 or seed_of(side[0]) is not None}
    if all(len(side) == 1 for side in models.values()):
        return dict(models)
    if len(several) > 1:
        several = _of_common_seeds(several)
    seeds = max(map(len, several.values()))
    return {name: several.get(name, side * seeds) for name, side in models.items()}


def _of_common_seeds(models: Mapping[str, list[Ranked]]) -> dict[str, list[Ranked]]:
    by_seed = {name: {seed_of(model): model for model in side} for name, side in models.items()}
    for name, side in models.items():
        if len(by_seed[name]) < len(side):
            places = text.listing(model.kept.where for model in side)
            raise VseppError(f"a seed is given twice, or none is named: {places}; give one folder a seed")
    common = set.intersection(*({seed for seed in seeds if seed is not None} for seeds in by_seed.values()))
    if not common:
        have = (f"{name} has {text.listing(sorted(map(str, of)))}" for name, of in by_seed.items())
        raise VseppError(f"no seed in common: {', '.join(have)}; name one seed's folder of each")
    return {name: [seeds[seed] for seed in sorted(common)] for name, seeds in by_seed.items()}
