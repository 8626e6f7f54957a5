"""Recall on the test set over the size of the negative set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from vsepp.evaluation.intervals import Interval, image_interval, seed_interval
from vsepp.reporting import filters
from vsepp.reporting.plots import (
    INK,
    PAGE,
    Material,
    Said,
    legend,
    looks,
    mark,
    not_run,
    say_seeds,
    say_trouble,
    unit,
)
from vsepp.reporting.records import Record, Records, image_values, score, scores, trouble_of
from vsepp.reporting.specs import DIRECTIONS, FigureSpec

CITATION = "Faghri et al. (2018), VSE++, Figure 2b"
RUNS = "by_size"
NEEDS = ("dataset", "metrics", "labels", "protocol")
TAKES = ("baseline",)
HEIGHT = 2.4


def draw(figure: Figure, spec: FigureSpec, options: Any, material: Material) -> Said:
    """A metric over the size of the negative set on a log axis; the baseline as a horizontal line."""
    runs = [*spec.runs, *([spec.baseline] if spec.baseline else [])]
    shown = {run: material.records[run] for run in runs if run in material.records}
    axes, said = figure.subplots(1, len(spec.metrics), squeeze=False)[0], Said()
    bad = {run: why for run in shown if (why := trouble_of(shown[run], spec.under))}
    for axis, metric in zip(axes, spec.metrics, strict=True):
        if len(axes) > 1:
            axis.set_title(DIRECTIONS.get(metric.partition("_")[0], ""))
        if not shown:
            not_run(axis)
            continue
        told = _negative_set(axis, metric, spec, shown, bad)
        drawn = _references(axis, metric, spec, material)
        direction = DIRECTIONS.get(metric.partition("_")[0], "")
        said.alt.append(f"{f'{direction}, test'.removeprefix(', ')} {unit(metric)}: {'; '.join(told)}.")
        if drawn:
            said.alt.append(f"The paper prints {'; '.join(drawn)}.")
            said.caption.append("Crosses: the paper's values, where it prints one.")
    if shown:
        legend(figure, axes[0])
    if spec.baseline in shown:
        said.caption.append(f"Dashed: the level of {spec.labels[-1]}.")
    numbers = set(map(len, shown.values()))
    of_seeds, of_images = "95 % interval over the seeds (Student's t)", "over the test images (bootstrap)"
    if max(numbers, default=0) < 2:
        bars = f"Bars and band: 95 % interval {of_images}"
    else:
        bars = f"bars and band: {of_seeds}{f', of one seed {of_images}' if 1 in numbers else ''}"
    say_seeds(said, shown, bars)
    say_trouble(said, bad)
    return said


def _negative_set(
    axis: Axes, metric: str, spec: FigureSpec, shown: Records, bad: dict[str, str]
) -> list[str]:
    level, line, *_ = looks()
    found = {run: _level(records, spec.under, metric) for run, records in shown.items()}
    told = []
    if spec.baseline in found:
        mean, bounds = found[spec.baseline]
        label = spec.labels[-1] + mark(shown[spec.baseline])
        axis.axhline(mean, color=level["color"], linestyle=(0, (5, 3)), label=label)
        if bounds:
            axis.axhspan(bounds.low, bounds.high, color=level["color"], alpha=0.15, linewidth=0)
        told.append(f"{spec.labels[-1]} {_told(mean, bounds)}")
    sizes = dict(zip(spec.runs, spec.sizes, strict=True))
    if there := [run for run in spec.runs if run in found]:
        # A size that was not run, or whose run is in trouble, is a gap in the line, not a bridge.
        means = [found[run][0] if run in found and run not in bad else math.nan for run in spec.runs]
        label = spec.labels[0] + mark([record for run in there for record in shown[run]])
        axis.plot(spec.sizes, means, **line, label=label)
        for run in there:
            mean, bounds = found[run]
            face = PAGE if run in bad else line["color"]
            if bounds:
                axis.vlines(sizes[run], bounds.low, bounds.high, color=line["color"], linewidth=1)
            axis.plot(
                [sizes[run]],
                [mean],
                color=line["color"],
                marker=line["marker"],
                markerfacecolor=face,
                zorder=3,
            )
            why = f" ({bad[run]})" if run in bad else ""
            told.append(f"{spec.labels[0]} with {sizes[run]}: {_told(mean, bounds)}{why}")
    axis.set(xlabel="Size of the negative set (pairs, log scale)", ylabel=f"Test {unit(metric)}")
    axis.set_xscale("log", base=2)
    axis.set_xlim(min(spec.sizes) / 1.35, max(spec.sizes) * 1.35)
    axis.xaxis.set_major_locator(FixedLocator(spec.sizes))
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())
    axis.margins(y=0.12)
    axis.set_ylim(bottom=max(0.0, axis.get_ylim()[0]))
    return told


def _references(axis: Axes, metric: str, spec: FigureSpec, material: Material) -> list[str]:
    """Marks of the paper's values, where data and encoders are the paper's: levels of other data are no reference."""
    if material.context.data_note or material.context.swaps([spec.dataset, *spec.encoders]):
        return []
    sizes, told = dict(zip(spec.runs, spec.sizes, strict=True)), list[str]()
    for run, row in spec.references:
        text = material.published.get(("", row), {}).get(metric)
        if not text or (run not in sizes and run != spec.baseline):
            continue
        place = sizes.get(run, max(spec.sizes) * 1.2)
        label = "" if told else "the paper's value"
        axis.plot([place], [float(text)], color=INK, marker="x", linestyle="none", label=label, zorder=4)
        told.append(f"{text} for {f'size {sizes[run]}' if run in sizes else spec.labels[-1]}")
    return told


def _level(records: Sequence[Record], protocol: str, metric: str) -> tuple[float, Interval | None]:
    """Mean over the seeds, and its interval: over the seeds or, with one, over the test images."""
    scores(records, protocol)  # refuses what cannot stand beside each other
    values = [score(record, protocol, metric) for record in records]
    if len(values) > 1:
        return float(np.mean(values)), seed_interval(values)
    if filters.lower_is_better(metric):  # ranks have no value per image that averages to them
        return values[0], None
    return values[0], image_interval(image_values(records[0], protocol, metric))


def _told(mean: float, bounds: Interval | None) -> str:
    return f"{mean:.1f}" + (f" (95 % interval {bounds.low:.1f} to {bounds.high:.1f})" if bounds else "")
