"""Models on the same test images: which is ahead, in what, and how sure that is.

A model is an evaluation's folder (`metrics.json` and `ranks.npz`), several such folders, one a seed, or a file of
embeddings, of anyone's model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

from vsepp.base.declared import PROTOCOLS
from vsepp.base.errors import VseppError
from vsepp.base.manifest import MANIFEST, read_manifest
from vsepp.base.progress import table
from vsepp.base.publish import evaluation_of
from vsepp.evaluation import intervals
from vsepp.evaluation.evaluate import evaluate
from vsepp.evaluation.intervals import Effect, Level
from vsepp.evaluation.metrics import AVERAGED, COMPARED, RECALLS
from vsepp.evaluation.test_set import TestSet
from vsepp.evaluation.truth import DEFAULT_FOLD_SIZE, own_captions
from vsepp.report import text
from vsepp.report.models import (
    HISTORY_FILE,
    METRICS_FILE,
    RANKS_FILE,
    Model,
    Paired,
    ids_digest,
    level,
    pair,
    read_results,
    seed_in,
)

Source = Path | Model
"""Where a model's ranks are: an evaluation's folder, a file of embeddings, or a model that was read."""
ONE_SEED = "One seed settles nothing: another seed may rank the models otherwise."


@dataclass(frozen=True, eq=False)
class Comparison:
    """All that is said of two or more models."""

    paired: Paired
    protocol: str
    levels: Mapping[str, Mapping[str, Level]]
    """Metric → model → its level; of more than two models the best first."""
    effects: Mapping[str, Mapping[tuple[str, str], Effect]]
    """Metric → two models, in the order of the levels → how much larger the first one's value is, all corrected together."""

    @property
    def models(self) -> tuple[str, ...]:
        """Names in the order of the first metric."""
        return tuple(next(iter(self.levels.values())))

    @property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """Model → its folders or files."""
        return {
            name: tuple(dict.fromkeys(model.where for model in side))
            for name, side in self.paired.models.items()
        }

    @property
    def test(self) -> dict[str, Any]:
        """`protocol`, `folds`, `fold_size`, `n_images`, `n_captions`, which all share."""
        tested = next(iter(self.paired.models.values()))[0].tested(self.protocol)
        return {key: tested[key] for key in ("protocol", "folds", "fold_size", "n_images", "n_captions")}

    @cached_property
    def mcnemar(self) -> dict[str, list[float]]:
        """Metric → per seed the exact McNemar test; of caption retrieval's R@1 of two models alone."""
        if len(self.models) > 2 or self.paired.trouble or "i2t_r1" not in self.levels:
            return {}
        values = (
            [model.values(self.protocol, "i2t_r1") for model in side] for side in self.paired.models.values()
        )
        return {"i2t_r1": list(map(intervals.mcnemar, *values))}

    @property
    def warnings(self) -> list[str]:
        """What a reader should know of the models and the test set."""
        sides, warnings = self.paired.models, [*self.paired.left_out]
        if self.paired.common:
            warnings.append(self.paired.common)
        if len(self.paired.seeds) == 1:
            each = "side" if len(sides) == 2 else "model"
            warnings.append(f"one seed per {each}: the result of another seed is unknown")
        elif single := [name for name, side in sides.items() if side[0].seed is None]:
            warnings.append(
                f"{text.listing(single)}: one model beside each seed of the others, not several seeds"
            )
        similarities = {
            name: text.listing(dict.fromkeys(model.tested(self.protocol)["similarity"] for model in side))
            for name, side in sides.items()
        }
        if len(set(similarities.values())) > 1:
            (first, similarity), *others = similarities.items()
            others_rank = "".join(f", {name} by {other}" for name, other in others)
            warnings.append(f"{first} ranks by {similarity} similarity{others_rank}")
        seeds = {name: seed for name, side in sides.items() if (seed := side[0].seed) is not None}
        if len(set(seeds.values())) > 1:
            warnings.append(", ".join(f"{name} has seed {seed}" for name, seed in seeds.items()))
        warnings += [f"{name} {why}, so it is in no comparison" for name, why in self.paired.trouble.items()]
        if self.paired.doubts:
            where = text.listing(self.paired.doubts)
            warnings.append(
                f"no ids and no corpus tell whether these rank the same images and captions: {where}"
            )
        return warnings

    def to_dict(self) -> dict[str, Any]:
        """Nothing rounded; of two models by `a` and `b`, of more all pairs."""
        shared = {"seeds": list(self.paired.seeds), "warnings": self.warnings}
        if len(self.models) == 2:
            a, b = (list(where) for where in self.sources.values())
            metrics = {metric: self._pair(metric) for metric in self.levels}
            return {"a": a, "b": b, **self.test, **shared, "metrics": metrics}
        standings = {
            metric: [self._standing(metric, name) for name in of] for metric, of in self.levels.items()
        }
        return {"sources": self.sources, "test": self.test, **shared, "standings": standings}

    def _pair(self, metric: str) -> dict[str, Any]:
        levels = self.levels[metric].values()
        told: dict[str, Any] = dict(zip("ab", (level.mean for level in levels), strict=True))
        for effect in self.effects[metric].values():
            images, seeds = effect.images, effect.seeds
            told |= {
                "difference": effect.value,
                "by_seed": list(effect.by_seed),
                "interval_images": images and [images.low, images.high],
                "interval_seeds": seeds and [seeds.low, seeds.high],
                "p": effect.p_alone,
                "p_holm": effect.p,
                "mcnemar": self.mcnemar.get(metric, []),
                "verdict": " ".join(self._sentences([metric])),
            }
        return told

    def _standing(self, metric: str, name: str) -> dict[str, Any]:
        level = self.levels[metric][name]
        above = {
            second: {"effect": asdict(effect), "p": effect.p}
            for (first, second), effect in self.effects[metric].items()
            if first == name
        }
        return {
            "label": name,
            "n_seeds": len(level.by_seed),
            "trouble": self.paired.trouble.get(name, ""),
            "level": level.mean,
            "images": level.images and asdict(level.images),
            "seeds": level.seeds and asdict(level.seeds),
            "above": above,
        }

    def __str__(self) -> str:
        test, seeds = self.test, len(self.paired.seeds)
        tested = (
            f"protocol {test['protocol']}: {text.plural(test['folds'], 'fold')} of {test['fold_size']:,} images, "
            f"{test['n_captions']:,} captions in all; {text.plural(seeds, 'seed')}"
        )
        if len(self.models) == 2:
            head = [*(f"{name}  {_folders(where)}" for name, where in self.sources.items()), tested]
            rows = list(self._rows_of_two())
        else:
            head = [f"{len(self.models)} models, {tested}"]
            rows = list(zip(*self._columns(), strict=True))
        lines = [*head, *(f"Note: {warning}." for warning in self.warnings), ""]
        lines += table(rows, "r" * len(rows[0]))
        for exact in self.mcnemar.values():
            said = f"exact McNemar, R@1 of caption retrieval: p {text.listing(map(_p, exact))}"
            lines.append(said + (", seed by seed" if len(exact) > 1 else ""))
        return "\n".join([*lines, "", *self._sentences(list(self.levels))])

    def _rows_of_two(self) -> Iterator[tuple[str, ...]]:
        """A row per metric: both levels and, where they are compared, the difference."""
        first, second = self.models
        yield ("", first, second, f"{first}−{second}", "over images", "over seeds", "p", "p, Holm")
        shown = ""
        for metric, levels in self.levels.items():
            of, name = text.task(metric), text.metric_name(metric)
            head = f"{of}, {name}" if of and of != shown else name
            shown = of
            told = [""] * 5
            for effect in self.effects[metric].values():
                bounds = [
                    f"[{interval.low:+.1f}, {interval.high:+.1f}]" if interval else "one seed"
                    for interval in (effect.images, effect.seeds)
                ]
                told = [f"{effect.value:+.1f}", *bounds, _p(effect.p_alone), _p(effect.p)]
            yield (head, *(f"{level.mean:.1f}" for level in levels.values()), *told)

    def _columns(self) -> Iterator[list[str]]:
        """A column per metric, a row per model; intervals in the first metric."""
        first, shown = next(iter(self.levels)), ""
        yield [name.ljust(max(map(len, self.models))) for name in ("", *self.models)]
        for metric, levels in self.levels.items():
            of, name = text.task(metric), text.metric_name(metric)
            short = of.removesuffix(" retrieval").lower()
            head = name if of == shown else f"{short} {name}".strip()
            shown = of
            yield [head, *(f"{levels[label].mean:.1f}" for label in self.models)]
            if metric == first:
                yield ["over images", *(text.levels(level.images) for level in levels.values())]
                yield ["over seeds", *(text.levels(level.seeds) or "one seed" for level in levels.values())]

    def _sentences(self, metrics: Sequence[str]) -> Iterator[str]:
        """Which differences count, and why others do not; with one seed none does."""
        effects = {metric: self.effects[metric] for metric in metrics}
        if not any(effects.values()):
            return
        if len(self.paired.seeds) < 2:
            yield ONE_SEED
        elif len(self.models) == 2:
            yield from self._told(effects)
        else:
            for metric, pairs in effects.items():
                if alike := [" and ".join(names) for names, effect in pairs.items() if not effect.sign]:
                    yield f"No significant difference in {text.metrics(metric)}: {'; '.join(alike)}."
            yield "All other pairs differ significantly, after Holm for all pairs and metrics."

    def _told(self, effects: Mapping[str, Mapping[tuple[str, str], Effect]]) -> Iterator[str]:
        """A sentence for each metric in which one of two models is ahead; all other metrics share one for each reason."""
        reasons: dict[str, list[str]] = {}
        for metric, pairs in effects.items():
            for (first, second), effect in pairs.items():
                if not effect.sign:
                    reasons.setdefault(effect.why, []).append(metric)
                elif effect.interval:
                    low, high = sorted((abs(effect.interval.low), abs(effect.interval.high)))
                    ahead = f"{abs(effect.value):.1f} [{low:.1f}, {high:.1f}]"
                    yield f"{first if effect.sign > 0 else second} is ahead by {ahead} in {text.metrics(metric)}."
        for why, metrics in reasons.items():
            yield f"No significant difference in {text.metrics(*metrics)}: {why}."


