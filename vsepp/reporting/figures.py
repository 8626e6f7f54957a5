"""Figures: recall over the epochs, and over the size of the negative set."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter

from vsepp.reporting import TEMPLATES, filters
from vsepp.reporting.records import Record, Records, dirty_steps, read_history, scores
from vsepp.reporting.specs import DIRECTIONS, ContextSpec, FigureSpec

STYLE = TEMPLATES / "figure.mplstyle"
# Of each format, without dates and versions, so that the same numbers give the same bytes.
_METADATA = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def write_figure(spec: FigureSpec, context: ContextSpec, records: Records, folder: Path) -> str:
    """Draw a figure as PNG, SVG and PDF. Equal inputs give equal bytes.

    Parameters
    ----------
    spec
        What is drawn. Runs without records were not run: they are left out and named in the caption.
    context
        What the caption says about the data.
    records
        Of each model.
    folder
        Where `<id>.png`, `<id>.svg` and `<id>.pdf` go.

    Returns
    -------
    str
        The caption.

    Raises
    ------
    VseppError
        When a history lacks a metric, and as in `scores`.
    """
    runs = [*spec.runs, *([spec.baseline] if spec.baseline else [])]
    shown = {run: records[run] for run in runs if run in records}
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(8.4, 3.5) if len(spec.metrics) > 1 else (6.4, 4.0), layout="constrained")
        axes = figure.subplots(1, len(spec.metrics), squeeze=False)[0]
        for axis, metric in zip(axes, spec.metrics, strict=True):
            (_curves if spec.kind == "curves" else _negative_set)(axis, metric, spec, shown)
            axis.set_title(DIRECTIONS[metric.partition("_")[0]])
            if not shown:
                axis.grid(False)
                axis.set(xticks=[], yticks=[])
                axis.text(
                    0.5, 0.5, "not run", transform=axis.transAxes, ha="center", va="center", fontsize=16
                )
        if shown:
            axes[0].legend(loc="lower right" if spec.kind == "curves" else "best")
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, metadata in _METADATA.items():
            figure.savefig(folder / f"{spec.id}.{suffix}", format=suffix, metadata=metadata)
    return _caption(spec, context, runs, shown)


def _curves(axis: Axes, metric: str, spec: FigureSpec, shown: Records) -> None:
    """One line per run over the epochs: mean over the seeds, band of one standard deviation."""
    looks = _looks()
    for place, (run, label) in enumerate(zip(spec.runs, spec.labels, strict=True)):
        if run not in shown:
            continue
        look = looks[place % len(looks)]
        histories = [read_history(record, metric) for record in shown[run]]
        epochs = list(histories[0])
        means, sds = zip(
            *(_mean_sd([history[epoch] for history in histories]) for epoch in epochs), strict=True
        )
        # Not a marker at every point, so that long curves stay lines.
        every = max(1, len(epochs) // 15)
        axis.plot(epochs, means, **look, label=label + _mark(spec, shown[run]), markevery=every)
        if len(histories) > 1:
            low, high = np.subtract(means, sds), np.add(means, sds)
            axis.fill_between(epochs, low, high, color=look["color"], alpha=0.18, linewidth=0)
    axis.set(xlabel="Epoch", ylabel=f"Validation {_unit(metric)}")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def _negative_set(axis: Axes, metric: str, spec: FigureSpec, shown: Records) -> None:
    """A metric over the size of the negative set on a log axis; the baseline as a horizontal line."""
    level, line, *_ = _looks()
    found = {
        run: _mean_sd([values[metric] for values in scores(records, spec.protocol)])
        for run, records in shown.items()
    }
    if spec.baseline in found:
        mean, sd = found[spec.baseline]
        label = spec.labels[-1] + _mark(spec, shown[spec.baseline])
        axis.axhline(mean, color=level["color"], linestyle=(0, (5, 3)), label=label)
        if not math.isnan(sd):
            axis.axhspan(mean - sd, mean + sd, color=level["color"], alpha=0.12, linewidth=0)
    if any(run in found for run in spec.runs):
        # A size that was not run is a gap in the line, not a bridge.
        means, sds = zip(*(found.get(run, (math.nan, math.nan)) for run in spec.runs), strict=True)
        label = spec.labels[0] + _mark(spec, [record for run in spec.runs for record in shown.get(run, ())])
        bars = None if all(map(math.isnan, sds)) else sds
        axis.errorbar(spec.sizes, means, yerr=bars, **line, label=label, capsize=3, elinewidth=1.2)
    axis.set(xlabel="Size of the negative set (pairs, log scale)", ylabel=f"Test {_unit(metric)}")
    axis.set_xscale("log", base=2)
    axis.set_xlim(min(spec.sizes) / 1.35, max(spec.sizes) * 1.35)
    axis.xaxis.set_major_locator(FixedLocator(spec.sizes))
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())
    axis.margins(y=0.12)


def _looks() -> list[dict[str, Any]]:
    """Colour and marker of each line, by the style."""
    return list(matplotlib.rcParams["axes.prop_cycle"])


def _mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and sample standard deviation; NaN with one seed."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def _unit(metric: str) -> str:
    return filters.metric_name(metric) + ("" if filters.lower_is_better(metric) else " (%)")


def _mark(spec: FigureSpec, records: Sequence[Record]) -> str:
    return filters.MARK if dirty_steps(records, training=spec.kind == "curves") else ""


def _caption(spec: FigureSpec, context: ContextSpec, runs: Sequence[str], shown: Records) -> str:
    parts = [spec.caption]
    seeds = sorted({len(records) for records in shown.values()})
    if max(seeds, default=0) > 1:
        what = "band" if spec.kind == "curves" else "bars and band"
        parts.append(f"Mean over {filters.listing(seeds)} seeds; {what} of one sample standard deviation.")
    elif seeds:
        parts.append("One seed.")
    if missing := [run for run in runs if run not in shown]:
        parts.append(f"Not run: {filters.listing(missing)}.")
    if dirty := [run for run, records in shown.items() if _mark(spec, records)]:
        records = [record for run in dirty for record in shown[run]]
        note = filters.dirty_note(dirty_steps(records, training=spec.kind == "curves"))
        parts.append(f"{filters.MARK} {filters.listing(dirty)}: {note}")
    parts += [f"Data: {swap}." for swap in context.swaps([spec.dataset])]
    return " ".join([*parts, context.data_note]).strip()


def inline_svg(spec: FigureSpec, file: Path) -> str:
    """A figure's SVG as part of a page."""
    return themed(file.read_text(encoding="utf-8"), spec.id, filters.numbered(spec.id) or spec.title)


def themed(svg: str, name: str, text: str) -> str:
    """An SVG as part of a page: it takes the page's colours, in light and dark, and its ids, which begin with `name`, stay its own.

    `text` says what it shows, for those who do not see it.
    """
    style = matplotlib.rc_params_from_file(STYLE, use_default_template=False)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    # The rectangles behind the figure and its panels would stay white on a dark page.
    colours = {"#ffffff": "none", style["text.color"]: "currentColor", style["grid.color"]: "var(--rule)"}
    colours |= {look["color"]: f"var(--series-{k})" for k, look in enumerate(style["axes.prop_cycle"])}
    for colour, shown in colours.items():
        svg = svg.replace(to_hex(colour), shown)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(text)}" ', 1)
