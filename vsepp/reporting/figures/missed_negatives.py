"""How likely a mini-batch has no hard negative."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vsepp.reporting import filters
from vsepp.reporting.plots import MUTED, Material, Said, legend, looks
from vsepp.reporting.report_specs import FigureSpec

CITATION = "Faghri et al. (2018), VSE++, Appendix A"
NEEDS = ("percentiles", "levels")
HEIGHT = 2.4


@dataclass(frozen=True)
class Options:
    """What is drawn over the batch size."""

    percentiles: tuple[float, ...] = (0.9,)
    """Share of the training set that a hard negative exceeds, between 0 and 1."""
    levels: tuple[float, ...] = (0.01,)
    """Probabilities that are marked, between 0 and 1."""
    printed: tuple[int, ...] = ()
    """For each percentile the batch size that the paper prints for the first level."""

    def __post_init__(self) -> None:
        for name in ("percentiles", "levels"):
            values = getattr(self, name)
            if not values or not all(0 < value < 1 for value in values):
                raise ValueError(f"{name}: got {list(values)}; expected numbers between 0 and 1")
        if self.printed and len(self.printed) != len(self.percentiles):
            raise ValueError(f"printed: got {len(self.printed)} sizes; expected one for each percentile")


def draw(figure: Figure, spec: FigureSpec, options: Any, material: Material) -> Said:
    """Probability, over the batch size M, that none of M − 1 negatives is harder than a share p of all: p^(M − 1)."""
    axis, said = figure.subplots(), Said()
    # The least level of the largest share is reached last.
    sizes = np.geomspace(1, 4 * _first_below(max(options.percentiles), min(options.levels)), 400)
    for level in options.levels:
        axis.axhline(level, color=MUTED, linewidth=0.7, linestyle=(0, (4, 3)))
    for p, look in zip(options.percentiles, looks(), strict=False):
        axis.plot(sizes, p ** (sizes - 1), **{**look, "marker": "none"}, label=f"{p:g}^(M−1)")
        firsts = []
        for level in options.levels:
            size = _first_below(p, level)
            axis.plot([size], [p ** (size - 1)], color=look["color"], marker=look["marker"])
            axis.annotate(f"{size:,}", (size, level), (4, 3), textcoords="offset points", fontsize=7)
            firsts.append(f"below {100 * level:g} % from M = {size:,}")
        said.alt.append(f"{p:g}^(M−1) is {filters.listing(firsts)}.")
    said.caption += said.alt
    axis.set(xscale="log", yscale="log", ylim=(min(options.levels) / 10, 1.6), xlim=(1, sizes[-1]))
    axis.set(xlabel="Size M of the mini-batch", ylabel="P(no negative above the percentile)")
    # Not powers of ten, which would be set as formulas.
    axis.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
    axis.yaxis.set_major_formatter(lambda p, _: f"{100 * p:g} %")
    axis.minorticks_off()
    legend(figure, axis)
    if options.printed:
        printed = [
            f"M ≥ {size} for the {100 * p:g}th percentile"
            for size, p in zip(options.printed, options.percentiles, strict=True)
        ]
        said.caption.append(
            f"The paper prints {filters.listing(printed)}, of {100 * options.levels[0]:g} % [sic]."
        )
    return said


def _first_below(p: float, level: float) -> int:
    """The first M with p^(M − 1) below a level."""
    return math.floor(math.log(level) / math.log(p)) + 2
