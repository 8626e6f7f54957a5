"""Figures as PNG, SVG and PDF, with captions and text alternatives, and what figures of all kinds draw with."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.base.files import read_json, whole_file
from vsepp.base.manifest import require_intact
from vsepp.evaluation.intervals import Interval, Level
from vsepp.report import text
from vsepp.report.figures.base import AnyFigure, FigureOfLosses, FigureOfRuns
from vsepp.report.folders import TEMPLATES
from vsepp.report.models import Models, dirty_steps, mark
from vsepp.report.pairing import Material, left_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

STYLE = TEMPLATES / "figure.mplstyle"
WIDTHS = {"column": 3.3, "page": 7.0}
"""Inches, of a two-column page."""
_SERIF: Any = {"font.family": ["STIXGeneral", "DejaVu Serif", "DejaVu Sans"], "font.size": 9}
# More missing runs than this are counted, not named.
_NAMED = 8
# Metadata of each format, without dates and versions, so that the same numbers give the same bytes.
_METADATA = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}

INK, PAGE, MUTED = "#24292f", "#ffffff", "#626b76"
"""Colours of text, of its background, and of asides."""
THEIRS, OURS = "C0", "C1"
"""Colours of the paper's numbers, or of a baseline, and of ours, by the style."""


@dataclass
class Description:
    """What is told of a figure in words."""

    caption: list[str] = field(default_factory=list)
    """Sentences that follow the figure's own caption."""
    alt: list[str] = field(default_factory=list)
    """Sentences that say what is shown, numbers included."""


@dataclass(frozen=True)
class Plot:
    """A figure on a page."""

    title: str
    source: str
    """Its file, from the page, or a data URI."""
    alt: str
    """What is shown, numbers included, for those who do not see it."""
    inches: float
    """Its width; letters of all figures have one size."""

    @property
    def is_wide(self) -> bool:
        """Whether a phone shows a part of it at a time."""
        return self.inches > 4


@dataclass(frozen=True)
class Drawn(Plot):
    """A figure that was written."""

    id: str
    """The name of its files."""
    caption: str
    folder: Path
    runs: tuple[str, ...] = ()
    """Runs that it shows, without those that were not run."""

    @property
    def number(self) -> str:
        """What the paper calls it; empty for one's own."""
        return text.numbered(self.id)


def write_figure(name: str, spec: AnyFigure, material: Material, folder: Path) -> Drawn:
    """Draw an entry as PNG, SVG and PDF. Equal inputs give equal bytes.

    Parameters
    ----------
    name
        Its id.
    spec
        What is drawn. Runs without models were not run: they are left out and named in the caption.
    material
        What is known of its runs and data. The paper's values are marked where data and encoders are the paper's.
    folder
        Where `<id>.png`, `<id>.svg` and `<id>.pdf` go.

    Raises
    ------
    VseppError
        When a history lacks a metric, and as in `require_one_test`.
    """
    import matplotlib
    from matplotlib.figure import Figure

    report, models = material.report, material.models
    material = replace(material, folder=report.data.get(name, ""))
    runs = spec.drawn(material) if isinstance(spec, FigureOfRuns) else ()
    is_empty = bool(runs) and models.keys().isdisjoint(runs)
    if isinstance(spec, FigureOfLosses):
        is_empty = not material.folder
    with matplotlib.rc_context(fname=STYLE), warnings.catch_warnings():
        # In type like the paper's where the report asks for it.
        matplotlib.rcParams.update(_SERIF if report.context.serif else {})
        # A caption may hold characters that no font of ours has: an empty box stands for each.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        canvas = Figure(figsize=(WIDTHS[spec.width], spec.height), layout="constrained")
        if is_empty:
            empty_panel(canvas.subplots(), "not run")
        description = Description() if is_empty else spec.draw(canvas, material)
        for kind, metadata in _METADATA.items():
            with whole_file(folder / f"{name}.{kind}") as partial:
                canvas.savefig(partial, format=kind, metadata=metadata)
            # Once is enough: all formats have the places that the first one got.
            canvas.set_layout_engine("none")
    caption = [spec.caption, *description.caption]
    if isinstance(spec, FigureOfRuns):
        caption += _about_runs(runs, models, spec.protocol)
        caption += [f"Data: {swap}." for swap in report.context.swaps([spec.dataset])]
    alt = " ".join([spec.title.rstrip(".") + ".", *(description.alt or ["Nothing was run."])])
    width = float(canvas.get_size_inches()[0])
    words = " ".join(filter(None, caption))
    shown = tuple(dict.fromkeys(run for run in runs if run in models))
    return Drawn(spec.title, f"figures/{name}.svg", alt, width, name, words, folder, shown)


