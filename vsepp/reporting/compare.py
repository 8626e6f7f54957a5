"""Two models on the same test images: which one is ahead, in what, and how sure that is.

A model is an evaluation's folder (`metrics.json` and `ranks.npz`), several of them that are its seeds, or a file of
embeddings, of anyone's model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Effect
from vsepp.evaluation.metric_list import COMPARED
from vsepp.reporting import filters
from vsepp.reporting.ranked import Ranked, Source, read_two
from vsepp.reporting.records import AT_CHANCE, TEST_IMAGES
from vsepp.reporting.report_specs import DIRECTIONS


@dataclass(frozen=True)
class Difference:
    """One metric of both models."""

    metric: str
    first: float
    """Mean over the seeds."""
    second: float
    effect: Effect
    """How much larger the first one is."""
    p: float
    """p of the permutation test, corrected after Holm for the metrics that are compared."""
    mcnemar: tuple[float, ...] = ()
    """Per seed: the exact McNemar test of caption retrieval's R@1."""

    @property
    def ahead(self) -> int:
        """1 where the first model is ahead, -1 where the second is, 0 where no difference can be told."""
        return self.effect.sign if self.p < intervals.ALPHA else 0

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
        test, seeds = self.test, len(self.seeds)
        folds = test["folds"]
        lines = [f"{name}  {_place(side)}" for name, side in zip("AB", self.sources, strict=True)]
        lines += [
            f"protocol {test['protocol']}: {folds} fold{'s' * (folds > 1)} of {test['fold_size']:,} images, "
            f"{test['n_captions']:,} captions in all; {seeds} {'seed' if seeds == 1 else 'seeds'}",
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

    Raises
    ------
    VseppError
        Where a model cannot be read, where they were not measured on the same test images under the same protocol, and
        where they have no seed in common.
    """
    a, b = read_two(first, second, protocol, fold_size)
    return Comparison(
        sources=(_sources(a), _sources(b)),
        seeds=tuple(
            one.seed if one.seed is not None else other.seed for one, other in zip(a, b, strict=True)
        ),
        test={key: a[0].metrics[key] for key in ("protocol", "folds", *TEST_IMAGES)},
        differences=_differences(a, b),
        warnings=tuple(_warnings(a, b)),
    )


def _differences(a: Sequence[Ranked], b: Sequence[Ranked]) -> tuple[Difference, ...]:
    values = {metric: [[_values(model, metric) for model in side] for side in (a, b)] for metric in COMPARED}
    effects = {metric: intervals.effect(of_b, of_a) for metric, (of_a, of_b) in values.items()}
    corrected = intervals.holm([effect.p for effect in effects.values()])
    exact = tuple(intervals.mcnemar(*pair) for pair in zip(*values["i2t_r1"], strict=True))
    differences = []
    for (metric, (of_a, of_b)), p in zip(values.items(), corrected, strict=True):
        tests = exact if metric == "i2t_r1" else ()
        means = float(np.mean(of_a)), float(np.mean(of_b))
        differences.append(Difference(metric, *means, effects[metric], p, tests))
    return tuple(differences)


def _values(model: Ranked, metric: str) -> np.ndarray:
    return intervals.per_image(model.ranks, model.caption_images, metric, model.metrics["fold_size"])


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
    told = [difference.said for difference in differences if difference.ahead]
    seeds_differ: list[str] = []
    equal: list[str] = []
    for difference in differences:
        if not difference.ahead:
            effect = difference.effect
            (seeds_differ if effect.images.sign and not effect.sign else equal).append(difference.metric)
    if seeds_differ:
        told.append(f"No difference can be told in {metric_text(*seeds_differ)}: the seeds differ too much.")
    if equal:
        told.append(f"No difference can be told in {metric_text(*equal)}.")
    return told


def _warnings(a: Sequence[Ranked], b: Sequence[Ranked]) -> list[str]:
    warnings = []
    if len(a) == 1:
        warnings.append("one seed a side: what another seed would give is not known")
    of_a, of_b = (
        filters.listing(dict.fromkeys(model.metrics["similarity"] for model in side)) for side in (a, b)
    )
    if of_a != of_b:
        warnings.append(f"A ranks by {of_a} similarity, B by {of_b}")
    if any(one.seed != two.seed and None not in (one.seed, two.seed) for one, two in zip(a, b, strict=True)):
        warnings.append(f"A is of seed {a[0].seed}, B of seed {b[0].seed}")
    for name, side in zip("AB", (a, b), strict=True):
        if any(
            intervals.ranks_like_chance(model.ranks, model.caption_images, model.metrics["fold_size"])
            for model in side
        ):
            warnings.append(f"{name} {AT_CHANCE}, so a difference says nothing of its method")
    return warnings


def _sources(side: Sequence[Ranked]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(model.source for model in side))


def _place(sources: Sequence[str]) -> str:
    """Folders of seeds as one: `evaluations/a, seed-0 and seed-1`."""
    parents = {Path(source).parent for source in sources}
    if len(sources) == 1 or len(parents) > 1:
        return filters.listing(sources)
    return f"{parents.pop()}, {filters.listing(Path(source).name for source in sources)}"


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"


def _table(differences: Sequence[Difference]) -> list[str]:
    rows: list[tuple[str, ...]] = [("", "A", "B", "A−B", "over images", "over seeds", "p", "p, Holm")]
    for direction, group in groupby(differences, lambda found: found.metric.partition("_")[0]):
        for place, found in enumerate(group):
            name = f"{DIRECTIONS[direction]}, " if direction in DIRECTIONS and not place else ""
            metric = filters.metric_name(found.metric) if direction in DIRECTIONS else found.metric
            effect = found.effect
            ends = [
                f"[{one.low:+.1f}, {one.high:+.1f}]" if one else "one seed"
                for one in (effect.images, effect.seeds)
            ]
            values = (f"{found.first:.1f}", f"{found.second:.1f}", f"{effect.value:+.1f}")
            rows.append((name + metric, *values, *ends, *map(_p, (effect.p, found.p))))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    exact = [p for found in differences for p in found.mcnemar]
    told = f"exact McNemar, R@1 of caption retrieval: p {filters.listing(map(_p, exact))}"
    return [*lines, told + (", seed by seed" if len(exact) > 1 else "")]
