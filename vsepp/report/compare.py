"""Models on the same test images: which is ahead, in what, and how sure that is.

A model is an evaluation's folder (`metrics.json` and `ranks.npz`), several such folders, one a seed, or a file of
embeddings, of anyone's model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, groupby
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.base.words import table
from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Effect, Interval, Level
from vsepp.evaluation.metrics import AVERAGED, COMPARED, RECALLS
from vsepp.report import text
from vsepp.report.pairing import Paired, known_metrics, level, pair
from vsepp.report.sources import Source, read_sides

UNSETTLED = "One seed settles nothing: another seed may rank the models otherwise."


@dataclass(frozen=True, eq=False)
class Comparison:
    """All that is said of two or more models."""

    paired: Paired
    protocol: str
    levels: Mapping[str, Mapping[str, Level]]
    """Metric → model → its level; of more than two models the best first."""
    effects: Mapping[tuple[str, str, str], Effect]
    """Metric, model and baseline, in the order of the levels → how much larger the model's value is; all are corrected together."""

    @property
    def models(self) -> tuple[str, ...]:
        """Names in the order of the first metric."""
        return tuple(next(iter(self.levels.values())))

    @property
    def sources(self) -> dict[str, list[str]]:
        """Model → its folders or files."""
        sides = self.paired.models.items()
        return {name: list(dict.fromkeys(model.where for model in side)) for name, side in sides}

    @property
    def test(self) -> dict[str, Any]:
        """`protocol`, `folds`, `fold_size`, `n_images`, `n_captions`, which all share."""
        tested = self.paired.models[self.models[0]][0].tested(self.protocol)
        return {key: tested[key] for key in ("protocol", "folds", "fold_size", "n_images", "n_captions")}

    @cached_property
    def mcnemar(self) -> list[float]:
        """Per seed the exact McNemar test of caption retrieval's R@1, where two models are compared in it."""
        if len(self.models) > 2 or ("i2t_r1", *self.models) not in self.effects:
            return []
        sides = (self.paired.values(name, self.protocol, "i2t_r1") for name in self.models)
        return [intervals.mcnemar(*seed) for seed in zip(*np.broadcast_arrays(*sides), strict=True)]

    @property
    def warnings(self) -> list[str]:
        """What a reader should know of the models and the test set."""
        paired, sides = self.paired, self.paired.models
        warnings = [*paired.notes, *filter(None, [paired.common])]
        single = [name for name, side in sides.items() if side[0].seed is None]
        if len(paired.seeds) == 1:
            noun = "side" if len(sides) == 2 else "model"
            warnings.append(f"one seed per {noun}: the result of another seed is unknown")
        elif single:
            warnings.append(f"{text.listing(single)}: one model beside each seed of the others")
        ranked_by: dict[str, list[str]] = {}
        for name, side in sides.items():
            ranked_by.setdefault(side[0].tested(self.protocol)["similarity"], []).append(name)
        if len(ranked_by) > 1:
            parts = (f"{text.listing(names)} by {similarity}" for similarity, names in ranked_by.items())
            warnings.append(f"similarities differ: {', '.join(parts)}")
        warnings += filter(None, (self._short_lists(name) for name in sides))
        warnings += [f"{name} {why}, so it is in no comparison" for name, why in paired.trouble.items()]
        if paired.doubts:
            where = text.listing(paired.doubts)
            warnings.append(
                f"no ids and no corpus tell whether these rank the same images and captions: {where}"
            )
        return warnings

    def _short_lists(self, name: str) -> str:
        """Which metrics a model lacks because it was ranked by lists of the best; empty without such."""
        models = self.paired.models[name]
        depths = models[0].tested(self.protocol).get("depth")
        lacking = [metric for metric in COMPARED if metric not in known_metrics(models, self.protocol)]
        if not depths or not lacking:
            return ""
        return f"{name} has lists of the {min(depths.values())} best, too short for {text.metrics(*lacking)}"

    def to_dict(self) -> dict[str, Any]:
        """Nothing rounded: the models, the test set and, by metric, all levels and differences."""
        metrics: dict[str, dict[str, list]] = {
            metric: {
                "levels": [self._level(name, level) for name, level in levels.items()],
                "differences": [],
            }
            for metric, levels in self.levels.items()
        }
        for (metric, model, baseline), effect in self.effects.items():
            metrics[metric]["differences"].append(self._difference(metric, model, baseline, effect))
        return {
            "models": self.sources,
            "seeds": list(self.paired.seeds),
            **self.test,
            "warnings": self.warnings,
            "metrics": metrics,
        }

    def _level(self, name: str, level: Level) -> dict[str, Any]:
        return {
            "label": name,
            "n_seeds": len(level.by_seed),
            "trouble": self.paired.trouble.get(name, ""),
            "level": level.mean,
            "interval_images": _ends(level.images),
            "interval_seeds": _ends(level.seeds),
        }

    def _difference(self, metric: str, model: str, baseline: str, effect: Effect) -> dict[str, Any]:
        return {
            "first": model,
            "second": baseline,
            "difference": effect.value,
            "by_seed": list(effect.by_seed),
            "interval_images": _ends(effect.images),
            "interval_seeds": _ends(effect.seeds),
            "p": effect.p_alone,
            "p_holm": effect.p,
            "mcnemar": self.mcnemar if metric == "i2t_r1" else [],
            "verdict": _ahead(metric, model, baseline, effect) or effect.why,
        }

    def __str__(self) -> str:
        test, two = self.test, len(self.models) == 2
        tested = (
            f"protocol {test['protocol']}: {text.plural(test['folds'], 'fold')} of {test['fold_size']:,} images, "
            f"{test['n_captions']:,} captions in all; {text.plural(len(self.paired.seeds), 'seed')}"
        )
        lines = [f"{name}  {_folders(where)}" for name, where in self.sources.items()] if two else []
        lines.append(tested if two else f"{len(self.models)} models, {tested}")
        lines += [*(f"Note: {warning}." for warning in self.warnings), ""]
        rows = list(self._rows_of_two() if two else zip(*self._columns(), strict=True))
        lines += table(rows, "r" * len(rows[0]))
        if self.mcnemar:
            exact = text.listing(map(text.p_value, self.mcnemar)) + ", seed by seed" * (len(self.mcnemar) > 1)
            lines.append(f"exact McNemar, R@1 of caption retrieval: p {exact}")
        return "\n".join([*lines, "", *self._sentences()])

    def _rows_of_two(self) -> Iterator[tuple[str, ...]]:
        """A row per metric: both levels and, where they are compared, the difference."""
        model, baseline = self.models
        yield ("", model, baseline, f"{model}−{baseline}", "over images", "over seeds", "p", "p, Holm")
        shown = ""
        for metric, levels in self.levels.items():
            task, name = text.task(metric), text.metric_name(metric)
            head, shown = (f"{task}, {name}" if task and task != shown else name), task
            difference = [""] * 5
            if effect := self.effects.get((metric, model, baseline)):
                difference = [
                    text.signed(effect.value),
                    text.interval(effect.images),
                    text.interval(effect.seeds) or _no_spread(effect.by_seed),
                    text.p_value(effect.p_alone),
                    text.p_value(effect.p),
                ]
            yield (head, *(text.number(level.mean) for level in levels.values()), *difference)

    def _columns(self) -> Iterator[list[str]]:
        """A column per metric, a row per model; intervals in the first metric."""
        shown = ""
        yield [name.ljust(max(map(len, self.models))) for name in ("", *self.models)]
        for metric, levels in self.levels.items():
            task, name = text.task(metric), text.metric_name(metric)
            short = "" if task == shown else task.removesuffix(" retrieval").lower()
            head, shown = f"{short} {name}".strip(), task
            yield [head, *(text.number(levels[label].mean) for label in self.models)]
            if metric == next(iter(self.levels)):
                yield ["over images", *(text.levels(level.images) for level in levels.values())]
                bounds = [text.levels(level.seeds) or _no_spread(level.by_seed) for level in levels.values()]
                yield ["over seeds", *bounds]

    def _sentences(self) -> Iterator[str]:
        """Which differences count, and why others do not; with one seed none does."""
        several = {pair: effect for pair, effect in self.effects.items() if not effect.one_seed}
        undecided = {pair: effect for pair, effect in several.items() if not effect.sign}
        if len(self.models) == 2:
            by_reason: dict[str, list[str]] = {}
            for (metric, model, baseline), effect in several.items():
                if effect.sign:
                    yield _ahead(metric, model, baseline, effect)
                else:
                    by_reason.setdefault(effect.why, []).append(metric)
            for why, metrics in by_reason.items():
                yield f"No significant difference in {text.metrics(*metrics)}: {why}."
        elif several:
            for of_metric, pairs in groupby(undecided, key=lambda pair: pair[0]):
                names = "; ".join(f"{model} and {baseline}" for _, model, baseline in pairs)
                yield f"No significant difference in {text.metrics(of_metric)}: {names}."
            yield "All other pairs of several seeds differ significantly, after Holm for all pairs and metrics."
        if len(several) < len(self.effects):
            yield UNSETTLED


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
        Metrics of `vsepp.evaluation.metrics.AVERAGED`, more is better in each; by default rsum and its recalls, as far as all models
        have them: lists of the best may be too short. The first one sorts more than two models.

    Raises
    ------
    VseppError
        Where a model cannot be read, a metric needs ranks that were not kept, the models were not measured on the same test images
        under the same protocol, a seed is given twice, or they have no seed in common.
    """
    if unknown := [metric for metric in metrics if metric not in AVERAGED]:
        raise VseppError(f"metric: expected one of {', '.join(AVERAGED)}, got {unknown[0]!r}")
    protocol, sides = read_sides(models, protocol, fold_size)
    seeds = [side[0].seed for side in sides.values()]
    if all(len(side) == 1 for side in sides.values()) and len(set(seeds)) > 1:
        # One model a side stands beside the others, whatever its seed.
        sides = {name: [replace(model, seed=None) for model in side] for name, side in sides.items()}
    paired = pair(sides, protocol)
    if not paired.seeds and len(paired.trouble) < len(sides):
        have = (f"{name} has {text.listing(model.seed for model in side)}" for name, side in sides.items())
        raise VseppError(f"no seed in common: {', '.join(have)}; name one seed's folder of each")
    if not metrics:
        every_model = [model for side in paired.models.values() for model in side]
        metrics = known_metrics(every_model, protocol, COMPARED if len(models) == 2 else ("rsum", *RECALLS))
    return compared(paired, protocol, metrics, best_first=len(models) > 2)


def compared(paired: Paired, protocol: str, metrics: Sequence[str], *, best_first: bool = True) -> Comparison:
    """Levels of models and the differences of all pairs, corrected after Holm over pairs and metrics; models in trouble are in none."""
    levels: dict[str, dict[str, Level]] = {}
    pairs: list[tuple[str, str, str]] = []
    for metric in dict.fromkeys(metrics):
        of_metric = dict[str, Level]()
        for name, side in paired.models.items():
            if (side_level := level(side, protocol, metric)) is None:
                raise VseppError(f"{side[0].where}, {protocol}: its scores give no {metric}")
            of_metric[name] = side_level
        levels[metric] = dict(sorted(of_metric.items(), key=lambda item: -item[1].mean if best_first else 0))
        counting = [name for name in levels[metric] if paired.seeds and name not in paired.trouble]
        pairs += [(metric, *names) for names in combinations(counting, 2)]
    effects = []
    for metric, *names in pairs:
        model, baseline = (list(paired.values(name, protocol, metric)) for name in names)
        effects.append(intervals.effect(baseline, model, len(pairs)))
    by_pair = dict(zip(pairs, intervals.corrected(effects), strict=True))
    return Comparison(paired, protocol, levels, by_pair)


def _ahead(metric: str, model: str, baseline: str, effect: Effect) -> str:
    """Which of two models is ahead, with the wider interval; empty where the difference does not count."""
    if not effect.sign or not effect.interval:
        return ""
    ends = Interval(*sorted((abs(effect.interval.low), abs(effect.interval.high))))
    ahead = f"{text.number(abs(effect.value))} {text.levels(ends)}"
    return f"{model if effect.sign > 0 else baseline} is ahead by {ahead} in {text.metrics(metric)}."


def _no_spread(by_seed: Sequence[float]) -> str:
    return "one seed" if len(by_seed) < 2 else "equal seeds"


def _ends(interval: Interval | None) -> list[float] | None:
    return [interval.low, interval.high] if interval else None


def _folders(sources: Sequence[str]) -> str:
    """Folders of seeds as one: `evaluations/a, seed-0 and seed-1`."""
    parents = {Path(source).parent for source in sources}
    if len(sources) == 1 or len(parents) > 1:
        return text.listing(sources)
    return f"{parents.pop()}, {text.listing(Path(source).name for source in sources)}"
