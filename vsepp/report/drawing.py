"""Figures as PNG, SVG and PDF, with their captions and text alternatives."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from vsepp.base import components
from vsepp.base.files import whole_file
from vsepp.report import TEMPLATES, entries, text
from vsepp.report.claims import Verdict
from vsepp.report.gaps import draw_gaps, metrics_of
from vsepp.report.layout import ContextSpec, ReportSpec
from vsepp.report.models import Records, best_of, dirty_note, mark
from vsepp.report.plots import INK, MUTED, PAGE, Material, Said, empty_panel
from vsepp.report.published import Published

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


@dataclass(frozen=True)
class Drawn:
    """A figure that was written."""

    id: str
    """The name of its files."""
    title: str
    caption: str
    alt: str
    """What is shown, numbers included, for those who do not see it."""
    folder: Path
    runs: tuple[str, ...] = ()
    """All runs that it is about."""

    @property
    def inline(self) -> Markup:
        """Its SVG as part of a page."""
        svg = (self.folder / f"{self.id}.svg").read_text(encoding="utf-8")
        return themed(svg, self.id, text.numbered(self.id) or self.title, self.alt)


def write_figure(
    name: str, spec: entries.Figure, report: ReportSpec, records: Records, folder: Path, published: Published
) -> Drawn:
    """Draw a figure as PNG, SVG and PDF. Equal inputs give equal bytes.

    Parameters
    ----------
    name
        Its id.
    spec
        What is drawn. Runs without records were not run: they are left out and named in the caption.
    report
        What is known of its runs and of its data.
    records
        Records of each model.
    folder
        Where `<id>.png`, `<id>.svg` and `<id>.pdf` go.
    published
        The paper's rows; their values are marked where data and encoders are the paper's.

    Raises
    ------
    VseppError
        When a history lacks a metric, and as in `scores`.
    """
    kind, runs = spec.of_kind, spec.drawn
    if kind.runs == "rows":
        runs = tuple(best_of(report.feeding(report.labelled[label]), records) for label in spec.labels)
    material = Material(report, records, published, runs, report.data.get(name, ""))
    named = (*runs, *([spec.baseline] if spec.baseline else []))

    def draw(figure: Figure) -> Said:
        shown = material.shown(spec.baseline)
        if (kind.runs and not shown) or (kind.is_computed and not material.folder):
            empty_panel(figure.subplots(), "not run")
            said = Said()
        else:
            options = components.options("figure", spec.kind)
            said = components.load("figure", spec.kind.name).draw(figure, spec, options, material)
        said.caption += _about_runs(named, shown, kind.shows_training)
        swaps = report.context.swaps([spec.dataset] if spec.dataset else [])
        said.caption += [f"Data: {swap}." for swap in swaps]
        return said

    inches = WIDTHS[spec.width], kind.height
    return _write(name, spec.title, spec.caption, inches, report.context, folder, draw, named)


def write_gaps(verdicts: Sequence[Verdict], context: ContextSpec, folder: Path) -> Drawn | None:
    """Draw all gaps between two runs that claims are about, as `gaps.png`, `.svg` and `.pdf`; `None` where there are none.

    Parameters
    ----------
    verdicts
        Verdicts on the paper's claims and on comparisons of one's own.
    context
        What the caption says about the data.
    folder
        Where the files go.
    """
    gaps = [verdict for verdict in verdicts if verdict.spec.is_gap]
    if not gaps:
        return None
    metrics, inches = metrics_of(gaps), (WIDTHS["page"], 3.0)
    title = "Gaps between the runs that claims compare"
    caption = "The first run of each pair minus the second, on the test images, in points."
    return _write(
        "gaps",
        title,
        caption,
        inches,
        context,
        folder,
        lambda figure: draw_gaps(figure, metrics, gaps, context),
    )


def _write(
    name: str,
    title: str,
    caption: str,
    inches: tuple[float, float],
    context: ContextSpec,
    folder: Path,
    draw: Callable[[Figure], Said],
    runs: tuple[str, ...] = (),
) -> Drawn:
    """Draw a figure, in type like the paper's where the context asks for it, and write all formats."""
    files = [folder / f"{name}.{suffix}" for suffix in _METADATA]
    with matplotlib.rc_context(fname=STYLE), warnings.catch_warnings():
        matplotlib.rcParams.update(_SERIF if context.serif else {})
        # A caption may hold characters that no font of ours has: an empty box stands for each.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure = Figure(figsize=inches, layout="constrained")
        said = draw(figure)
        for file in files:
            with whole_file(file) as partial:
                figure.savefig(partial, format=file.suffix[1:], metadata=_METADATA[file.suffix[1:]])
            # Once is enough: all formats have the places that the first one got.
            figure.set_layout_engine("none")
    alt = " ".join([title.rstrip(".") + ".", *(said.alt or ["Nothing was run."])])
    return Drawn(name, title, " ".join(filter(None, [caption, *said.caption])), alt, folder, runs)


def _about_runs(runs: Sequence[str], shown: Records, training: bool) -> list[str]:
    """Sentences on missing runs, and on runs that are marked as made with uncommitted changes."""
    sentences = []
    if missing := [run for run in runs if run not in shown]:
        named = text.listing(missing) if len(missing) <= _NAMED else f"{len(missing)} of {len(runs)} runs"
        sentences.append(f"Not run: {named}.")
    if note := dirty_note([record for seeds in shown.values() for record in seeds], training):
        marked = [run for run, seeds in shown.items() if mark(seeds, training)]
        sentences.append(f"{text.MARK} {text.listing(marked)}: {note}")
    return sentences


def themed(svg: str, name: str, title: str, alt: str) -> Markup:
    """An SVG as part of a page: it takes the page's colours, in light and dark, and says how many `--inches` wide it was drawn;
    its ids begin with `name`; `alt` says what it shows."""
    style = matplotlib.rc_params_from_file(STYLE, use_default_template=False)
    svg = svg[svg.index("<svg") :]
    # A page does not need the comments either, which hold each text beside its glyphs.
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    colours = {PAGE: "var(--page)", INK: "currentColor", MUTED: "var(--muted)"}
    colours[to_hex(style["grid.color"])] = "var(--rule)"
    for place, look in enumerate(style["axes.prop_cycle"]):
        colours[to_hex(look["color"])] = f"var(--series-{place})"
    for colour, shown in colours.items():
        svg = svg.replace(colour, shown)
    inches = float(svg.partition('width="')[2].partition("pt")[0]) / 72
    attributes = f'role="img" aria-label="{escape(title)}" aria-describedby="{name}-desc" style="--inches: {inches:.3g}"'
    svg = svg.replace("<svg ", f"<svg {attributes} ", 1)
    return Markup(svg.replace(">", f'><desc id="{name}-desc">{escape(alt)}</desc>', 1))
