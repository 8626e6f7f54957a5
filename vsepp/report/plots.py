"""What all figures draw with: colours, names of panels, legends, and sentences about seeds and trouble."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vsepp.base.files import read_json
from vsepp.base.manifest import require_intact
from vsepp.report import text
from vsepp.report.entries import TASKS
from vsepp.report.layout import ContextSpec, ReportSpec
from vsepp.report.models import Records
from vsepp.report.published import Published

INK, PAGE, MUTED = "#24292f", "#ffffff", "#626b76"
"""Colours of text, of its background, and of asides; a page replaces them by its own."""
THEIRS, OURS = "C0", "C1"
"""Colours of the paper's numbers, or of a baseline, and of ours, by the style."""


@dataclass(frozen=True)
class Material:
    """What a figure is drawn from."""

    report: ReportSpec
    records: Records
    published: Published
    runs: tuple[str, ...] = ()
    """Runs that it shows, in the order of its labels or sizes."""
    folder: str = ""
    """Folder of what a step computed for it; empty where there is none, or where it was not run."""

    @property
    def context(self) -> ContextSpec:
        """What all captions of the report share."""
        return self.report.context

    def shown(self, *more: str | None) -> Records:
        """Records of its runs, and of more, without the runs that were not run."""
        wanted = (*self.runs, *more)
        return {run: self.records[run] for run in wanted if run is not None and run in self.records}


@dataclass
class Said:
    """What is told of a figure in words."""

    caption: list[str] = field(default_factory=list)
    """Sentences that follow the figure's own caption."""
    alt: list[str] = field(default_factory=list)
    """Sentences that say what is shown, numbers included."""


def looks() -> Iterator[dict[str, Any]]:
    """Colour, marker and dashes of each line, by the style, over and over."""
    return matplotlib.rcParams["axes.prop_cycle"]()


def empty_panel(axis: Axes, why: str) -> None:
    """A panel that says why there is nothing in it."""
    axis.grid(False)
    axis.set(xticks=[], yticks=[])
    axis.text(0.5, 0.5, why, transform=axis.transAxes, ha="center", va="center", fontsize=11)


def read_data(material: Material) -> Any:
    """What a step computed for a figure."""
    path = Path(material.folder) / "data.json"
    require_intact(path.parent, path.name)
    return read_json(path, "what its step computed for a figure")


def legend(figure: Figure, axis: Axes) -> None:
    """The lines of a panel, above all panels."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(3, len(handles)))


def direction(metric: str) -> str:
    """`Caption retrieval` for `i2t_r1`; empty for rsum."""
    return TASKS.get(metric.partition("_")[0], "")


def unit(metric: str) -> str:
    """A metric's name with its unit, for an axis."""
    if metric == "rsum":
        return "rsum"
    return text.metric_name(metric) + ("" if text.lower_is_better(metric) else " (%)")


def panel_name(metric: str, split: str) -> str:
    """What a text alternative calls a panel: `Caption retrieval, test R@1 (%)`."""
    return ", ".join(filter(None, (direction(metric), f"{split} {unit(metric)}")))


def metric_text(metric: str) -> str:
    """`Caption retrieval R@1` for `i2t_r1`; `rsum`."""
    return f"{direction(metric)} {text.metric_name(metric)}" if direction(metric) else metric


def seeds_text(shown: Records) -> str:
    """Number of seeds behind the means; runs may have different numbers of seeds."""
    numbers = sorted({len(records) for records in shown.values()})
    return "One seed" if numbers == [1] else f"Mean over {text.listing(numbers)} seeds"


def say_trouble(said: Said, bad: dict[str, str]) -> None:
    """Name runs in trouble, which are drawn hollow, with why."""
    if bad:
        named = "; ".join(f"{run} ({why})" for run, why in bad.items())
        said.caption.append(f"Hollow: {named}.")
