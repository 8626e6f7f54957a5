"""Recall on the test set over the size of the negative set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT, Count
from vsepp.report import plots, text
from vsepp.report.entries import Score
from vsepp.report.figures.base import FigureOfScores
from vsepp.report.models import Models, mark
from vsepp.report.pairing import Material, level
from vsepp.report.plots import INK, OURS, THEIRS, Description

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

CITATION = "Faghri et al. (2018), VSE++, Figure 2b"


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Figure(FigureOfScores):
    """A line over sizes."""

    height: ClassVar[float] = 2.4

    kind: Literal["negative_set"]
    metrics: Annotated[tuple[Score, ...], Field(min_length=1)]
    """A panel each, such as i2t_r1."""
    runs: Annotated[dict[Count, str], Field(min_length=1)]
    """Size of the negative set, in pairs → run id. The labels name the line, and the baseline."""
    baseline: str | None = None
    """Run drawn as a horizontal line."""

    @property
    def n_labels(self) -> int:
        """The line's, and the baseline's."""
        return 2 if self.baseline else 1

    @property
    def sizes(self) -> dict[str, int]:
        """Run id → its size, ascending."""
        return {self.runs[size]: size for size in sorted(self.runs)}

    @property
    def named(self) -> tuple[str, ...]:
        """Run ids by size, and the baseline."""
        return (*self.sizes, *([self.baseline] if self.baseline else []))

    def draw(self, canvas: Canvas, material: Material) -> Description:
        """A metric over the size of the negative set on a log axis; the baseline as a horizontal line."""
        shown, trouble = material.shown(self.named, self.protocol), material.trouble(self.named)
        axes, description = canvas.subplots(1, len(self.metrics), squeeze=False)[0], Description()
        for axis, metric in zip(axes, self.metrics, strict=True):
            if len(axes) > 1:
                axis.set_title(text.task(metric))
            numbers = self._draw_levels(axis, metric, shown, trouble)
            description.alt.append(f"Test {text.metrics(metric)}: {'; '.join(numbers)}.")
            _set_axes(axis, metric, list(self.sizes.values()))
            if printed := self._draw_published(axis, metric, material):
                description.alt.append(f"The paper prints {'; '.join(printed)}.")
                description.caption.append("Crosses: the paper's values, where it prints one.")
        plots.legend(canvas, axes[0])
        if self.baseline in shown:
            description.caption.append(f"Dashed: {self.labels[-1]}, with its wider interval.")
        several = max(map(len, shown.values())) > 1
        description.caption.append(f"{plots.seeds_text(shown)}. {plots.interval_text(several)}")
        description.caption += plots.hollow_text(trouble)
        return description

    def _draw_levels(self, axis: Axes, metric: str, shown: Models, trouble: Mapping[str, str]) -> list[str]:
        """Draw the baseline as a horizontal line and the sizes as points on a line, and say each level."""
        measured = {run: level(shown[run], self.protocol, metric) for run in shown}
        levels = {run: of_run for run, of_run in measured.items() if of_run}
        sentences, label = [], self.labels[0]
        if base := levels.get(self.baseline or ""):
            name = self.labels[-1]
            signs = mark(shown[self.baseline or ""])
            axis.axhline(base.mean, color=THEIRS, linestyle=(0, (5, 3)), label=name + signs)
            if bounds := base.interval:
                axis.axhspan(bounds.low, bounds.high, color=THEIRS, alpha=0.15, linewidth=0)
            sentences.append(f"{name} {plots.level_text(base)}")
        points = {run: levels[run] for run in self.sizes if run in levels}
        if not points:
            return sentences
        # A size that was not run, or has a run in trouble, is a gap in the line, not a bridge.
        means = [points[run].mean if run in points and run not in trouble else math.nan for run in self.sizes]
        signs = mark([model for run in points for model in shown[run]])
        axis.plot(
            list(self.sizes.values()), means, color=OURS, marker="o", linestyle="-", label=label + signs
        )
        for run, point in points.items():
            size, hollow = self.sizes[run], run in trouble
            plots.interval_marks(
                axis, size, point.mean, point.images, point.seeds, hollow=hollow, upright=True
            )
            why = f", {trouble[run]}" if hollow else ""
            sentences.append(f"{label} with {size}: {plots.level_text(point)}{why}")
        return sentences

    def _draw_published(self, axis: Axes, metric: str, material: Material) -> list[str]:
        """Mark the paper's values where data and encoders are the paper's: levels of other data are no reference."""
        if not material.report.is_own(self.named):
            return []
        fed = {feed.run: row for row, feed in material.report.feeds.items() if feed.protocol == self.protocol}
        printed = list[str]()
        for run in self.named:
            if not (value := material.published.get(("", fed.get(run, "")), {}).get(metric)):
                continue
            size = self.sizes.get(run, max(self.runs) * 1.2)  # the baseline has none
            label = "" if printed else "the paper's value"
            axis.plot([size], [float(value)], color=INK, marker="x", linestyle="none", label=label, zorder=4)
            printed.append(f"{value} for {f'size {size}' if run in self.sizes else self.labels[-1]}")
        return printed


def _set_axes(axis: Axes, metric: str, sizes: Sequence[int]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    axis.set(xlabel="Size of the negative set (pairs, log scale)", ylabel=f"Test {text.unit(metric)}")
    axis.set_xscale("log", base=2)
    axis.set_xlim(min(sizes) / 1.35, max(sizes) * 1.35)
    axis.xaxis.set_major_locator(FixedLocator(sizes))
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())
    axis.margins(y=0.12)
    axis.set_ylim(bottom=max(0.0, axis.get_ylim()[0]))
