"""Rows of tables beside each other, with their differences from the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT
from vsepp.evaluation.intervals import Effect, Interval
from vsepp.report import plots, text
from vsepp.report.compare import UNSETTLED, compared
from vsepp.report.entries import AveragedMetric
from vsepp.report.figures.base import FigureOfScores
from vsepp.report.models import mark
from vsepp.report.pairing import Material, best_of, pair
from vsepp.report.plots import MUTED, Description

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_LEFT, _BOTTOM = 1.4, 0.42
_BESIDE, _ABOVE, _LETTER = 3.65, 0.62, 0.055
"""Inches around the axis; `_BESIDE` and `_ABOVE` count both sides; a letter of a name takes `_LETTER` at most."""
_LEVEL, _LESS = 0.04, 1.1
"""Inches from the axis to the levels and to the differences."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Figure(FigureOfScores):
    """A dot per row."""

    kind: Literal["standings"]
    metrics: Annotated[tuple[AveragedMetric, ...], Field(min_length=1, max_length=1)]
    """The one that is compared. The labels are those of the rows."""

    @property
    def n_labels(self) -> int:
        """Any number."""
        return max(1, len(self.labels))

    @property
    def rows(self) -> tuple[str, ...]:
        """All labels."""
        return self.labels

    def drawn(self, material: Material) -> tuple[str, ...]:
        """The run that stands for each row."""
        report = material.report
        return tuple(
            best_of(report.feeding(report.labelled[label]), material.models) for label in self.labels
        )

    def draw(self, canvas: Canvas, material: Material) -> Description:
        """A dot per method, the best on top, with intervals and difference to the best."""
        (metric,) = self.metrics
        rows = {
            label: material.models[run]
            for run, label in zip(self.drawn(material), self.labels, strict=True)
            if run in material.models
        }
        paired = pair(rows, self.protocol)
        comparison = compared(paired, self.protocol, [metric])
        methods, trouble = comparison.levels[metric], paired.trouble
        sound = [label for label in methods if label not in trouble]
        several = any(len(methods[label].by_seed) > 1 for label in sound)
        less = {
            label: effect for (_, above, label), effect in comparison.effects.items() if above == sound[0]
        }
        axis, inches = _axis_of_rows(canvas, [label + mark(paired.models[label]) for label in methods])
        at_level, at_less = 1 + _LEVEL / inches, 1 + _LESS / inches
        description = Description()
        for place, (label, method) in enumerate(methods.items()):
            level, why = plots.level_text(method), f", {trouble[label]}" if label in trouble else ""
            seeds = method.seeds if several else None
            plots.interval_marks(axis, place, method.mean, method.images, seeds, hollow=label in trouble)
            plots.write_beside(axis, at_level, place, level)
            if label in less:
                difference = _less_text(less[label])
                plots.write_beside(axis, at_less, place, difference)
                why += f", less the best {difference}"
            description.alt.append(f"{label}: {level}{why}.")
        plots.write_beside(axis, at_level, -0.8, "level", MUTED)
        plots.write_beside(axis, at_less, -0.8, "less the best", MUTED)
        axis.set_xlabel(f"Test {text.metrics(metric)}")
        description.caption.append(
            f"{plots.interval_text(several)} Numbers: the mean, and its difference from the best method on the same images and "
            "seeds, each with the wider interval."
        )
        if any(effect.one_seed for effect in less.values()):
            description.caption.append(UNSETTLED)
        description.caption += plots.hollow_text(trouble)
        if paired.common:
            description.caption.append(f"Seeds common to all: {text.listing(paired.seeds)}.")
        return description


def _axis_of_rows(canvas: Canvas, names: Sequence[str]) -> tuple[Axes, float]:
    """An axis with a name on each row, between room for the names and for what stands beside it; and how many inches wide it is."""
    widened = max(0.0, _LETTER * max(map(len, names)) - _LEFT)
    width, height = canvas.get_size_inches()[0] + widened, 0.7 + 0.2 * len(names)
    beside = _BESIDE + widened
    canvas.set_size_inches(width, height)
    # Places of its own: a layout engine does not see the text beside the axis.
    canvas.set_layout_engine("none")
    axis = canvas.subplots()
    axis.set_position(((_LEFT + widened) / width, _BOTTOM / height, 1 - beside / width, 1 - _ABOVE / height))
    axis.set_yticks(range(len(names)), names, fontsize=6)
    axis.set_ylim(len(names) - 0.4, -0.6)
    return axis, width - beside


def _less_text(below: Effect) -> str:
    """A method's difference from the best and its interval, from the difference of the best from the method."""
    bounds = below.interval
    less = Interval(-bounds.high, -bounds.low) if bounds else None
    return f"{text.number(-below.value)} {text.levels(less)}"