def compare(
    models: Mapping[str, Source | Sequence[Source]],
    protocol: str | None = None,
    fold_size: int | None = None,
    metrics: Sequence[str] = (),
) -> Comparison:
    """Compare two or more models, each with each other.

    Parameters
    ----------
    models
        Name → where a model lies, or each seed of it: a folder with `metrics.json` and `ranks.npz`, the folder of a trained run
        whose evaluation lies beside it, a folder of `seed-*` folders, or an `.npz` of embeddings, which are ranked here.
        Seeds that all have are compared; a single model without a seed is held against each seed of the others.
    protocol
        By default the first protocol that all evaluations have; for embeddings alone `5K`, all images at once. Protocols that rank
        the same images in one fold are one.
    fold_size
        Images in a fold of `1K` and `5x1K`, for embeddings: by default the fold size of the other models, or 1,000.
    metrics
        Metrics of `vsepp.evaluation.metrics.AVERAGED`, more is better in each; by default rsum and its recalls. The first one
        sorts more than two models.

    Raises
    ------
    VseppError
        Where a model cannot be read, a metric needs ranks that were not kept, the models were not measured on the same test images
        under the same protocol, a seed is given twice, or they have no seed in common.
    """
    if unknown := [metric for metric in metrics if metric not in AVERAGED]:
        raise VseppError(f"metric: expected one of {', '.join(AVERAGED)}, got {unknown[0]!r}")
    sides = {name: [_read(source) for source in _sources(model)] for name, model in models.items()}
    known = [model for side in sides.values() for model in side if isinstance(model, Model)]
    protocol = protocol or _common_protocol(known)
    # Embeddings are ranked in folds as large as the folds of the evaluations beside them.
    sizes = [model.metrics[protocol]["fold_size"] for model in known if protocol in model.metrics]
    fold_size = fold_size or next(iter(sizes), DEFAULT_FOLD_SIZE)
    like = next((model for model in known if protocol in model.metrics), None)
    read = {
        name: [_under(source, protocol, fold_size, like) for source in side] for name, side in sides.items()
    }
    if all(len(side) == 1 for side in read.values()):  # whatever their seeds
        seeds = (side[0].seed for side in read.values())
        paired = pair({name: [replace(side[0], seed=None)] for name, side in read.items()}, protocol)
        one = next((seed for seed in seeds if seed is not None), None)
        paired = replace(paired, models=read, seeds=(one,))
    else:
        paired = pair(read, protocol)
    if not paired.seeds:
        have = (f"{name} has {text.listing(model.seed for model in side)}" for name, side in read.items())
        raise VseppError(f"no seed in common: {', '.join(have)}; name one seed's folder of each")
    metrics = metrics or (COMPARED if len(models) == 2 else ("rsum", *RECALLS))
    return compared(paired, protocol, metrics, best_first=len(models) > 2)


