"""Figures 2a and 2b: recall over the epochs, and over the size of the negative set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter

from vsepp.errors import VseppError
from vsepp.reporting import filters
from vsepp.reporting.origins import MARK, Origin, dirty_note, dirty_steps, read_origin
from vsepp.reporting.records import read_history, read_metrics
from vsepp.reporting.specs import DIRECTIONS, ContextSpec, FigureSpec, SeriesSpec

# Colours that colour-blind readers tell apart (Okabe and Ito); markers differ too, for print without colour.
INK, RULE = "#24292f", "#c9ced6"
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7")
MARKERS = ("s", "o", "^", "D")
FORMATS = ("png", "svg", "pdf")
_PNG_DPI = 200
_STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "legend.fontsize": 9.5,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.edgecolor": "none",
    "legend.facecolor": "#ffffff",
    "legend.framealpha": 1.0,
    "pdf.fonttype": 42,
    # Fixed, so that the same numbers give the same bytes.
    "svg.hashsalt": "vsepp",
}
_METADATA = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@dataclass(frozen=True)
class Figure:
    """A figure on disk and what is said below it."""

    spec: FigureSpec
    context: ContextSpec
    caption: str
    files: tuple[Path, ...]
    """PNG, SVG and PDF."""
    drawn: int
    """Series in it; 0 means that nothing was run."""
    origins: tuple[tuple[str, Origin], ...] = ()
    """(run, origin) of every file that was drawn."""

    @property
    def name(self) -> str:
        """`Figure 2a`."""
        return f"Figure {self.spec.number}"


def write_figure(spec: FigureSpec, context: ContextSpec, folder: Path) -> Figure:
    """Draw a figure as PNG, SVG and PDF. Equal inputs give equal bytes.

    Parameters
    ----------
    spec
        What is drawn, from which files. Series without files are left out and named in the caption.
    context
        What the caption says about the data.
    folder
        Where `<id>.png`, `<id>.svg` and `<id>.pdf` go.

    Raises
    ------
    VseppError
        When a file is missing, malformed or lacks a metric, or when a series has no negative-set size.
    """
    curves = spec.kind == "curves"
    origins = {series.run: _origins(series) for series in _all_series(spec)}
    with matplotlib.rc_context(_STYLE):
        canvas = Canvas(figsize=(8.4, 3.5) if len(spec.metrics) > 1 else (6.4, 4.0), layout="constrained")
        axes = canvas.subplots(1, len(spec.metrics), squeeze=False)[0]
        drawn, seeds = _curves(axes, spec) if curves else _negative_set(axes, spec)
        if not drawn:
            _say_not_run(axes)
        folder.mkdir(parents=True, exist_ok=True)
        files = tuple(folder / f"{spec.id}.{suffix}" for suffix in FORMATS)
        for file, suffix in zip(files, FORMATS, strict=True):
            canvas.savefig(file, format=suffix, dpi=_PNG_DPI, metadata=_METADATA[suffix])
    listed = tuple((run, origin) for run, found in origins.items() for origin in found)
    return Figure(spec, context, _caption(spec, context, seeds, origins), files, drawn, listed)


def _all_series(spec: FigureSpec) -> list[SeriesSpec]:
    return [*spec.series, *([spec.baseline] if spec.baseline else [])]


def _origins(series: SeriesSpec) -> list[Origin]:
    return [read_origin(Path(file)) for file in series.files]


def _label(label: str, *series: SeriesSpec) -> str:
    """A label of the legend, with a sign where no commit holds all that is behind what it stands for."""
    return label + (MARK if dirty_steps(origin for one in series for origin in _origins(one)) else "")


def _curves(axes: list[Axes], spec: FigureSpec) -> tuple[int, set[int]]:
    """One panel per metric, one line per run: mean over the seeds, band of one standard deviation."""
    drawn, seeds = 0, set()
    for place, series in enumerate(spec.series):
        if not series.files:
            continue
        drawn += 1
        seeds.add(len(series.files))
        history = read_history(series.files, spec.metrics)
        for axis, metric in zip(axes, spec.metrics, strict=True):
            by_epoch = history[history["metric"] == metric].groupby("epoch")["value"].agg(["mean", "std"])
            mean = by_epoch["mean"].to_numpy(float)
            label = _label(series.label, series)
            axis.plot(by_epoch.index, mean, label=label, **_look(place), markevery=_sparse(len(mean)))
            if len(series.files) > 1:
                sd = by_epoch["std"].to_numpy(float)
                axis.fill_between(
                    by_epoch.index, mean - sd, mean + sd, color=COLOURS[place], alpha=0.18, linewidth=0
                )
    for axis, metric in zip(axes, spec.metrics, strict=True):
        axis.set(title=_direction(metric), xlabel="Epoch", ylabel=f"Validation {_unit(metric)}")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    if drawn:
        axes[0].legend(loc="lower right")
    return drawn, seeds


def _negative_set(axes: list[Axes], spec: FigureSpec) -> tuple[int, set[int]]:
    """R@1 over the size of the negative set on a log axis; the baseline as a horizontal line."""
    sizes = [_size(spec, series) for series in spec.series]
    protocol = spec.protocol or "1K"
    found = {
        size: read_metrics(series.files, protocol)
        for size, series in zip(sizes, spec.series, strict=True)
        if series.files
    }
    baseline = spec.baseline if spec.baseline and spec.baseline.files else None
    metrics = read_metrics(baseline.files, protocol) if baseline else pd.DataFrame()
    for axis, metric in zip(axes, spec.metrics, strict=True):
        if baseline:
            _level(axis, metrics[metric], _label(baseline.label, baseline))
        if found:
            # A size that was not run is a gap in the line, not a bridge.
            values = {
                size: found[size][metric].astype(float) if size in found else None for size in sorted(sizes)
            }
            sds = [math.nan if value is None else value.std(ddof=1) for value in values.values()]
            axis.errorbar(
                list(values),
                [math.nan if value is None else value.mean() for value in values.values()],
                yerr=None if all(map(math.isnan, sds)) else sds,
                label=_label(spec.series[0].label, *spec.series),
                capsize=3,
                elinewidth=1.2,
                **_look(1),
            )
        axis.set(
            title=_direction(metric),
            xlabel="Size of the negative set (pairs, log scale)",
            ylabel=f"Test {_unit(metric)}",
        )
        axis.set_xscale("log", base=2)
        axis.set_xlim(min(sizes) / 1.35, max(sizes) * 1.35)
        axis.xaxis.set_major_locator(FixedLocator(sizes))
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.xaxis.set_minor_locator(NullLocator())
        axis.margins(y=0.12)
    if found or baseline:
        axes[0].legend(loc="best")
    counts = {len(values) for values in found.values()} | ({len(metrics)} if baseline else set())
    return len(found) + bool(baseline), counts


def _level(axis: Axes, values: pd.Series, label: str) -> None:
    mean = float(values.mean())
    axis.axhline(mean, color=COLOURS[0], linestyle=(0, (5, 3)), label=label)
    if len(values) > 1:
        sd = float(values.std(ddof=1))
        axis.axhspan(mean - sd, mean + sd, color=COLOURS[0], alpha=0.12, linewidth=0)


def _look(place: int) -> dict[str, str]:
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}


def _sparse(points: int) -> int:
    """Every how manieth point carries a marker, so that long curves stay lines."""
    return max(1, points // 15)


def _size(spec: FigureSpec, series: SeriesSpec) -> int:
    if series.size is None:
        raise VseppError(f"{spec.id}, run {series.run}: no size of its negative set; give `size`, in pairs")
    return series.size


def _direction(metric: str) -> str:
    return DIRECTIONS[metric.partition("_")[0]]


def _unit(metric: str) -> str:
    return filters.metric_name(metric) + ("" if filters.lower_is_better(metric) else " (%)")


def _say_not_run(axes: list[Axes]) -> None:
    for axis in axes:
        axis.grid(False)
        axis.set(xticks=[], yticks=[])
        axis.text(0.5, 0.5, "not run", transform=axis.transAxes, ha="center", va="center", fontsize=16)


def _caption(
    spec: FigureSpec, context: ContextSpec, seeds: set[int], origins: Mapping[str, Sequence[Origin]]
) -> str:
    parts = [spec.caption]
    if seeds and max(seeds) > 1:
        shown = filters.listing(sorted(seeds))
        what = "band" if spec.kind == "curves" else "bars and band"
        parts.append(f"Mean over {shown} seeds; {what} of one sample standard deviation.")
    elif seeds:
        parts.append("One seed.")
    if missing := [series.run for series in _all_series(spec) if not series.files]:
        parts.append(f"Not run: {filters.listing(missing)}.")
    if dirty := [run for run, found in origins.items() if dirty_steps(found)]:
        steps = dirty_steps(origin for run in dirty for origin in origins[run])
        parts.append(f"{MARK} {filters.listing(dirty)}: {dirty_note(steps)}")
    if context.here(spec.dataset) != context.in_paper(spec.dataset):
        parts.append(f"Data: {context.here(spec.dataset)} in place of {context.in_paper(spec.dataset)}.")
    if context.data_note:
        parts.append(context.data_note)
    return " ".join(parts)
