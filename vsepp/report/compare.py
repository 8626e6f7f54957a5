"""Two models on the same test images: which one is ahead, in what, and how sure that is.

A model is an evaluation's folder (`metrics.json` and `ranks.npz`), several such folders, one a seed, or a file of
embeddings, of anyone's model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.base.progress import table
from vsepp.evaluation import intervals
from vsepp.evaluation.metric_list import COMPARED, RECALLS
from vsepp.report import text
from vsepp.report.groups import Standing, Told, standings, tell
from vsepp.report.models import AT_CHANCE, TEST_IMAGES, Ranked, image_values
from vsepp.report.ranked import Source, read_models, seed_of
from vsepp.report.text import TASKS


@dataclass(frozen=True)
class Difference(Told):
    """One metric of both models; its p is corrected for all metrics that are compared."""

    metric: str
    first: float
    """Mean over the seeds."""
    second: float
    mcnemar: tuple[float, ...] = ()
    """Per seed: the exact McNemar test of caption retrieval's R@1."""

    @property
    def said(self) -> str:
        """The verdict in words; the interval is the wider one."""
        if not self.ahead:
            return sentences([self])[0]
        ends = intervals.wider(self.effect.images, self.effect.seeds)
        low, high = sorted((abs(ends.low), abs(ends.high)))
        name = "A" if self.ahead > 0 else "B"
        value = f"{abs(self.effect.value):.1f} [{low:.1f}, {high:.1f}]"
        return f"{name} is ahead by {value} in {metric_text(self.metric)}."

    def to_dict(self) -> dict[str, Any]:
        """Nothing rounded."""
        images, seeds = self.effect.images, self.effect.seeds
        return {
            "a": self.first,
            "b": self.second,
            "difference": self.effect.value,
            "by_seed": list(self.effect.by_seed),
            "interval_images": [images.low, images.high],
            "interval_seeds": seeds and [seeds.low, seeds.high],
            "p": self.effect.p,
            "p_holm": self.p,
            "mcnemar": list(self.mcnemar),
            "verdict": self.said,
        }


