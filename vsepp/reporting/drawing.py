"""Figures as PNG, SVG and PDF, with their captions and text alternatives."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from vsepp import components
from vsepp.reporting import TEMPLATES, filters
from vsepp.reporting.claims import Verdict
from vsepp.reporting.figures import kind_of
from vsepp.reporting.gaps import draw_gaps, gaps_figure
from vsepp.reporting.plots import INK, MUTED, PAGE, Material, Said, empty_panel
from vsepp.reporting.published import Published
from vsepp.reporting.records import Records, marks
from vsepp.reporting.report_specs import ContextSpec, FigureSpec

STYLE = TEMPLATES / "figure.mplstyle"
WIDTHS = {"column": 3.3, "page": 7.0}
"""Inches, of a two-column page."""
_SERIF: Any = {"font.family": ["STIXGeneral", "DejaVu Serif", "DejaVu Sans"], "font.size": 9}
# More runs than that are counted.
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

    spec: FigureSpec
    caption: str
    alt: str
    """What is shown, numbers included, for those who do not see it."""


def write_figure(
    spec: FigureSpec, context: ContextSpec, records: Records, folder: Path, published: Published | None = None
) -> Drawn:
    """Draw a figure as PNG, SVG and PDF. Equal inputs give equal bytes.

    Parameters
    ----------
    spec
        What is drawn. Runs without records were not run: they are left out and named in the caption.
    context
        What the caption says about the data.
    records
        Of each model.
    folder
        Where `<id>.png`, `<id>.svg` and `<id>.pdf` go.
    published
        The paper's rows, whose values are marked where data and encoders are the paper's.

    Raises
    ------
    VseppError
        When a history lacks a metric, and as in `scores`.
    """
    kind, material = kind_of(spec.kind.name), Material(context, records, published or {})
    runs = [*spec.runs, *([spec.baseline] if spec.baseline else [])]

    def draw(figure: Figure) -> Said:
        if (kind.runs and not material.shown(runs)) or (kind.is_computed and not spec.data):
            empty_panel(figure.subplots(), "not run")
            return Said()
        options = components.options("figure", spec.kind)
        return components.load("figure", spec.kind.name).draw(figure, spec, options, material)

    said = _write(spec, context, folder, kind.height, draw)
    said.caption += _about_runs(runs, records, kind.shows_training)
    return _drawn(spec, said, context, context.data_note if kind.runs else "")


def write_gaps(verdicts: Sequence[Verdict], context: ContextSpec, folder: Path) -> Drawn | None:
    """Draw all gaps between two runs that claims are about, as `gaps.png`, `.svg` and `.pdf`; `None` where there are none.

    Parameters
    ----------
    verdicts
        Of the paper's claims.
    context
        What the caption says about the data.
    folder
        Where the files go.
    """
    spec = gaps_figure(verdicts)
    if spec is None:
        return None
    said = _write(spec, context, folder, 3, lambda figure: draw_gaps(figure, spec, verdicts, context))
    return _drawn(spec, said, context, context.data_note)


def _write(
    spec: FigureSpec, context: ContextSpec, folder: Path, height: float, draw: Callable[[Figure], Said]
) -> Said:
    """Draw in the project's style, in type like the paper's where that is asked for, and write all formats."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(fname=STYLE), warnings.catch_warnings():
        matplotlib.rcParams.update(_SERIF if context.serif else {})
        # A caption may hold characters that no font of ours has: an empty box stands for each.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure = Figure(figsize=(WIDTHS[spec.width], height), layout="constrained")
        said = draw(figure)
        for suffix, metadata in _METADATA.items():
            figure.savefig(folder / f"{spec.id}.{suffix}", format=suffix, metadata=metadata)
            # Once is enough: all formats have the places that the first one got.
            figure.set_layout_engine("none")
    return said


def _drawn(spec: FigureSpec, said: Said, context: ContextSpec, data_note: str) -> Drawn:
    """A figure with its whole caption and text alternative."""
    swaps = [f"Data: {swap}." for swap in context.swaps([spec.dataset] if spec.dataset else [])]
    caption = " ".join(filter(None, [spec.caption, *said.caption, *swaps, data_note]))
    alt = " ".join([spec.title.rstrip(".") + ".", *(said.alt or ["Nothing was run."])])
    return Drawn(spec, caption, alt)


def _about_runs(runs: Sequence[str], records: Records, training: bool) -> list[str]:
    """Runs that are missing, and those behind which is code that no commit holds."""
    shown = {run: records[run] for run in runs if run in records}
    sentences = []
    if missing := [run for run in runs if run not in shown]:
        named = filters.listing(missing) if len(missing) <= _NAMED else f"{len(missing)} of {len(runs)} runs"
        sentences.append(f"Not run: {named}.")
    for sign, note in marks([record for seeds in shown.values() for record in seeds], training).items():
        marked = [run for run, seeds in shown.items() if sign in marks(seeds, training)]
        sentences.append(f"{sign} {filters.listing(marked)}: {note}")
    return sentences


def inline_svg(drawn: Drawn, file: Path) -> str:
    """A figure's SVG as part of a page: it takes the page's colours, in light and dark, and its ids stay its own."""
    spec = drawn.spec
    title = filters.numbered(spec.id) or spec.title
    return themed(file.read_text(encoding="utf-8"), spec.id, title, drawn.alt)


def themed(svg: str, name: str, title: str, alt: str) -> str:
    """An SVG as part of a page, see `inline_svg`; its ids begin with `name`, and `alt` says what it shows."""
    style = matplotlib.rc_params_from_file(STYLE, use_default_template=False)
    svg = svg[svg.index("<svg") :]
    # A page does not need the comments either, which hold each text beside its glyphs.
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    colours: Mapping[str, str] = {
        PAGE: "var(--page)",
        INK: "currentColor",
        MUTED: "var(--muted)",
        to_hex(style["grid.color"]): "var(--rule)",
        **{to_hex(look["color"]): f"var(--series-{k})" for k, look in enumerate(style["axes.prop_cycle"])},
    }
    for colour, shown in colours.items():
        svg = svg.replace(colour, shown)
    label, desc = escape(title), f"{name}-desc"
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" aria-describedby="{desc}" ', 1)
    start = svg.index(">") + 1
    return f'{svg[:start]}<desc id="{desc}">{escape(alt)}</desc>{svg[start:]}'
