"""Tuned methods beside each other, and which of them the test set tells apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Effect
from vsepp.reporting import filters
from vsepp.reporting.plots import INK, MUTED, PAGE, Material, Said, looks, mark, not_run
from vsepp.reporting.records import Record, image_values, of_shared_seeds, trouble_of
from vsepp.reporting.specs import DIRECTIONS, FigureSpec

CITATION = "Demšar (2006), Statistical Comparisons of Classifiers over Multiple Data Sets"
RUNS = "tuned"
NEEDS = ("dataset", "metrics", "labels", "protocol")
MOST_METRICS = 1
_BESIDE = 4.4
"""Inches beside the axis: names at the left, numbers and bars at the right."""


def draw(figure: Figure, spec: FigureSpec, options: Any, material: Material) -> Said:
    """A dot per method, the best on top, with its intervals and its difference to the best; bars join what no test tells apart."""
    (metric,) = spec.metrics
    shown = {
        label: material.records[run]
        for run, label in zip(spec.runs, spec.labels, strict=True)
        if run in material.records
    }
    axis, said = figure.subplots(), Said()
    if not shown:
        not_run(axis)
        return said
    every, shown = shown, of_shared_seeds(shown)
    values = {label: read_values(records, spec.under, metric) for label, records in shown.items()}
    level = {label: float(np.mean(list(seeds.values()))) for label, seeds in values.items()}
    order = sorted(shown, key=level.__getitem__, reverse=True)
    bad = {label: why for label in order if (why := trouble_of(shown[label], spec.under))}
    sound = [label for label in order if label not in bad]
    pairs = compare(sound, values)
    width, height = figure.get_size_inches()[0], 0.7 + 0.2 * len(order)
    figure.set_size_inches(width, height)
    # Places of its own: a layout engine does not see the bars.
    figure.set_layout_engine("none")
    axis.set_position((1.4 / width, 0.42 / height, 1 - _BESIDE / width, 1 - 0.62 / height))
    beside = (width - _BESIDE, axis.get_yaxis_transform())
    for place, label in enumerate(order):
        told = _draw(axis, place, level[label], values[label], hollow=label in bad)
        found = None if label in bad else pairs.get((sound[0], label))
        versus = _less(found[0]) if found else ""
        for inches, text in ((0.04, told), (1.1, versus)):
            axis.text(
                1 + inches / beside[0], place, text, transform=beside[1], va="center", fontsize=5.8, color=INK
            )
        said.alt.append(
            f"{label}: {told}{f' ({bad[label]})' if label in bad else ''}{f', less the best {versus}' if versus else ''}."
        )
    for inches, text in ((0.04, "level"), (1.1, "less the best")):
        axis.text(
            1 + inches / beside[0], -0.8, text, transform=beside[1], va="center", fontsize=5.8, color=MUTED
        )
    for column, (first, last) in enumerate(untold(sound, pairs)):
        ends = [order.index(first) - 0.25, order.index(last) + 0.25]
        axis.plot(
            [1 + (2.15 + 0.1 * column) / beside[0]] * 2, ends, color=MUTED, linewidth=2, linestyle="-",
            marker="none", clip_on=False, transform=beside[1],
        )  # fmt: skip
        said.alt.append(f"No test tells {first} to {last} apart.")
    axis.set_yticks(range(len(order)), [label + mark(shown[label]) for label in order], fontsize=6)
    axis.set_ylim(len(order) - 0.4, -0.6)
    direction = DIRECTIONS.get(metric.partition("_")[0], "")
    axis.set_xlabel(
        " ".join(filter(None, ("Test", direction, filters.metric_name(metric) if direction else metric)))
    )
    several = max(map(len, shown.values())) > 1
    said.caption.append(
        "Thick: 95 % interval over the test images (bootstrap)"
        + ("; thin: over the seeds (Student's t)." if several else "; one seed.")
        + " In figures: the mean and what it is less the best one's, on the same images and seeds, each with the wider interval."
    )
    said.caption.append(
        f"Bars join methods of which no two differ: {len(sound)} methods, every two compared on the same images "
        "by a permutation test, p below .05 after Holm, and zero outside "
        f"{'both intervals' if several else 'the interval'} of the difference."
    )
    if any(len(records) < len(every[label]) for label, records in shown.items()):
        seeds = sorted({record.spec.seed for records in shown.values() for record in records})
        said.caption.append(f"Of the seeds that all of them have: {filters.listing(seeds)}.")
    if bad:
        said.caption.append(
            f"Hollow, in no comparison: {filters.listing(f'{label} ({why})' for label, why in bad.items())}."
        )
    return said


def read_values(records: Sequence[Record], protocol: str, metric: str) -> dict[int, np.ndarray]:
    """Seed → the metric's value for each test image, `(n_images,)`."""
    return {record.spec.seed: image_values(record, protocol, metric) for record in records}


def compare(
    order: Sequence[str], values: Mapping[str, Mapping[int, np.ndarray]]
) -> dict[tuple[str, str], tuple[Effect, float]]:
    """Each pair of methods → how much the first is above the second, and p corrected after Holm for the number of pairs.

    Parameters
    ----------
    order
        Methods, the best first.
    values
        Of each method, from `read_values`; two are compared on the seeds that both have, and not at all without any.
    """
    effects, every = {}, list(combinations(order, 2))
    for first, second in every:
        if seeds := sorted(values[first].keys() & values[second].keys()):
            of, over = ([values[label][seed] for seed in seeds] for label in (first, second))
            effects[first, second] = intervals.effect(over, of, len(every))
    corrected = intervals.holm([effect.p for effect in effects.values()])
    return {pair: (effect, p) for (pair, effect), p in zip(effects.items(), corrected, strict=True)}


def untold(
    order: Sequence[str], pairs: Mapping[tuple[str, str], tuple[Effect, float]]
) -> list[tuple[str, str]]:
    """First and last of each longest row of neighbours of which no two were found to differ; `pairs` is from `compare`."""
    alike = {pair for pair, (effect, p) in pairs.items() if p >= intervals.ALPHA or not effect.sign}
    found: list[tuple[int, int]] = []
    for first in range(len(order)):
        last = first
        while last + 1 < len(order) and all(
            (label, order[last + 1]) in alike for label in order[first : last + 1]
        ):
            last += 1
        if last > first and not (found and found[-1][1] == last):
            found.append((first, last))
    return [(order[first], order[last]) for first, last in found]


def _draw(axis: Axes, place: int, level: float, values: Mapping[int, np.ndarray], *, hollow: bool) -> str:
    """One method, and its level in words."""
    _, look, *_ = looks()
    of_seeds = list(values.values())
    images = intervals.image_interval(np.mean(of_seeds, axis=0))
    seeds = intervals.seed_interval(np.mean(of_seeds, axis=1))
    for bounds, thick in ((seeds, 0.8), (images, 2.4)):
        if bounds:
            axis.hlines(place, bounds.low, bounds.high, color=look["color"], linewidth=thick)
    face = PAGE if hollow else look["color"]
    axis.plot(
        [level], [place], color=look["color"], marker="o", markersize=4.2, markerfacecolor=face, zorder=3
    )
    wide = intervals.wider(images, seeds)
    return f"{level:.1f} [{wide.low:.1f}, {wide.high:.1f}]"


def _less(effect: Effect) -> str:
    """The difference to the best, in words, from how much that is above."""
    wide = intervals.wider(effect.images, effect.seeds)
    less, low, high = (0.0 - round(value, 1) for value in (effect.value, wide.high, wide.low))
    return f"{less:.1f} [{low:.1f}, {high:.1f}]".replace("-", "−")
