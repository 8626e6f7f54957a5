"""Fill the templates: tables as CSV, HTML and LaTeX, and one page that holds everything."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, UndefinedError
from markupsafe import Markup

from vsepp.errors import VseppError
from vsepp.provenance.manifest import git_state, write_text
from vsepp.reporting import figures, filters, summary
from vsepp.reporting.exports import write_exports
from vsepp.reporting.figures import Figure, write_figure
from vsepp.reporting.specs import DIRECTIONS, ContextSpec, ReportSpec
from vsepp.reporting.tables import Table, build_table, to_frame

TEMPLATES = Path(__file__).resolve().parents[2] / "reports" / "templates"
TABLES_DOCUMENT = "tables.tex"


@dataclass(frozen=True)
class Layout:
    """Where a table's columns lie; templates do no arithmetic."""

    width: int
    """Columns of the HTML table."""
    width_tex: int
    """Columns of the tabular, which has one more: ours or the paper's."""
    labels: int
    """Columns of the tabular before the numbers."""
    numbers: int
    """Columns of the tabular with numbers."""
    span: int
    """Columns of the tabular below each direction's name."""
    tex_columns: filters.Tex
    rules: tuple[tuple[int, int], ...]
    """First and last column of the tabular below each direction's name."""
    first: tuple[str, ...]
    """The cells that begin a direction."""
    seeds: bool
    """Whether any number is a mean over seeds."""


@dataclass(frozen=True)
class Written:
    """A table and the files that hold it."""

    table: Table
    files: tuple[Path, ...]
    """CSV, HTML and LaTeX."""


def write_table(table: Table, folder: Path, templates: Path = TEMPLATES) -> Written:
    r"""Write `<id>.csv` (unrounded), `<id>.html` (a page) and `<id>.tex` (a tabular to `\input`)."""
    folder.mkdir(parents=True, exist_ok=True)
    csv, html, tex = (folder / f"{table.spec.id}.{suffix}" for suffix in ("csv", "html", "tex"))
    write_text(csv, to_frame(table).to_csv(index=False, lineterminator="\n"))
    values = {"table": table, "context": table.context, "layout": _layout(table)}
    write_text(html, _render(_html(templates), "table_page.html.j2", **values))
    write_text(tex, _render(_latex(templates), "table.tex.j2", **values))
    return Written(table, (csv, html, tex))


def write_tables_document(tables: Sequence[Table], folder: Path, templates: Path = TEMPLATES) -> Path:
    """Write `tables.tex`, a LaTeX document of all tables with their captions and notes.

    It reads the tabulars that `write_table` put into the same folder, and needs only packages of a basic TeX.
    """
    path = folder / TABLES_DOCUMENT
    write_text(path, _render(_latex(templates), "tables.tex.j2", tables=tables))
    return path


def write_report(
    context: ContextSpec,
    tables: Sequence[Written],
    drawn: Sequence[Figure],
    document: Path,
    out: Path,
    templates: Path = TEMPLATES,
) -> None:
    """Write the page that holds all tables and figures; it needs no other file to be read.

    Parameters
    ----------
    context
        Title, summary and provenance.
    tables, drawn
        What it shows, in order, with the files that it links to.
    document
        The LaTeX document of all tables.
    out
        The page; links are relative to its folder.
    """
    page = _render(
        _html(templates),
        "index.html.j2",
        context=context,
        tables=[(written.table, _layout(written.table), _links(written.files, out)) for written in tables],
        figures=[(figure, _inline(figure), _links(figure.files, out)) for figure in drawn],
        document=_links([document], out)[0],
        pairs=[
            (pair, summary.describe_setting(pair, context))
            for pair in summary.best_pairs(written.table for written in tables)
        ],
        provenance=summary.provenance(
            [written.table for written in tables],
            context,
            [origin for figure in drawn for origin in figure.origins],
        ),
    )
    write_text(out, page)


def make_report(spec: ReportSpec, folder: Path, templates: Path = TEMPLATES) -> str:
    """Build and write everything of one report.

    Parameters
    ----------
    spec
        Tables and figures. Where its context names no commit, the code's present one is filled in.
    folder
        Gets `index.html`, `tables/`, `figures/`, `metrics/` and `curves/`.
    templates
        Folder of the templates.

    Returns
    -------
    str
        The headline: where the page is and R@1 both ways.
    """
    context = spec.context if spec.context.commit else replace(spec.context, **dict(git_state()))
    built = [build_table(table, context, Path(spec.published)) for table in spec.tables]
    written = [write_table(table, folder / "tables", templates) for table in built]
    document = write_tables_document(built, folder / "tables", templates)
    drawn = [write_figure(figure, context, folder / "figures") for figure in spec.figures]
    write_exports(spec.models, folder)
    index = folder / "index.html"
    write_report(context, written, drawn, document, index, templates)
    return summary.headline(built, index)


