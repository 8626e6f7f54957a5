"""Recall on the validation set over the epochs, a line a run."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vsepp.report import entries, plots
from vsepp.report.models import Records, mark, read_history
from vsepp.report.plots import PAGE, Material, Said

CITATION = "Faghri et al. (2018), VSE++, Figure 2a"
RUNS = "listed"
NEEDS = ("dataset", "metrics", "labels")


def draw(figure: Figure, spec: entries.Figure, options: Any, material: Material) -> Said:
    """A panel per metric, a line per run over the epochs: mean over the seeds, band of one standard deviation."""
    shown = material.shown()
    is_shared = len({plots.unit(metric) for metric in spec.metrics}) == 1
    axes = figure.subplots(1, len(spec.metrics), squeeze=False, sharey=is_shared)[0]
    said = Said()
    for axis, metric in zip(axes, spec.metrics, strict=True):
        axis.set_title(plots.direction(metric))
        if axis is axes[0] or not is_shared:
            axis.set_ylabel(f"Validation {plots.unit(metric)}")
        ends = _draw_curves(axis, metric, spec, shown)
        said.alt.append(f"{plots.panel_name(metric, 'validation')}: {'; '.join(ends)}.")
    plots.legend(figure, axes[0])
    several = max(map(len, shown.values())) > 1
    said.caption.append(
        plots.seeds_text(shown) + ("; band of one sample standard deviation." if several else ".")
    )
    plots.say_trouble(said, {run: "collapsed" for run in shown if any(r.collapsed for r in shown[run])})
    return said


def _draw_curves(axis: Axes, metric: str, spec: entries.Figure, shown: Records) -> list[str]:
    """Draw a line per run, and say where each begins and ends."""
    ends = []
    for run, label, look in zip(spec.drawn, spec.labels, plots.looks(), strict=False):
        if run not in shown:
            continue
        histories = [read_history(record, metric) for record in shown[run]]
        epochs = list(histories[0])
        values = np.array([list(history.values()) for history in histories])
        means = values.mean(axis=0)
        face = PAGE if any(record.collapsed for record in shown[run]) else look["color"]
        # Not a marker at every point, so that long curves stay lines.
        every = max(1, len(epochs) // 15)
        name = label + mark(shown[run], training=True)
        axis.plot(epochs, means, **look, markerfacecolor=face, label=name, markevery=every)
        if len(values) > 1:
            sds = values.std(axis=0, ddof=1)
            axis.fill_between(epochs, means - sds, means + sds, color=look["color"], alpha=0.18, linewidth=0)
        ends.append(
            f"{label} {means[0]:.1f} after epoch {epochs[0]}, {means[-1]:.1f} after epoch {epochs[-1]}"
        )
    axis.set(xlabel="Epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    return ends
