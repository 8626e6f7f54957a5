"""Two models on the same test images: which one is ahead, in what, and how sure that is.

A model is an evaluation's folder (`metrics.json` and `ranks.npz`), several of them that are its seeds, or a file of
embeddings, of anyone's model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.evaluation import intervals
from vsepp.evaluation.metric_list import COMPARED
from vsepp.reporting import filters
from vsepp.reporting.groups import Told, tell
from vsepp.reporting.ranked import Source, read_models, seed_of, seeds_of
from vsepp.reporting.records import AT_CHANCE, TEST_IMAGES, Ranked, image_values
from vsepp.reporting.report_specs import DIRECTIONS


@dataclass(frozen=True, kw_only=True)
class Difference(Told):
    """One metric of both models; its p is corrected for the metrics that are compared."""

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
        return {
            "a": self.first,
            "b": self.second,
            **super().to_dict(),
            "mcnemar": list(self.mcnemar),
            "verdict": self.said,
        }


@dataclass(frozen=True)
class Comparison:
    """All that is said of two models A and B."""

    sources: tuple[tuple[str, ...], tuple[str, ...]]
    """Folders or files of A and of B."""
    seeds: tuple[int | None, ...]
    """That were compared."""
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
            test_text(self.test, len(self.seeds)),
            *(f"Note: {warning}." for warning in self.warnings),
            "",
            *_table(self.differences),
            "",
        ]
        return "\n".join([*lines, *sentences(self.differences)])


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
        By default the first that both were evaluated under; of embeddings `5K`, all images at once.
    fold_size
        Images of a fold of `1K` and `5x1K`, for embeddings: by default that of the other model, or 1,000.
    metrics
        Of `vsepp.evaluation.metric_list.AVERAGED`, more is better in each.

    Raises
    ------
    VseppError
        Where a model cannot be read or a metric needs ranks that were not kept, where they were not measured on the same test images under the same protocol, and
        where they have no seed in common.
    """
    models, protocol = read_models({"A": first, "B": second}, protocol, fold_size)
    a, b = models.values()
    return Comparison(
        sources=(sources_of(a), sources_of(b)),
        seeds=seeds_of(models),
        test=test_of(a[0], protocol),
        differences=_differences(a, b, protocol, metrics),
        warnings=tuple(warnings_of(models, protocol)),
    )


def _differences(
    a: Sequence[Ranked], b: Sequence[Ranked], protocol: str, metrics: Sequence[str]
) -> tuple[Difference, ...]:
    pairs = {}
    for metric in metrics:
        of_a, of_b = ([image_values(model, protocol, metric) for model in side] for side in (a, b))
        pairs[metric] = of_a, of_b
    return tuple(
        Difference(
            effect=told.effect,
            p=told.p,
            metric=metric,
            first=float(np.mean(pairs[metric][0])),
            second=float(np.mean(pairs[metric][1])),
            mcnemar=tuple(map(intervals.mcnemar, *pairs[metric])) if metric == "i2t_r1" else (),
        )
        for metric, told in tell(pairs).items()
    )


def test_of(model: Ranked, protocol: str) -> dict[str, Any]:
    """What models share that were measured on one test set."""
    test = model.kept.metrics[protocol]
    return {key: test[key] for key in ("protocol", "folds", *TEST_IMAGES)}


def test_text(test: Mapping[str, Any], seeds: int) -> str:
    """A test set, and the number of seeds, in words."""
    folds = test["folds"]
    return (
        f"protocol {test['protocol']}: {folds} fold{'s' * (folds > 1)} of {test['fold_size']:,} images, "
        f"{test['n_captions']:,} captions in all; {seeds} {'seed' if seeds == 1 else 'seeds'}"
    )


def metric_text(*metrics: str) -> str:
    """Metrics in words, those of one direction together.

    >>> metric_text("i2t_r1", "i2t_r5", "rsum")
    'R@1 and R@5 of caption retrieval and rsum'
    """
    parts = []
    for direction, group in groupby(metrics, lambda metric: metric.partition("_")[0]):
        names = filters.listing(filters.metric_name(metric) for metric in group if direction in DIRECTIONS)
        parts.append(f"{names} of {DIRECTIONS[direction].lower()}" if names else direction)
    return filters.listing(parts)


def sentences(differences: Sequence[Difference]) -> list[str]:
    """What is said of the metrics; those in which no difference can be told share a sentence."""
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


def warnings_of(models: Mapping[str, Sequence[Ranked]], protocol: str) -> list[str]:
    """What a reader must know of models that are compared under a protocol."""
    warnings = []
    similarities = {
        name: filters.listing(dict.fromkeys(model.metrics[protocol]["similarity"] for model in side))
        for name, side in models.items()
    }
    if len(next(iter(models.values()))) == 1:
        each = "side" if len(models) == 2 else "model"
        warnings.append(f"one seed per {each}: the result of another seed is unknown")
    if len(set(similarities.values())) > 1:
        (first, similarity), *others = similarities.items()
        others_rank = ", ".join(f"{name} by {other}" for name, other in others)
        warnings.append(f"{first} ranks by {similarity} similarity, {others_rank}")
    seeds = {name: seed_of(side[0]) for name, side in models.items()}
    named = {name: seed for name, seed in seeds.items() if seed is not None}
    if len(set(named.values())) > 1:
        warnings.append(", ".join(f"{name} has seed {seed}" for name, seed in named.items()))
    for name, side in models.items():
        if any(protocol in model.at_chance for model in side):
            warnings.append(f"{name} {AT_CHANCE}, so a difference says nothing about its method")
    return warnings


def sources_of(side: Sequence[Ranked]) -> tuple[str, ...]:
    """Where the seeds of a model lie."""
    return tuple(dict.fromkeys(model.kept.where for model in side))


def _folders(sources: Sequence[str]) -> str:
    """Folders of seeds as one: `evaluations/a, seed-0 and seed-1`."""
    parents = {Path(source).parent for source in sources}
    if len(sources) == 1 or len(parents) > 1:
        return filters.listing(sources)
    return f"{parents.pop()}, {filters.listing(Path(source).name for source in sources)}"


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"


def _table(differences: Sequence[Difference]) -> list[str]:
    rows: list[tuple[str, ...]] = [("", "A", "B", "A−B", "over images", "over seeds", "p", "p, Holm")]
    shown = ""
    for difference in differences:
        metric, effect = difference.metric, difference.effect
        direction = metric.partition("_")[0]
        name = filters.metric_name(metric) if direction in DIRECTIONS else metric
        if direction in DIRECTIONS and direction != shown:
            name = f"{DIRECTIONS[direction]}, {name}"
        shown = direction
        bounds = [
            f"[{interval.low:+.1f}, {interval.high:+.1f}]" if interval else "one seed"
            for interval in (effect.images, effect.seeds)
        ]
        values = (f"{difference.first:.1f}", f"{difference.second:.1f}", f"{effect.value:+.1f}")
        rows.append((name, *values, *bounds, _p(effect.p), _p(difference.p)))
    lines = columns(rows)
    exact = [p for difference in differences for p in difference.mcnemar]
    if not exact:
        return lines
    mcnemar = f"exact McNemar, R@1 of caption retrieval: p {filters.listing(map(_p, exact))}"
    return [*lines, mcnemar + (", seed by seed" if len(exact) > 1 else "")]


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table whose columns end below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
