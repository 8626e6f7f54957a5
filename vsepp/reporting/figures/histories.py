"""Learning curves of all runs of a report, a panel a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vsepp.reporting import filters
from vsepp.reporting.plots import OURS, Material, Said, say_trouble, unit
from vsepp.reporting.records import Record, mark, read_history, trouble_of
from vsepp.reporting.report_specs import FigureSpec

RUNS = "all"
NEEDS = ("metrics",)
MOST_METRICS = 1
_COLUMNS = 4


def draw(figure: Figure, spec: FigureSpec, options: Any, material: Material) -> Said:
    """A small panel per run: the metric after each epoch, a thin line per seed; collapsed ones dotted."""
    (metric,) = spec.metrics
    shown, said = material.shown(spec.runs), Said()
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure.set_size_inches(figure.get_size_inches()[0], 0.5 + 0.95 * rows)
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    figure.supxlabel("Epoch", fontsize=7)
    figure.supylabel(f"Validation {unit(metric)}", fontsize=7)
    said.alt.append(f"Validation {unit(metric)} of {len(shown)} runs.")
    collapsed: dict[str, str] = {}
    at_chance: dict[str, str] = {}
    for axis, (run, records) in zip(axes.flat, shown.items(), strict=False):
        ends = _draw_histories(axis, records, metric)
        axis.set_title(run + mark(records, training=True), fontsize=6)
        trouble = trouble_of(records)
        seeds = sum(record.collapsed for record in records)
        if seeds:
            trouble = collapsed[run] = "collapsed"
        elif trouble:
            at_chance[run] = trouble
        if trouble:
            which = f" {seeds} of {len(records)} seeds" if seeds and len(records) > 1 else ""
            # Such a curve runs low.
            axis.text(0.97, 0.94, trouble + which, transform=axis.transAxes, ha="right", va="top", fontsize=6)
        sentence = f"{run}: {filters.listing(f'{end:.1f}' for end in ends)} after the last epoch"
        said.alt.append(sentence + (f", {trouble}." if trouble else "."))
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    said.caption.append("One line per seed." if max(map(len, shown.values())) > 1 else "One seed.")
    say_trouble(said, collapsed, "Dotted, with a cross at the end")
    say_trouble(said, at_chance, "On the test set")
    return said


def _draw_histories(axis: Axes, records: Sequence[Record], metric: str) -> list[float]:
    """Draw a line per seed, and return where each ends."""
    ends = []
    for record in records:
        history = read_history(record, metric)
        values = list(history.values())
        dashes: Any = (0, (1, 1.5)) if record.collapsed else "solid"
        axis.plot(
            list(history), values, color=OURS, linestyle=dashes, linewidth=1,
            marker="x" if record.collapsed else "none", markevery=[-1], markersize=4,
        )  # fmt: skip
        ends.append(values[-1])
    axis.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True, steps=[1, 2, 5, 10]))
    return ends
