"""Recall on the validation set over the epochs, a line a run."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT
from vsepp.report import plots, text
from vsepp.report.entries import ValidationMetric
from vsepp.report.figures.base import FigureOfRuns
from vsepp.report.models import Models, mark
from vsepp.report.pairing import Material
from vsepp.report.plots import PAGE, Description

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

CITATION = "Faghri et al. (2018), VSE++, Figure 2a"


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Figure(FigureOfRuns):
    """Curves of training."""

    kind: Literal["curves"]
    metrics: Annotated[tuple[ValidationMetric, ...], Field(min_length=1)]
    """A panel each, such as i2t_r1."""
    runs: Annotated[tuple[str, ...], Field(min_length=1)]
    """Run ids, in the order of the labels."""

    @property
    def named(self) -> tuple[str, ...]:
        """Run ids."""
        return self.runs

    def draw(self, canvas: Canvas, material: Material) -> Description:
        """A panel per metric, a line per run over the epochs: mean over the seeds, band of one standard deviation."""
        shown, trouble = material.shown(self.runs), material.trouble(self.runs)
        is_shared = len({text.unit(metric) for metric in self.metrics}) == 1
        axes = canvas.subplots(1, len(self.metrics), squeeze=False, sharey=is_shared)[0]
        description = Description()
        for axis, metric in zip(axes, self.metrics, strict=True):
            axis.set_title(text.task(metric))
            if axis is axes[0] or not is_shared:
                axis.set_ylabel(f"Validation {text.unit(metric)}")
            ends = self._draw_curves(axis, metric, shown, trouble)
            description.alt.append(f"Validation {text.metrics(metric)}: {'; '.join(ends)}.")
        plots.legend(canvas, axes[0])
        several = max(map(len, shown.values())) > 1
        description.caption.append(
            plots.seeds_text(shown) + ("; band of one sample standard deviation." if several else ".")
        )
        description.caption += plots.hollow_text(trouble)
        return description

    def _draw_curves(self, axis: Axes, metric: str, shown: Models, trouble: Container[str]) -> list[str]:
        """Draw a line per run, and say where each begins and ends."""
        from matplotlib.ticker import MaxNLocator

        ends = []
        for run, label, look in zip(self.runs, self.labels, plots.looks(), strict=False):
            if run not in shown:
                continue
            histories = [model.history(metric) for model in shown[run]]
            epochs = list(histories[0])
            values = np.array([list(history.values()) for history in histories])
            means = values.mean(axis=0)
            face = PAGE if run in trouble else look["color"]
            # Not a marker at every point, so that long curves stay lines.
            spacing = max(1, len(epochs) // 15)
            name = label + mark(shown[run], training=True)
            axis.plot(epochs, means, **look, markerfacecolor=face, label=name, markevery=spacing)
            if len(values) > 1:
                sds = values.std(axis=0, ddof=1)
                axis.fill_between(
                    epochs, means - sds, means + sds, color=look["color"], alpha=0.18, linewidth=0
                )
            ends.append(
                f"{label} {text.number(means[0])} after epoch {epochs[0]}, {text.number(means[-1])} after epoch {epochs[-1]}"
            )
        axis.set(xlabel="Epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        return ends
