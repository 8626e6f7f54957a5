"""What figures draw of runs: recall over the epochs, over the negative-set size, and every run's curve."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter

from vsepp.evaluation.intervals import Interval, image_interval, seed_interval
from vsepp.reporting import filters
from vsepp.reporting.published import Published
from vsepp.reporting.records import (
    Record,
    Records,
    image_values,
    marks,
    read_history,
    scores,
    trouble_of,
)
from vsepp.reporting.specs import DIRECTIONS, ContextSpec, FigureSpec

INK, PAGE, MUTED = "#24292f", "#ffffff", "#626b76"
"""Colours of text, of what lies behind it, and of asides; a page replaces them by its own."""


@dataclass(frozen=True)
class Material:
    """What figures are drawn from."""

    context: ContextSpec
    records: Records
    published: Published = field(default_factory=dict)


@dataclass
class Said:
    """What is told of a figure in words."""

    caption: list[str] = field(default_factory=list)
    """Sentences that follow the figure's own caption."""
    alt: list[str] = field(default_factory=list)
    """Sentences that say what is shown, numbers included."""


def looks() -> list[dict[str, Any]]:
    """Colour, marker and dashes of each line, by the style."""
    return list(matplotlib.rcParams["axes.prop_cycle"])


def not_run(axis: Axes, why: str = "not run") -> None:
    """An empty panel that says why."""
    axis.grid(False)
    axis.set(xticks=[], yticks=[])
    axis.text(0.5, 0.5, why, transform=axis.transAxes, ha="center", va="center", fontsize=11)


# --- Recall over the epochs ------------------------------------------------------------------------------------


def draw_curves(figure: Figure, spec: FigureSpec, material: Material) -> Said:
    """A panel per metric, a line per run over the epochs: mean over the seeds, band of one standard deviation."""
    shown = {run: material.records[run] for run in spec.runs if run in material.records}
    shared = len({_unit(metric) for metric in spec.metrics}) == 1
    axes = figure.subplots(1, len(spec.metrics), squeeze=False, sharey=shared)[0]
    said = Said()
    for axis, metric in zip(axes, spec.metrics, strict=True):
        axis.set_title(DIRECTIONS[metric.partition("_")[0]])
        if not shown:
            not_run(axis)
            continue
        told = _curves(axis, metric, spec, shown)
        said.alt.append(f"{axis.get_title()}, validation {_unit(metric)}: {'; '.join(told)}.")
    if shown:
        axes[0].set_ylabel(f"Validation {_unit(spec.metrics[0])}")
        if not shared:
            for axis, metric in zip(axes, spec.metrics, strict=True):
                axis.set_ylabel(f"Validation {_unit(metric)}")
        _legend(figure, axes[0])
    _say_seeds(said, shown, "band of one sample standard deviation")
    _say_trouble(said, {run: "collapsed" for run in shown if any(r.collapsed for r in shown[run])})
    return said


