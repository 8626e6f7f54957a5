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
from vsepp.report import entries, plots, text
from vsepp.report.models import Record, Records, image_values, mark, score, scores, trouble_of
from vsepp.report.plots import INK, OURS, PAGE, THEIRS, Material, Said

CITATION = "Faghri et al. (2018), VSE++, Figure 2b"
RUNS = "by_size"
NEEDS = ("dataset", "metrics", "labels", "protocol")
TAKES = ("baseline",)
HEIGHT = 2.4

Level = tuple[float, Interval | None]
"""Mean over the seeds, and its interval."""


def draw(figure: Figure, spec: entries.Figure, options: Any, material: Material) -> Said:
    """A metric over the size of the negative set on a log axis; the baseline as a horizontal line."""
    shown, said = material.shown(spec.baseline), Said()
    axes = figure.subplots(1, len(spec.metrics), squeeze=False)[0]
    trouble = {run: why for run in shown if (why := trouble_of(shown[run], spec.under))}
    for axis, metric in zip(axes, spec.metrics, strict=True):
        if len(axes) > 1:
            axis.set_title(plots.direction(metric))
        levels = {run: _level(records, spec.under, metric) for run, records in shown.items()}
        numbers = _draw_levels(axis, spec, shown, levels, trouble)
        said.alt.append(f"{plots.panel_name(metric, 'test')}: {'; '.join(numbers)}.")
        _set_axes(axis, metric, spec.sizes)
        if printed := _draw_published(axis, metric, spec, material):
            said.alt.append(f"The paper prints {'; '.join(printed)}.")
            said.caption.append("Crosses: the paper's values, where it prints one.")
    plots.legend(figure, axes[0])
    if spec.baseline in shown:
        said.caption.append(f"Dashed: the level of {spec.labels[-1]}.")
    seeds = set(map(len, shown.values()))
    of_images = "over the test images (bootstrap)"
    if seeds == {1}:
        said.caption.append(f"One seed. Bars and band: 95 % interval {of_images}.")
    else:
        of_one = f", of one seed {of_images}" if 1 in seeds else ""
        bars = f"bars and band: 95 % interval over the seeds (Student's t){of_one}"
        said.caption.append(f"{plots.seeds_text(shown)}; {bars}.")
    plots.say_trouble(said, trouble)
    return said


def _draw_levels(
    axis: Axes, spec: entries.Figure, shown: Records, levels: dict[str, Level], trouble: dict[str, str]
) -> list[str]:
    """Draw the baseline as a horizontal line and the sizes as points on a line, and say each level."""
    sentences = []
    if spec.baseline in levels:
        (mean, bounds), label = levels[spec.baseline], spec.labels[-1]
        axis.axhline(mean, color=THEIRS, linestyle=(0, (5, 3)), label=label + mark(shown[spec.baseline]))
        if bounds:
            axis.axhspan(bounds.low, bounds.high, color=THEIRS, alpha=0.15, linewidth=0)
        sentences.append(f"{label} {_level_text(mean, bounds)}")
    sizes = {run: size for run, size in zip(spec.drawn, spec.sizes, strict=True) if run in levels}
    if not sizes:
        return sentences
    # A size that was not run, or has a run in trouble, is a gap in the line, not a bridge.
    means = [levels[run][0] if run in sizes and run not in trouble else math.nan for run in spec.drawn]
    label = spec.labels[0]
    signs = mark([record for run in sizes for record in shown[run]])
    axis.plot(spec.sizes, means, color=OURS, marker="o", linestyle="-", label=label + signs)
    for run, size in sizes.items():
        mean, bounds = levels[run]
        if bounds:
            axis.vlines(size, bounds.low, bounds.high, color=OURS, linewidth=1)
        face = PAGE if run in trouble else OURS
        axis.plot([size], [mean], color=OURS, marker="o", markerfacecolor=face, zorder=3)
        why = f" ({trouble[run]})" if run in trouble else ""
        sentences.append(f"{label} with {size}: {_level_text(mean, bounds)}{why}")
    return sentences


def _set_axes(axis: Axes, metric: str, sizes: Sequence[int]) -> None:
    axis.set(xlabel="Size of the negative set (pairs, log scale)", ylabel=f"Test {plots.unit(metric)}")
    axis.set_xscale("log", base=2)
    axis.set_xlim(min(sizes) / 1.35, max(sizes) * 1.35)
    axis.xaxis.set_major_locator(FixedLocator(sizes))
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())
    axis.margins(y=0.12)
    axis.set_ylim(bottom=max(0.0, axis.get_ylim()[0]))


def _draw_published(axis: Axes, metric: str, spec: entries.Figure, material: Material) -> list[str]:
    """Mark the paper's values where data and encoders are the paper's: levels of other data are no reference."""
    if material.context.data_note or material.context.swaps(
        [spec.dataset, *material.report.encoders(spec.named)]
    ):
        return []
    sizes, printed = dict(zip(spec.drawn, spec.sizes, strict=True)), list[str]()
    feeds = material.report.feeds.items()
    wanted = [
        (run, row)
        for run in spec.named
        for row, feed in feeds
        if (feed.run, feed.protocol) == (run, spec.under)
    ]
    for run, row in wanted:
        value = material.published.get(("", row), {}).get(metric)
        if value:
            size = sizes.get(run, max(spec.sizes) * 1.2)  # the baseline has none
            label = "" if printed else "the paper's value"
            axis.plot([size], [float(value)], color=INK, marker="x", linestyle="none", label=label, zorder=4)
            printed.append(f"{value} for {f'size {size}' if run in sizes else spec.labels[-1]}")
    return printed


def _level(records: Sequence[Record], protocol: str, metric: str) -> Level:
    """Mean over the seeds, and its interval: over the seeds or, with one, over the test images."""
    scores(records, protocol)  # refuses what cannot stand beside each other
    values = [score(record, protocol, metric) for record in records]
    if len(values) > 1:
        return float(np.mean(values)), seed_interval(values)
    if text.lower_is_better(metric):  # ranks have no value per image that averages to them
        return values[0], None
    return values[0], image_interval(image_values(records[0], protocol, metric))


def _level_text(mean: float, bounds: Interval | None) -> str:
    return f"{mean:.1f}" + (f" (95 % interval {bounds.low:.1f} to {bounds.high:.1f})" if bounds else "")
