"""Which of GOAL's combinations are known losses."""

from __future__ import annotations

from typing import Any, get_args

from matplotlib.figure import Figure

from vsepp import components
from vsepp.reporting import filters
from vsepp.reporting.plots import INK, MUTED, Material, Said
from vsepp.reporting.report_specs import FigureSpec

CITATION = "Xuan and Chen (2023), GOAL, Table 1"
HEIGHT = 1.9


def draw(figure: Figure, spec: FigureSpec, options: Any, material: Material) -> Said:
    """GOAL's Table 1 as the tests hold it: columns are triplet weights, rows pair weights."""
    goal = components.describe("loss", "goal")
    columns, rows = (get_args(goal.options.__annotations__[name]) for name in ("triplet", "pair"))
    axis, said = figure.subplots(), Said()
    axis.grid(False)
    axis.spines[:].set_visible(False)
    axis.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    axis.set_xticks(range(len(columns)), [f"T {name}" for name in columns])
    axis.set_yticks(range(len(rows)), [f"P {name}" for name in rows])
    axis.tick_params(length=0, labeltop=True, labelbottom=False)
    for x, triplet in enumerate(columns):
        for y, pair in enumerate(rows):
            known = goal.constants["KNOWN"].get(f"{triplet}, {pair}")
            axis.text(x, y, _loss(known), ha="center", va="center", color=INK if known else MUTED)
    for combination, known in goal.constants["KNOWN"].items():
        said.alt.append(f"{combination}: {_loss(known)}.")
    said.alt.append("All others are new.")
    set_so = [
        f"{known[0]} with {', '.join(f'{option} {_shown(value)}' for option, value in known[2].items())}"
        for known in goal.constants["KNOWN"].values()
        if known[2]
    ]
    said.caption.append(f"Options of GOAL that differ from the defaults: {filters.listing(set_so)}.")
    return said


def _loss(known: tuple[str, str, dict, str] | None) -> str:
    if known is None:
        return "new"
    name, _, _, factor = known
    if not factor:
        return f"not {name}"
    return name if factor == "1" else f"{name}, gradient × 1/{factor}"


def _shown(value: object) -> str:
    return "none" if value is None else str(value)
