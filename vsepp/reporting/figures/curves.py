"""Recall on the validation set over the epochs, a line a run."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vsepp.reporting.plots import (
    PAGE,
    Material,
    Said,
    legend,
    looks,
    mark,
    mean_sd,
    not_run,
    say_seeds,
    say_trouble,
    unit,
)
from vsepp.reporting.records import Records, read_history
from vsepp.reporting.specs import DIRECTIONS, FigureSpec

CITATION = "Faghri et al. (2018), VSE++, Figure 2a"
RUNS = "listed"
NEEDS = ("dataset", "metrics", "labels")


def draw(figure: Figure, spec: FigureSpec, options: Any, material: Material) -> Said:
    """A panel per metric, a line per run over the epochs: mean over the seeds, band of one standard deviation."""
    shown = {run: material.records[run] for run in spec.runs if run in material.records}
    shared = len({unit(metric) for metric in spec.metrics}) == 1
    axes = figure.subplots(1, len(spec.metrics), squeeze=False, sharey=shared)[0]
    said = Said()
    for axis, metric in zip(axes, spec.metrics, strict=True):
        axis.set_title(DIRECTIONS.get(metric.partition("_")[0], ""))
        if not shown:
            not_run(axis)
            continue
        told = _curves(axis, metric, spec, shown)
        said.alt.append(
            f"{f'{axis.get_title()}, validation'.removeprefix(', ')} {unit(metric)}: {'; '.join(told)}."
        )
    if shown:
        axes[0].set_ylabel(f"Validation {unit(spec.metrics[0])}")
        if not shared:
            for axis, metric in zip(axes, spec.metrics, strict=True):
                axis.set_ylabel(f"Validation {unit(metric)}")
        legend(figure, axes[0])
    say_seeds(said, shown, "band of one sample standard deviation")
    say_trouble(said, {run: "collapsed" for run in shown if any(r.collapsed for r in shown[run])})
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
            *(mean_sd([history[epoch] for history in histories]) for epoch in epochs), strict=True
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