def table_caption(table: Table) -> str:
    """Caption, what plays the paper's roles here, what was not run, and whose numbers these are."""
    context = table.context
    trained = [row for row in table.rows if row.kind == "trained"]
    roles = [table.spec.dataset, *sorted({row.encoder for row in trained}, reverse=True)]
    swaps = [
        f"{context.here(role)} in place of {context.in_paper(role)}"
        for role in roles
        if context.here(role) != context.in_paper(role)
    ]
    parts = [table.spec.caption]
    seeds = {row.seeds for row in trained if row.seeds}
    if seeds and max(seeds) > 1:
        parts.append(f"Ours: mean ± sample standard deviation over {filters.listing(sorted(seeds))} seeds.")
    if swaps:
        parts.append(f"Our rows use {filters.listing(swaps)}.")
    if table.not_run:
        parts.append(f"Not run: {table.not_run} of {len(trained)} trained rows.")
    if context.data_note:
        parts.append(context.data_note)
    return " ".join(parts)


def _layout(table: Table) -> Layout:
    columns, numbers = len(table.spec.columns), len(table.spec.cells)
    labels = 4 if table.spec.trainset else 3
    seeds = any(row.seeds > 1 for row in table.rows)
    # A deviation has a column of its own, so that the values above and below it stay aligned.
    span = columns * (2 if seeds else 1)
    return Layout(
        width=labels - 1 + numbers,
        width_tex=labels + span * len(DIRECTIONS),
        labels=labels,
        numbers=span * len(DIRECTIONS),
        span=span,
        tex_columns=filters.Tex("@{}" + "l" * labels + (r"r@{\,}l" if seeds else "r") * numbers + "@{}"),
        rules=tuple(
            (labels + place * span + 1, labels + (place + 1) * span) for place in range(len(DIRECTIONS))
        ),
        first=tuple(f"{direction}_{table.spec.columns[0]}" for direction in DIRECTIONS),
        seeds=seeds,
    )


def _render(environment: Environment, name: str, **values: Any) -> str:
    try:
        return environment.get_template(name).render(**values).rstrip() + "\n"
    except UndefinedError as error:
        raise VseppError(
            f"template {name}: {error}; it uses a value that the report does not have"
        ) from error


def _html(templates: Path) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return _with_filters(environment)


def _latex(templates: Path) -> Environment:
    """Delimiters that LaTeX does not use; whatever is printed gets escaped unless it is `Tex` already."""
    environment = Environment(
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, StrictUndefined) else filters.tex(value),
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return _with_filters(environment)


def _with_filters(environment: Environment) -> Environment:
    for name in (
        "number",
        "deviation",
        "measured",
        "count",
        "metric_name",
        "commit",
        "listing",
        "tex_value",
        "tex_sd",
    ):
        environment.filters[name] = getattr(filters, name)
    environment.filters["caption"] = table_caption
    environment.globals["directions"] = DIRECTIONS
    return environment


def _links(files: Iterable[Path], page: Path) -> list[tuple[str, str]]:
    """(label, relative link) per file."""
    return [
        (file.suffix[1:].upper(), Path(os.path.relpath(file, page.parent)).as_posix())
        for file in map(Path, files)
    ]


def _inline(figure: Figure) -> Markup:
    """The SVG as part of a page: it takes the page's colours, in light and dark, and its ids stay its own."""
    (path,) = [file for file in figure.files if file.suffix == ".svg"]
    svg = path.read_text(encoding="utf-8")
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    prefix = figure.spec.id
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = svg.replace("url(#", f"url(#{prefix}-")
    # The rectangles behind the figure and its panels would stay white on a dark page.
    svg = svg.replace("fill: #ffffff", "fill: none").replace(figures.INK, "currentColor")
    svg = svg.replace(figures.RULE, "var(--rule)")
    for place, colour in enumerate(figures.COLOURS):
        svg = svg.replace(colour, f"var(--series-{place})")
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{figure.name}" ', 1))