def _about_runs(runs: Sequence[str], models: Models, protocol: str) -> list[str]:
    """Sentences on missing runs, on seeds that are left out, and on runs that are marked as made with uncommitted changes."""
    shown = {run: models[run] for run in runs if run in models}
    sentences = []
    if missing := [run for run in runs if run not in shown]:
        named = text.listing(missing) if len(missing) <= _NAMED else f"{len(missing)} of {len(runs)} runs"
        sentences.append(f"Not run: {named}.")
    sentences += [f"{run} {words}." for run, seeds in shown.items() if (words := left_out(seeds))]
    training = not protocol
    if note := text.dirty_note(dirty_steps([model for seeds in shown.values() for model in seeds], training)):
        marked = [run for run, seeds in shown.items() if mark(seeds, training)]
        sentences.append(f"{text.MARK} {text.listing(marked)}: {note}")
    return sentences


def looks() -> Iterator[dict[str, Any]]:
    """Colour, marker and dashes of each line, by the style, over and over."""
    import matplotlib

    return matplotlib.rcParams["axes.prop_cycle"]()


def interval_marks(
    axis: Axes,
    place: float,
    value: float,
    images: Interval | None,
    seeds: Interval | None,
    *,
    hollow: bool = False,
    upright: bool = False,
    reach: float = math.inf,
    colour: str = OURS,
) -> None:
    """A point with its 95 % intervals: thick over the test images, thin over the seeds.

    Parameters
    ----------
    axis, place
        Where: the height of the point, or with `upright` how far right it stands.
    value, images, seeds
        The point and its intervals.
    hollow
        Whether the point stands for models in trouble.
    reach
        How far from zero is shown; an arrow says that an interval goes on.
    """
    look: dict[str, Any] = {"color": colour, "clip_on": False, "linestyle": "none"}

    def plot(values: Sequence[float], **more: Any) -> None:
        places = [place] * len(values)
        axis.plot(*((places, values) if upright else (values, places)), **{**look, **more})

    ends = [value]
    for interval, thick in ((seeds, 0.8), (images, 2.4)):
        if interval:
            ends += [interval.low, interval.high]
            line = [min(max(end, -reach), reach) for end in (interval.low, interval.high)]
            plot(line, linestyle="-", linewidth=thick, marker="none", solid_capstyle="butt")
    if abs(value) <= reach:
        face = PAGE if hollow else colour
        plot([value], marker="o", markersize=4.2, markerfacecolor=face, zorder=4)
    if min(ends) < -reach:
        plot([-reach], marker="<", markersize=4.2)
    if max(ends) > reach:
        plot([reach], marker=">", markersize=4.2)


def write_beside(axis: Axes, x: float, place: float, words: str, colour: str = INK) -> None:
    """Words beside the axis at a row's height; `x` counts widths of the axis."""
    axis.text(x, place, words, transform=axis.get_yaxis_transform(), va="center", fontsize=5.8, color=colour)


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


def legend(canvas: Canvas, axis: Axes) -> None:
    """The lines of a panel, above all panels."""
    handles, labels = axis.get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=min(3, len(handles)))


def seeds_text(shown: Models) -> str:
    """Number of seeds behind the means; runs may have different numbers of seeds."""
    numbers = sorted({len(records) for records in shown.values()})
    return "One seed" if numbers == [1] else f"Mean over {text.listing(numbers)} seeds"


def interval_text(several: bool) -> str:
    """What `interval_marks` draws."""
    seeds = "; thin: over the seeds (Student's t)." if several else "."
    return f"Thick: 95 % interval over the test images (bootstrap){seeds}"


def hollow_text(trouble: Mapping[str, str]) -> list[str]:
    """A sentence on runs, or rows, without a sound seed, which are drawn hollow."""
    return [f"Hollow: {'; '.join(f'{name} {why}' for name, why in trouble.items())}."] if trouble else []


def level_text(level: Level) -> str:
    """A level and its wider interval."""
    return f"{text.number(level.mean)} {text.levels(level.interval)}".rstrip()