def _curves(axis: Axes, metric: str, spec: FigureSpec, shown: Records) -> list[str]:
    told = []
    for place, (run, label) in enumerate(zip(spec.runs, spec.labels, strict=True)):
        if run not in shown:
            continue
        look = looks()[place % len(looks())]
        histories = [read_history(record, metric) for record in shown[run]]
        epochs = list(histories[0])
        means, sds = zip(
            *(_mean_sd([history[epoch] for history in histories]) for epoch in epochs), strict=True
        )
        # Not a marker at every point, so that long curves stay lines.
        every = max(1, len(epochs) // 15)
        hollow: Any = {"markerfacecolor": PAGE} if any(record.collapsed for record in shown[run]) else {}
        axis.plot(
            epochs, means, **look, **hollow, label=label + mark(shown[run], training=True), markevery=every
        )
        if len(histories) > 1:
            low, high = np.subtract(means, sds), np.add(means, sds)
            axis.fill_between(epochs, low, high, color=look["color"], alpha=0.18, linewidth=0)
        ends = f"{means[0]:.1f} after epoch {epochs[0]}, {means[-1]:.1f} after epoch {epochs[-1]}"
        told.append(f"{label} {ends}")
    axis.set(xlabel="Epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    return told


# --- Over the size of the negative set -------------------------------------------------------------------------


def draw_negative_set(figure: Figure, spec: FigureSpec, material: Material) -> Said:
    """A metric over the size of the negative set on a log axis; the baseline as a horizontal line."""
    runs = [*spec.runs, *([spec.baseline] if spec.baseline else [])]
    shown = {run: material.records[run] for run in runs if run in material.records}
    axes, said = figure.subplots(1, len(spec.metrics), squeeze=False)[0], Said()
    bad = {run: why for run in shown if (why := trouble_of(shown[run], spec.protocol))}
    for axis, metric in zip(axes, spec.metrics, strict=True):
        if len(axes) > 1:
            axis.set_title(DIRECTIONS[metric.partition("_")[0]])
        if not shown:
            not_run(axis)
            continue
        told = _negative_set(axis, metric, spec, shown, bad)
        drawn = _references(axis, metric, spec, material)
        said.alt.append(f"{DIRECTIONS[metric.partition('_')[0]]}, test {_unit(metric)}: {'; '.join(told)}.")
        if drawn:
            said.alt.append(f"The paper prints {'; '.join(drawn)}.")
            said.caption.append("Crosses: the paper's values, where it prints one.")
    if shown:
        _legend(figure, axes[0])
    if spec.baseline in shown:
        said.caption.append(f"Dashed: the level of {spec.labels[-1]}.")
    numbers = set(map(len, shown.values()))
    of_seeds, of_images = "95 % interval over the seeds (Student's t)", "over the test images (bootstrap)"
    if max(numbers, default=0) < 2:
        bars = f"Bars and band: 95 % interval {of_images}"
    else:
        bars = f"bars and band: {of_seeds}{f', of one seed {of_images}' if 1 in numbers else ''}"
    _say_seeds(said, shown, bars)
    _say_trouble(said, bad)
    return said


def _negative_set(
    axis: Axes, metric: str, spec: FigureSpec, shown: Records, bad: dict[str, str]
) -> list[str]:
    level, line, *_ = looks()
    found = {run: _level(records, spec.protocol, metric) for run, records in shown.items()}
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
    axis.set(xlabel="Size of the negative set (pairs, log scale)", ylabel=f"Test {_unit(metric)}")
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
    values = [found[metric] for found in scores(records, protocol)]
    if len(values) > 1:
        return float(np.mean(values)), seed_interval(values)
    if filters.lower_is_better(metric):  # ranks have no value per image that averages to them
        return values[0], None
    return values[0], image_interval(image_values(records[0], protocol, metric))


def _told(mean: float, bounds: Interval | None) -> str:
    return f"{mean:.1f}" + (f" (95 % interval {bounds.low:.1f} to {bounds.high:.1f})" if bounds else "")


# --- Every run's curve -----------------------------------------------------------------------------------------

_COLUMNS = 4


def draw_histories(figure: Figure, spec: FigureSpec, material: Material) -> Said:
    """A small panel per run: the metric after each epoch, a thin line per seed; collapsed ones dotted."""
    (metric,) = spec.metrics
    shown = {run: material.records[run] for run in spec.runs if run in material.records}
    said = Said()
    columns = min(_COLUMNS, max(1, len(shown)))
    rows = max(1, math.ceil(len(shown) / columns))
    width = figure.get_size_inches()[0]
    figure.set_size_inches(width, 0.5 + 0.95 * rows if shown else 1.5)
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    if not shown:
        not_run(axes[0, 0])
    _, look, *_ = looks()
    bad: dict[str, str] = {}
    for axis, (run, records) in zip(axes.flat, shown.items(), strict=False):
        ends = []
        for record in records:
            history = read_history(record, metric)
            dashes: Any = (0, (1, 1.5)) if record.collapsed else "solid"
            axis.plot(
                list(history), list(history.values()), color=look["color"], linestyle=dashes, linewidth=1,
                marker="x" if record.collapsed else "none", markevery=[-1], markersize=4, label=f"_{run}",
            )  # fmt: skip
            ends.append(list(history.values())[-1])
        collapsed = sum(record.collapsed for record in records)
        axis.set_title(run + mark(records, training=True), fontsize=6)
        which = f" {collapsed} of {len(records)} seeds" if collapsed and len(records) > 1 else ""
        if why := "collapsed" if collapsed else trouble_of(records):
            # Such a curve runs low.
            axis.text(0.97, 0.94, why + which, transform=axis.transAxes, ha="right", va="top", fontsize=6)
            bad[run] = why
        axis.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True, steps=[1, 2, 5, 10]))
        said.alt.append(
            f"{run}: {filters.listing(f'{end:.1f}' for end in ends)} after the last epoch{', ' + why if why else ''}."
        )
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(bool(not shown and axis is axes[0, 0]))
    if shown:
        figure.supxlabel("Epoch", fontsize=7)
        figure.supylabel(f"Validation {_unit(metric)}", fontsize=7)
        said.alt.insert(0, f"Validation {_unit(metric)} of {len(shown)} runs.")
    several = max(map(len, shown.values()), default=0) > 1
    if shown:
        said.caption.append("A line a seed." if several else "One seed.")
    collapsed_ones = {run: why for run, why in bad.items() if why == "collapsed"}
    _say_trouble(said, collapsed_ones, "Dotted, with a cross at the end")
    _say_trouble(said, {run: why for run, why in bad.items() if run not in collapsed_ones}, "On the test set")
    return said


# --- Shared ----------------------------------------------------------------------------------------------------


def _legend(figure: Figure, axis: Axes) -> None:
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=min(3, len(handles)))


def _mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and sample standard deviation; NaN with one seed."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def _unit(metric: str) -> str:
    if metric == "rsum":
        return "rsum"
    return filters.metric_name(metric) + ("" if filters.lower_is_better(metric) else " (%)")


def mark(records: Iterable[Record], training: bool = False) -> str:
    """Signs at numbers or histories, as `vsepp.reporting.records.marks` gives them."""
    return "".join(marks(list(records), training))


def _say_seeds(said: Said, shown: Records, how: str) -> None:
    seeds = sorted({len(records) for records in shown.values()})
    if max(seeds, default=0) > 1:
        said.caption.append(f"Mean over {filters.listing(seeds)} seeds; {how}.")
    elif seeds:
        said.caption.append("One seed." + (f" {how}." if how[0].isupper() else ""))


def _say_trouble(said: Said, bad: dict[str, str], how: str = "Hollow") -> None:
    if bad:
        named = "; ".join(f"{run} ({why})" for run, why in bad.items())
        said.caption.append(f"{how}: {named}.")
