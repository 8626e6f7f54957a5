"""What all figures draw with: colours, legends, panels that say why they are empty, and sentences about seeds and trouble."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vsepp.provenance.manifest import require_intact
from vsepp.reporting import filters
from vsepp.reporting.published import Published
from vsepp.reporting.records import Record, Records, marks
from vsepp.reporting.specs import ContextSpec, FigureSpec

INK, PAGE, MUTED = "#24292f", "#ffffff", "#626b76"
"""Colours of text, of what lies behind it, and of asides; a page replaces them by its own."""


@dataclass(frozen=True)
class Material:
    """What figures are drawn from."""

    context: ContextSpec
    records: Records
    published: Published = field(default_factory=dict)


@dataclass
class Said:
    """What is told of a figure in words."""

    caption: list[str] = field(default_factory=list)
    """Sentences that follow the figure's own caption."""
    alt: list[str] = field(default_factory=list)
    """Sentences that say what is shown, numbers included."""


def looks() -> list[dict[str, Any]]:
    """Colour, marker and dashes of each line, by the style."""
    return list(matplotlib.rcParams["axes.prop_cycle"])


def not_run(axis: Axes, why: str = "not run") -> None:
    """An empty panel that says why."""
    axis.grid(False)
    axis.set(xticks=[], yticks=[])
    axis.text(0.5, 0.5, why, transform=axis.transAxes, ha="center", va="center", fontsize=11)


def read_data(spec: FigureSpec) -> Any:
    """What a step computed for a figure."""
    require_intact(Path(spec.data), "data.json")
    return json.loads((Path(spec.data) / "data.json").read_text(encoding="utf-8"))


def legend(figure: Figure, axis: Axes) -> None:
    """The lines of a panel, above all panels."""
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=min(3, len(handles)))


def mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and sample standard deviation; NaN with one seed."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def unit(metric: str) -> str:
    """A metric's name with its unit, for an axis."""
    if metric == "rsum":
        return "rsum"
    return filters.metric_name(metric) + ("" if filters.lower_is_better(metric) else " (%)")


def mark(records: Iterable[Record], training: bool = False) -> str:
    """Signs at numbers or histories, as `vsepp.reporting.records.marks` gives them."""
    return "".join(marks(list(records), training))


def say_seeds(said: Said, shown: Records, how: str) -> None:
    """Say over how many seeds means are, and `how` their spread is shown."""
    seeds = sorted({len(records) for records in shown.values()})
    if max(seeds, default=0) > 1:
        said.caption.append(f"Mean over {filters.listing(seeds)} seeds; {how}.")
    elif seeds:
        said.caption.append("One seed." + (f" {how}." if how[0].isupper() else ""))


def say_trouble(said: Said, bad: dict[str, str], how: str = "Hollow") -> None:
    """Name runs in trouble, with why; `how` they are drawn."""
    if bad:
        named = "; ".join(f"{run} ({why})" for run, why in bad.items())
        said.caption.append(f"{how}: {named}.")
