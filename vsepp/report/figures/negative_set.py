"""Recall on the test set over the size of the negative set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT, Count
from vsepp.evaluation.intervals import Level
from vsepp.report import plots, text
from vsepp.report.entries import Score
from vsepp.report.figures import FigureOfScores, require_as_many
from vsepp.report.models import Model, Models, left_out, level, mark, require_one_test, sound, trouble_of
from vsepp.report.plots import INK, OURS, THEIRS, Material, Said

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

    @model_validator(mode="after")
    def _has_its_labels(self) -> Figure:
        require_as_many(self.labels, 2 if self.baseline else 1)
        return self

    @property
    def sizes(self) -> dict[str, int]:
        """Run id → its size, ascending."""
        return {self.runs[size]: size for size in sorted(self.runs)}

    @property
    def named(self) -> tuple[str, ...]:
        """Run ids by size, and the baseline."""
        return (*self.sizes, *([self.baseline] if self.baseline else []))

    def draw(self, canvas: Canvas, material: Material) -> Said:
        """A metric over the size of the negative set on a log axis; the baseline as a horizontal line."""
        shown, said = material.shown(self.named), Said()
        axes = canvas.subplots(1, len(self.metrics), squeeze=False)[0]
        trouble = {run: why for run in shown if (why := trouble_of(shown[run], self.under))}
        for axis, metric in zip(axes, self.metrics, strict=True):
            if len(axes) > 1:
                axis.set_title(text.task(metric))
            levels = {run: _level(records, self.under, metric) for run, records in shown.items()}
            numbers = self._draw_levels(axis, shown, levels, trouble)
            said.alt.append(f"{plots.panel_name(metric, 'test')}: {'; '.join(numbers)}.")
            _set_axes(axis, metric, list(self.sizes.values()))
            if printed := self._draw_published(axis, metric, material):
                said.alt.append(f"The paper prints {'; '.join(printed)}.")
                said.caption.append("Crosses: the paper's values, where it prints one.")
        plots.legend(canvas, axes[0])
        if self.baseline in shown:
            said.caption.append(f"Dashed: {self.labels[-1]}, with its wider interval.")
        several = max(map(len, shown.values())) > 1
        said.caption.append(f"{plots.seeds_text(shown)}. {plots.interval_text(several)}")
        for run, records in shown.items():
            said.caption += [f"{run}: {words}." for words in left_out(records, self.under)]
        plots.say_trouble(said, trouble)
        return said

    def _draw_levels(
        self, axis: Axes, shown: Models, levels: dict[str, Level], trouble: dict[str, str]
    ) -> list[str]:
        """Draw the baseline as a horizontal line and the sizes as points on a line, and say each level."""
        sentences = []
        if self.baseline in levels:
            base, label = levels[self.baseline], self.labels[-1]
            name = label + mark(shown[self.baseline])
            axis.axhline(base.mean, color=THEIRS, linestyle=(0, (5, 3)), label=name)
            if bounds := base.interval:
                axis.axhspan(bounds.low, bounds.high, color=THEIRS, alpha=0.15, linewidth=0)
            sentences.append(f"{label} {_level_text(base)}")
        sizes = {run: size for run, size in self.sizes.items() if run in levels}
        if not sizes:
            return sentences
        # A size that was not run, or has a run in trouble, is a gap in the line, not a bridge.
        sound = [run in levels and run not in trouble for run in self.sizes]
        means = [
            levels[run].mean if is_sound else math.nan
            for run, is_sound in zip(self.sizes, sound, strict=True)
        ]
        label = self.labels[0]
        signs = mark([record for run in sizes for record in shown[run]])
        axis.plot(
            list(self.sizes.values()), means, color=OURS, marker="o", linestyle="-", label=label + signs
        )
        for run, size in sizes.items():
            at = levels[run]
            plots.interval_marks(
                axis, size, at.mean, at.images, at.seeds, hollow=run in trouble, upright=True
            )
            why = f" ({trouble[run]})" if run in trouble else ""
            sentences.append(f"{label} with {size}: {_level_text(at)}{why}")
        return sentences

    def _draw_published(self, axis: Axes, metric: str, material: Material) -> list[str]:
        """Mark the paper's values where data and encoders are the paper's: levels of other data are no reference."""
        if not material.report.is_own(self.named):
            return []
        printed = list[str]()
        feeds = material.report.feeds.items()
        wanted = [
            (run, row)
            for run in self.named
            for row, feed in feeds
            if (feed.run, feed.protocol) == (run, self.under)
        ]
        for run, row in wanted:
            value = material.published.get(("", row), {}).get(metric)
            if value:
                size = self.sizes.get(run, max(self.runs) * 1.2)  # the baseline has none
                label = "" if printed else "the paper's value"
                axis.plot(
                    [size], [float(value)], color=INK, marker="x", linestyle="none", label=label, zorder=4
                )
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


def _level(records: Sequence[Model], protocol: str, metric: str) -> Level:
    require_one_test(records, protocol)
    of = level(sound(records, protocol), protocol, metric)
    assert of, "every protocol has its metrics"
    return of


def _level_text(level: Level) -> str:
    bounds = level.interval
    return f"{level.mean:.1f}" + (f" (95 % interval {bounds.low:.1f} to {bounds.high:.1f})" if bounds else "")