def compared(paired: Paired, protocol: str, metrics: Sequence[str], *, best_first: bool = True) -> Comparison:
    """Levels of models and the differences of all pairs, corrected after Holm over pairs and metrics; models in trouble are in none."""
    levels: dict[str, dict[str, Level]] = {}
    pairs: list[tuple[str, str, str]] = []
    for metric in dict.fromkeys(metrics):
        found = {name: level(side, protocol, metric) for name, side in paired.models.items()}
        of = {name: one for name, one in found.items() if one is not None}
        order = sorted(of, key=lambda name, of=of: -of[name].mean if best_first else 0)  # type: ignore[misc]
        levels[metric] = {name: of[name] for name in order}
        counting = [name for name in order if name not in paired.trouble] if paired.seeds else []
        pairs += [(metric, *names) for names in combinations(counting, 2)]
    effects = []
    for metric, *names in pairs:
        above, below = ([model.values(protocol, metric) for model in paired.models[name]] for name in names)
        effects.append(intervals.effect(below, above, len(pairs)))
    told: dict[str, dict[tuple[str, str], Effect]] = {metric: {} for metric in levels}
    for (metric, first, second), effect in zip(pairs, intervals.told_together(effects), strict=True):
        told[metric][first, second] = effect
    return Comparison(paired, protocol, levels, told)


