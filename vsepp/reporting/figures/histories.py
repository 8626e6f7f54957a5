"""Learning curves of all runs of a report, a panel a run."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vsepp.reporting import filters
from vsepp.reporting.plots import Material, Said, looks, mark, not_run, say_trouble, unit
from vsepp.reporting.records import read_history, trouble_of
from vsepp.reporting.specs import FigureSpec

RUNS = "all"
NEEDS = ("metrics",)
MOST_METRICS = 1
_COLUMNS = 4


def draw(figure: Figure, spec: FigureSpec, options: Any, material: Material) -> Said:
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
        figure.supylabel(f"Validation {unit(metric)}", fontsize=7)
        said.alt.insert(0, f"Validation {unit(metric)} of {len(shown)} runs.")
    several = max(map(len, shown.values()), default=0) > 1
    if shown:
        said.caption.append("A line a seed." if several else "One seed.")
    collapsed_ones = {run: why for run, why in bad.items() if why == "collapsed"}
    say_trouble(said, collapsed_ones, "Dotted, with a cross at the end")
    say_trouble(said, {run: why for run, why in bad.items() if run not in collapsed_ones}, "On the test set")
    return said
