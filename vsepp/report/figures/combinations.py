"""Which of GOAL's combinations are known losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from pydantic.dataclasses import dataclass

from vsepp.base import components
from vsepp.base.declared import STRICT
from vsepp.report import text
from vsepp.report.figures.base import AnyFigure
from vsepp.report.pairing import Material
from vsepp.report.plots import INK, MUTED, Description

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

CITATION = "Xuan and Chen (2023), GOAL, Table 1"


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Figure(AnyFigure):
    """A table of formulas."""

    height: ClassVar[float] = 1.9

    kind: Literal["combinations"]

    def draw(self, canvas: Canvas, material: Material) -> Description:
        """GOAL's Table 1 as the tests hold it: columns are triplet weights, rows pair weights."""
        goal = components.describe("loss", "goal")
        columns, rows = (get_args(goal.options.__annotations__[name]) for name in ("triplet", "pair"))
        losses: dict[str, str] = {}
        changed = []
        for combination, known in goal.constants["KNOWN"].items():
            title, factor = known["title"], known["factor"]
            gradient = "" if factor == "1" else f", gradient × 1/{factor}"
            losses[combination] = title + gradient if factor else f"not {title}"
            if values := known["options"]:
                texts = (f"{option} {'none' if value is None else value}" for option, value in values.items())
                changed.append(f"{title} with {', '.join(texts)}")
        axis = canvas.subplots()
        axis.grid(False)
        axis.spines[:].set_visible(False)
        axis.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
        axis.set_xticks(range(len(columns)), [f"T {name}" for name in columns])
        axis.set_yticks(range(len(rows)), [f"P {name}" for name in rows])
        axis.tick_params(length=0, labeltop=True, labelbottom=False)
        for x, triplet in enumerate(columns):
            for y, pair in enumerate(rows):
                loss = losses.get(f"{triplet}, {pair}")
                axis.text(x, y, loss or "new", ha="center", va="center", color=INK if loss else MUTED)
        return Description(
            caption=[f"Options of GOAL that differ from the defaults: {text.listing(changed)}."],
            alt=[*(f"{combination}: {loss}." for combination, loss in losses.items()), "All others are new."],
        )
