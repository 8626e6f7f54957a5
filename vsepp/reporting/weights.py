"""What figures draw of GOAL: its weights over similarities, and which of its combinations are known losses."""

from __future__ import annotations

from typing import get_args

import numpy as np
from matplotlib.figure import Figure

from vsepp import components
from vsepp.reporting import filters
from vsepp.reporting.plots import INK, MUTED, Material, Said, looks, not_run
from vsepp.reporting.sketches import read_data
from vsepp.reporting.specs import FigureSpec

_TICKS = (0, 0.5, 1)
_TOLD = ((0.6, 0.3), (0.5, 0.5), (0.9, 0.9), (0.3, 0.6))
"""Similarities of positive and negative whose weights the text alternative tells."""
_COMBINATIONS_HEIGHT = 1.9


def draw_weights(figure: Figure, spec: FigureSpec, material: Material) -> Said:
    """A panel a loss: weights of triplets over both similarities, or those of positive and of negative pairs over one."""
    if not spec.data:
        not_run(figure.subplots())
        return Said()
    found = read_data(spec)
    return _triplets(figure, spec, found) if "weights" in found else _pairs(figure, spec, found)


def _triplets(figure: Figure, spec: FigureSpec, found: dict[str, list]) -> Said:
    axes, said = figure.subplots(1, len(spec.labels), squeeze=False, sharey=True)[0], Said()
    similarities = np.asarray(found["similarities"])
    ends = (similarities[0], similarities[-1])
    for axis, label, weights in zip(axes, spec.labels, found["weights"], strict=True):
        values = np.asarray(weights)
        drawn = axis.imshow(
            values,
            origin="lower",
            extent=(*ends, *ends),
            vmin=0,
            vmax=1,
            cmap="Greens",
            interpolation="nearest",
        )
        axis.set(title=label, xlabel="positive", xticks=_TICKS, yticks=_TICKS)
        axis.grid(False)
        told = [
            f"{values[_at(similarities, n), _at(similarities, p)]:.3g} at {p:g} and {n:g}" for p, n in _TOLD
        ]
        said.alt.append(f"{label}, at similarities of positive and negative: {'; '.join(told)}.")
    axes[0].set_ylabel("negative")
    figure.colorbar(drawn, ax=list(axes), shrink=0.7)
    return said


def _pairs(figure: Figure, spec: FigureSpec, found: dict[str, list]) -> Said:
    axes, said = figure.subplots(1, len(spec.labels), squeeze=False)[0], Said()
    similarities, sides = found["similarities"], ("positive", "negative")
    for place, (axis, label) in enumerate(zip(axes, spec.labels, strict=True)):
        told = []
        for look, dashes, side in zip(looks(), ("-", "--"), sides, strict=False):
            values = found[side][place]
            axis.plot(
                similarities, values, color=look["color"], linestyle=dashes, marker="", label=f"{side} pair"
            )
            told.append(f"{side} from {values[0]:.2f} to {values[-1]:.2f}")
        axis.set(title=label, xlabel="similarity", xticks=_TICKS)
        axis.set_ylim(bottom=0)
        said.alt.append(f"{label}, over similarities from 0 to 1: {'; '.join(told)}.")
    axes[0].set_ylabel("weight")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(sides))
    return said


def _at(similarities: np.ndarray, value: float) -> int:
    return int(np.argmin(np.abs(similarities - value)))


def draw_combinations(figure: Figure, spec: FigureSpec, material: Material) -> Said:
    """GOAL's Table 1 as the tests hold it: columns are triplet weights, rows pair weights."""
    goal = components.describe("loss", "goal")
    columns, rows = (get_args(goal.options.__annotations__[name]) for name in ("triplet", "pair"))
    figure.set_size_inches(figure.get_size_inches()[0], _COMBINATIONS_HEIGHT)
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
