"""Losses of a query over sets of negatives in a plane, where similarity is the negative distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from vsepp.base import components
from vsepp.base.declared import STRICT
from vsepp.base.spec import Component
from vsepp.report import text
from vsepp.report.figures.base import FigureOfLosses
from vsepp.report.pairing import Material
from vsepp.report.plots import INK, MUTED, OURS, PAGE, Description, read_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

CITATION = "Faghri et al. (2018), VSE++, Figure 1"
# Scores of a pair that no negative reaches, and of a negative that violates no margin.
_FAR = 1e6


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Figure(FigureOfLosses):
    """Points in the plane."""

    height: ClassVar[float] = 2.1

    kind: Literal["constellations"]
    positive: tuple[float, float]
    """Where the positive lies; the query is at 0, 0."""
    negatives: Annotated[
        tuple[Annotated[tuple[tuple[float, float], ...], Field(min_length=1)], ...], Field(min_length=1)
    ]
    """A set of points a panel."""

    @model_validator(mode="after")
    def _has_margins(self) -> Figure:
        for loss in self.losses:
            if not hasattr(components.checked("loss", loss), "margin"):
                raise ValueError(f"losses: loss {loss.name} has no option `margin`, which is drawn")
        return self

    def compute(self) -> dict[str, Any]:
        """Each loss of an image at the origin over each set of captions, as in Figure 1, computed by the code that trains.

        Returns
        -------
        dict
            `positive`; `margins`, of each loss; `panels`, for each set of negatives its `negatives` and `losses`.
        """
        panels = [
            {"negatives": points, "losses": [_loss(loss, self.positive, points) for loss in self.losses]}
            for points in self.negatives
        ]
        margins = [components.options("loss", loss).margin for loss in self.losses]
        return {"positive": self.positive, "margins": margins, "panels": panels}

    def draw(self, canvas: Canvas, material: Material) -> Description:
        """A panel per set of negatives: the query, its positive, the negatives, and each loss below."""
        data, description = read_data(material), Description()
        panels, positive, margin = data["panels"], data["positive"], data["margins"][0]
        axes = canvas.subplots(1, len(panels), squeeze=False)[0]
        points = [positive, *(point for panel in panels for point in panel["negatives"])]
        reach, radius = 1.12 * max(math.hypot(*point) for point in points), math.hypot(*positive)
        for letter, axis, panel in zip("abcdefgh", axes, panels, strict=False):
            _draw_points(axis, positive, panel["negatives"], (radius, radius + margin))
            axis.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
            axis.grid(False)
            axis.spines[:].set_visible(False)
            losses = [f"{label} {loss:.2f}" for label, loss in zip(self.labels, panel["losses"], strict=True)]
            axis.set_title(f"({letter})")
            axis.set_xlabel("\n".join(losses))
            near = sum(math.hypot(*point) < radius + margin for point in panel["negatives"])
            description.alt.append(
                f"Panel {letter}: {text.plural(len(panel['negatives']), 'negative')}, {near} of them inside the margin; "
                f"{'; '.join(losses)}."
            )
        description.caption.append(
            f"Filled: the query i and its positive c; hollow: negatives, the hardest one with a double edge. Dashed "
            f"circles: the positive's distance, and {margin:g} beyond it, the margin."
        )
        return description


def _loss(loss: Component, positive: Sequence[float], negatives: Sequence[Sequence[float]]) -> float:
    import torch  # not at the top: reports are drawn without it

    from vsepp.losses.batch import Batch

    scores = -np.linalg.norm([positive, *negatives], axis=1)
    # The other pairs are there for their captions alone: as images they are no hard negatives of the positive.
    square = np.full((len(scores), len(scores)), -_FAR)
    np.fill_diagonal(square, _FAR)
    square[0] = scores
    module = components.load("loss", loss.name)
    return float(module.loss(torch.from_numpy(square), components.options("loss", loss), Batch(queries=1)))


def _draw_points(axis: Axes, positive: Any, negatives: Any, radii: tuple[float, float]) -> None:
    from matplotlib.patches import Circle

    for radius in radii:
        axis.add_patch(Circle((0, 0), radius, fill=False, color=MUTED, linestyle=(0, (4, 3)), linewidth=0.8))
    points = np.asarray(negatives)
    hardest = points[np.argmin(np.hypot(*points.T))]
    axis.plot(*points.T, linestyle="none", marker="o", markersize=4.5, color=INK, markerfacecolor=PAGE)
    axis.plot(*hardest, marker="o", markersize=8, color=INK, markerfacecolor="none", markeredgewidth=0.8)
    axis.plot([0, positive[0]], [0, positive[1]], color=OURS, linewidth=0.8)
    axis.plot(*positive, marker="o", markersize=5, color=OURS)
    axis.plot(0, 0, marker="s", markersize=5, color=INK)
    for point, name, shift, side in (((0, 0), "i", -5, "top"), (positive, "c", 4, "bottom")):
        axis.annotate(
            name, point, (0, shift), textcoords="offset points", ha="center", va=side, style="italic"
        )