@dataclass(frozen=True)
class Comparison:
    """All that is said of two models A and B."""

    sources: tuple[tuple[str, ...], tuple[str, ...]]
    """Folders or files of A and of B."""
    seeds: tuple[int | None, ...]
    """Seeds that were compared."""
    test: dict[str, Any]
    """`protocol`, `folds`, `fold_size`, `n_images`, `n_captions`, which both share."""
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Nothing rounded."""
        return {
            "a": list(self.sources[0]),
            "b": list(self.sources[1]),
            "seeds": list(self.seeds),
            **self.test,
            "warnings": list(self.warnings),
            "metrics": {difference.metric: difference.to_dict() for difference in self.differences},
        }

    def __str__(self) -> str:
        lines = [f"{name}  {_folders(side)}" for name, side in zip("AB", self.sources, strict=True)]
        lines += [
            _test_text(self.test, self.seeds),
            *(f"Note: {warning}." for warning in self.warnings),
            "",
            *_table(self.differences),
            "",
        ]
        return "\n".join([*lines, *sentences(self.differences)])


@dataclass(frozen=True, eq=False)
class Comparisons:
    """All that is said of several models."""

    sources: Mapping[str, tuple[str, ...]]
    """Model → its folders or files."""
    seeds: tuple[int | None, ...]
    test: dict[str, Any]
    standings: Mapping[str, Sequence[Standing]]
    """Metric → the models, the best first. Tables have the order of the first metric."""
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Nothing rounded, all pairs."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{len(self.sources)} models, {_test_text(self.test, self.seeds)}"]
        lines += [f"Note: {warning}." for warning in self.warnings]
        rows = list(zip(*self._table(), strict=True))
        return "\n".join([*lines, "", *table(rows, "r" * len(rows[0])), "", *self._alike()])

    def _table(self) -> Iterator[list[str]]:
        first, shown = next(iter(self.standings.values())), ""
        names = [model.label for model in first]
        yield [name.ljust(max(map(len, names))) for name in ("", *names)]
        for metric, models in self.standings.items():
            direction = TASKS.get(metric.partition("_")[0], "")
            name = text.metric_name(metric) if direction else metric
            short = direction.removesuffix(" retrieval").lower()
            head = name if direction == shown else f"{short} {name}".strip()
            shown, level = direction, {model.label: model.level for model in models}
            yield [head, *(f"{level[label]:.1f}" for label in names)]
            if models is first:
                yield ["over images", *(text.levels(one.images) for one in first)]
                yield ["over seeds", *(text.levels(one.seeds) or "one seed" for one in first)]

    def _alike(self) -> Iterator[str]:
        """A sentence for each metric in which some pairs are not told apart."""
        for metric, models in self.standings.items():
            pairs = [f"{model.label} and {other}" for model in models for other in model.alike]
            if pairs:
                yield f"No significant difference in {metric_text(metric)}: {'; '.join(pairs)}."
        first = next(iter(self.standings.values()))
        left_out = "; a model that ranks like chance is in no pair" * any(model.trouble for model in first)
        yield f"All other pairs differ significantly, after Holm for all pairs and metrics{left_out}."


def compare(
    first: Source | Sequence[Source],
    second: Source | Sequence[Source],
    protocol: str | None = None,
    fold_size: int | None = None,
    metrics: Sequence[str] = COMPARED,
) -> Comparison:
    """Compare two models A and B.

    Parameters
    ----------
    first, second
        Where A and B lie, or each seed of them: a folder with `metrics.json` and `ranks.npz`, the folder of a trained run
        whose evaluation lies beside it, a folder of `seed-*` folders, or an `.npz` of embeddings, which are ranked here.
        Seeds that both have are compared; a single model without a seed is held against each seed of the other one.
    protocol
        By default the first protocol that all evaluations have; for embeddings alone `5K`, all images at once.
    fold_size
        Images in a fold of `1K` and `5x1K`, for embeddings: by default the fold size of the other model, or 1,000.
    metrics
        Metrics of `vsepp.evaluation.metric_list.AVERAGED`; more is better in each.

    Raises
    ------
    VseppError
        Where a model cannot be read, a metric needs ranks that were not kept, the models were not measured on the same test images
        under the same protocol, or have no seed in common.
    """
    models, protocol = read_models({"A": first, "B": second}, protocol, fold_size)
    return Comparison(
        sources=(_sources(models["A"]), _sources(models["B"])),
        differences=tuple(_differences(models, protocol, metrics)),
        **_shared(models, protocol),
    )


def compare_many(
    models: Mapping[str, Source | Sequence[Source]],
    protocol: str | None = None,
    fold_size: int | None = None,
    metrics: Sequence[str] = ("rsum", *RECALLS),
) -> Comparisons:
    """Compare two or more models, each with each other; parameters and errors as in `compare`, `models` by name."""
    read, protocol = read_models(models, protocol, fold_size)
    trouble = {
        name: AT_CHANCE * any(protocol in one.at_chance for one in side) for name, side in read.items()
    }
    values: dict[str, dict[str, dict[int, np.ndarray]]] = {metric: {} for metric in metrics}
    for metric, (name, side) in product(values, read.items()):
        values[metric][name] = dict(enumerate(image_values(one, protocol, metric) for one in side))
    places = {name: _sources(side) for name, side in read.items()}
    return Comparisons(places, standings=standings(values, trouble), **_shared(read, protocol))


def _differences(models: dict[str, list[Ranked]], protocol: str, metrics: Sequence[str]) -> list[Difference]:
    pairs, differences = {}, []
    for metric in dict.fromkeys(metrics):
        pairs[metric] = [[image_values(one, protocol, metric) for one in side] for side in models.values()]
    for metric, told in tell(pairs).items():
        of_a, of_b = pairs[metric]
        exact = tuple(map(intervals.mcnemar, of_a, of_b)) if metric == "i2t_r1" else ()
        means = float(np.mean(of_a)), float(np.mean(of_b))
        differences.append(Difference(told.effect, told.p, metric, *means, exact))
    return differences


def _shared(models: Mapping[str, Sequence[Ranked]], protocol: str) -> dict[str, Any]:
    test = next(iter(models.values()))[0].kept.metrics[protocol]
    seeds = zip(*(map(seed_of, side) for side in models.values()), strict=True)
    return {
        "seeds": tuple(next((seed for seed in named if seed is not None), None) for named in seeds),
        "test": {key: test[key] for key in ("protocol", "folds", *TEST_IMAGES)},
        "warnings": tuple(_warnings(models, protocol)),
    }


def _test_text(test: Mapping[str, Any], seeds: Sequence[int | None]) -> str:
    return (
        f"protocol {test['protocol']}: {test['folds']} fold{'s' * (test['folds'] > 1)} of {test['fold_size']:,} images, "
        f"{test['n_captions']:,} captions in all; {len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'}"
    )


def metric_text(*metrics: str) -> str:
    """Metrics in words, neighbours of one direction together.

    >>> metric_text("i2t_r1", "i2t_r5", "rsum")
    'R@1 and R@5 of caption retrieval and rsum'
    """
    parts = []
    for direction, group in groupby(metrics, lambda metric: metric.partition("_")[0]):
        names = text.listing(text.metric_name(metric) for metric in group if direction in TASKS)
        parts.append(f"{names} of {TASKS[direction].lower()}" if names else direction)
    return text.listing(parts)


def sentences(differences: Sequence[Difference]) -> list[str]:
    """A sentence for each metric with a significant difference; all other metrics share one sentence for each reason."""
    texts = [difference.said for difference in differences if difference.ahead]
    seeds_differ: list[str] = []
    equal: list[str] = []
    for difference in differences:
        if not difference.ahead:
            effect = difference.effect
            (seeds_differ if effect.images.sign and not effect.sign else equal).append(difference.metric)
    if seeds_differ:
        texts.append(f"No significant difference in {metric_text(*seeds_differ)}: the seeds differ too much.")
    if equal:
        texts.append(f"No significant difference in {metric_text(*equal)}.")
    return texts


def _warnings(models: Mapping[str, Sequence[Ranked]], protocol: str) -> list[str]:
    warnings = []
    similarities = {
        name: text.listing(dict.fromkeys(model.metrics[protocol]["similarity"] for model in side))
        for name, side in models.items()
    }
    if len(next(iter(models.values()))) == 1:
        each = "side" if len(models) == 2 else "model"
        warnings.append(f"one seed per {each}: the result of another seed is unknown")
    if len(set(similarities.values())) > 1:
        (first, similarity), *others = similarities.items()
        others_rank = "".join(f", {name} by {other}" for name, other in others)
        warnings.append(f"{first} ranks by {similarity} similarity{others_rank}")
    seeds = {name: seed for name, side in models.items() if (seed := seed_of(side[0])) is not None}
    if len(set(seeds.values())) > 1:
        warnings.append(", ".join(f"{name} has seed {seed}" for name, seed in seeds.items()))
    for name, side in models.items():
        if any(protocol in model.at_chance for model in side):
            warnings.append(f"{name} {AT_CHANCE}, so a difference says nothing about its method")
    return warnings


def _sources(side: Sequence[Ranked]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(model.kept.where for model in side))


def _folders(sources: Sequence[str]) -> str:
    """Folders of seeds as one: `evaluations/a, seed-0 and seed-1`."""
    parents = {Path(source).parent for source in sources}
    if len(sources) == 1 or len(parents) > 1:
        return text.listing(sources)
    return f"{parents.pop()}, {text.listing(Path(source).name for source in sources)}"


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"


def _table(differences: Sequence[Difference]) -> list[str]:
    rows: list[tuple[str, ...]] = [("", "A", "B", "A−B", "over images", "over seeds", "p", "p, Holm")]
    shown = ""
    for difference in differences:
        metric, effect = difference.metric, difference.effect
        direction = metric.partition("_")[0]
        name = text.metric_name(metric) if direction in TASKS else metric
        if direction in TASKS and direction != shown:
            name = f"{TASKS[direction]}, {name}"
        shown = direction
        bounds = [
            f"[{interval.low:+.1f}, {interval.high:+.1f}]" if interval else "one seed"
            for interval in (effect.images, effect.seeds)
        ]
        values = (f"{difference.first:.1f}", f"{difference.second:.1f}", f"{effect.value:+.1f}")
        rows.append((name, *values, *bounds, _p(effect.p), _p(difference.p)))
    lines = table(rows, "r" * len(rows[0]))
    exact = [p for difference in differences for p in difference.mcnemar]
    if not exact:
        return lines
    mcnemar = f"exact McNemar, R@1 of caption retrieval: p {text.listing(map(_p, exact))}"
    return [*lines, mcnemar + (", seed by seed" if len(exact) > 1 else "")]