def _sources(model: Source | Sequence[Source]) -> list[Source]:
    """Where each seed of a model lies."""
    sources: list[Source] = []
    for source in [model] if isinstance(model, str | Path | Model) else model:
        if isinstance(source, Model):
            sources.append(source)
            continue
        seeds = sorted(Path(source).glob("seed-*"), key=lambda path: (len(path.name), path.name))
        sources += seeds or [Path(source)]
    if not sources:
        raise VseppError("expected two models to compare, got none")
    return sources


def _read(source: Source) -> Source:
    """A model that was evaluated; a file of embeddings stays a path until its protocol is known."""
    if isinstance(source, Model) or source.is_file():
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


def _common_protocol(models: Sequence[Model]) -> str:
    """The first protocol that all evaluations have."""
    if not models:
        return "5K"
    common = [
        protocol
        for protocol in models[0].metrics
        if all(_same_images(model, protocol, models[0]) for model in models)
    ]
    if not common:
        have = " and ".join(dict.fromkeys(", ".join(model.metrics) for model in models))
        raise VseppError(f"no protocol in common: they were evaluated under {have}; evaluate all under one")
    return common[0]


def _same_images(model: Model, protocol: str, like: Model) -> str:
    """A model's name for what a protocol of another model ranks: the same protocol or, of one fold, another one of its images."""
    if protocol in model.metrics:
        return protocol
    wanted = like.metrics[protocol]
    return next(
        (
            name
            for name, found in model.metrics.items()
            if {name, protocol} <= set(PROTOCOLS)
            and all(found[key] == wanted[key] for key in ("folds", "fold_size", "n_images"))
        ),
        "",
    )


def _under(source: Source, protocol: str, fold_size: int, like: Model | None) -> Model:
    """A model as it was evaluated under a protocol, or as its embeddings rank here; `like`: one that was evaluated under it."""
    if isinstance(source, Model):
        name = _same_images(source, protocol, like) if like else protocol
        if name in ("", protocol):
            return source
        metrics = {protocol: {**source.metrics[name], "protocol": protocol}}
        arrays = {
            protocol + key.removeprefix(name): array
            for key, array in source.arrays.items()
            if key.startswith(f"{name}_")
        }
        return replace(source, metrics=metrics, arrays=arrays)
    tested = TestSet.read(source)
    (evaluation,) = evaluate(tested, [own_captions(tested.caption_to_image, protocol, fold_size)])
    test = evaluation.to_dict()
    known = {"image_ids": slice(test["n_images"]), "caption_ids": evaluation.truth.tasks["t2i"].queries}
    ids = {
        kind: ids_digest(given[rows])
        for kind, rows in known.items()
        if (given := getattr(tested, kind)) is not None
    }
    return Model(
        name=source.stem,
        seed=seed_in(source),
        where=str(source),
        evaluated=read_manifest(source.parent) if (source.parent / MANIFEST).is_file() else {},
        metrics={protocol: test},
        arrays=evaluation.arrays,
        ids=ids,
    )


def _folders(sources: Sequence[str]) -> str:
    """Folders of seeds as one: `evaluations/a, seed-0 and seed-1`."""
    parents = {Path(source).parent for source in sources}
    if len(sources) == 1 or len(parents) > 1:
        return text.listing(sources)
    return f"{parents.pop()}, {text.listing(Path(source).name for source in sources)}"


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if value >= 0.0001 else "<0.0001"
