"""Fill the templates: tables as CSV, HTML and LaTeX, one page that holds everything, and one that leads to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from inspect import getmembers, isfunction
from pathlib import Path
from statistics import mean
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, UndefinedError

from vsepp.base.errors import VseppError
from vsepp.base.files import csv_text, write_text
from vsepp.base.manifest import MANIFEST, git_state, manifest_if_intact
from vsepp.report import TEMPLATES, summary, text
from vsepp.report.claims import OUTCOMES, SIGNS, Verdict, of_the_paper
from vsepp.report.entries import ReportSpec
from vsepp.report.expected import counted, read_expected, states_of
from vsepp.report.figures.differences import write_gaps
from vsepp.report.measured import judge
from vsepp.report.models import MadeBy, Model, Models, command, config_of, level, sound
from vsepp.report.plots import write_figure
from vsepp.report.published import read_published
from vsepp.report.records import read_models
from vsepp.report.run_page import run_page
from vsepp.report.tables import build_table, flat_rows, page_layout, tex_layout

DEFAULT_VARIANT = "paper"
"""The variant whose pages open a preset's reports."""
# Templates of LaTeX have delimiters that LaTeX does not use.
_LATEX: dict[str, Any] = {
    "block_start_string": "<%",
    "block_end_string": "%>",
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}
_EXPORTED = ("i2t_r1", "i2t_r10", "t2i_r1", "t2i_r10", "rsum")


def write_report(
    spec: ReportSpec, folder: Path, place: Path, other_code: Mapping[str, MadeBy] = MappingProxyType({})
) -> str:
    """Build and write everything of one report.

    Parameters
    ----------
    spec
        Tables, figures and the models behind them.
    folder
        Gets `index.html`, `headline.txt`, `claims.csv`, `metrics.json`, `tables/`, `figures/`, `runs/` and `curves/`.
    place
        Where the folder will lie: the headline names a page there, or the preset's entry page where that leads to the report.
    other_code
        Folder of a training or an evaluation that other code than the present one made → who made it.

    Returns
    -------
    str
        The headline: the counts of verdicts, which page to open, what to do next.
    """
    context = spec.context
    for part in ("tables", "figures"):  # also of a report that has none
        (folder / part).mkdir(parents=True, exist_ok=True)
    published = read_published(Path(spec.published))
    config = config_of(context)
    records = read_models(spec.models, config)
    verdicts = judge(spec.claims, spec, records, published)
    tables = [build_table(name, table, spec, published, records) for name, table in spec.tables]
    states = states_of(read_expected(Path(spec.expected)), records) if spec.expected else ()
    scores = counted(states, config)
    figures = [
        write_figure(name, figure, spec, records, folder / "figures", published)
        for name, figure in spec.figures
    ]
    if gaps := write_gaps(verdicts, context, folder / "figures"):
        figures.insert(0, gaps)
    shared: dict[str, Any] = {
        "context": context,
        "git": git_state(),
        "signs": SIGNS,
        "outcomes": OUTCOMES,
        "commands": {model: command(seeds[0], context) for model, seeds in records.items()},
    }
    for table in tables:
        # As unrounded CSV, as a page of its own, and as a tabular to be read with \input.
        name = f"tables/{table.id}"
        rows = flat_rows(table, context)
        write_text(folder / f"{name}.csv", csv_text(list(rows[0]), rows))
        write_page(folder / f"{name}.html", "table_page.html.j2", table=table, runs="../runs/", **shared)
        write_page(folder / f"{name}.tex", "table.tex.j2", table=table, **shared)
    # A document of all tables, which reads the tabulars beside it.
    write_page(folder / "tables" / "tables.tex", "tables.tex.j2", tables=tables, **shared)
    _write_exports(records, folder)
    _write_claims(verdicts, folder / "claims.csv")
    for model, seeds in records.items():
        page = run_page(model, seeds, verdicts, tables, other_code)
        write_page(folder / "runs" / f"{model}.html", "run.html.j2", page=page, **shared)
    claims, comparisons = of_the_paper(verdicts)
    tested = [some for some in (claims, comparisons) if any(verdict.judged for verdict in some)]
    write_page(
        folder / "index.html",
        "index.html.j2",
        tables=tables,
        figures=figures,
        tiles=summary.tiles(tested[0]) if tested else [],
        answer=summary.answer(claims, context),
        compared=summary.compared(comparisons),
        claims=claims,
        comparisons=comparisons,
        troubles=summary.troubles(records),
        provenance=summary.provenance(context, records, scores, shared["git"], other_code),
        sources=spec.sources,
        **shared,
    )
    # The page that `write_entry` writes leads to this report.
    has_entry = place.parts[-3:-1] == (context.preset, DEFAULT_VARIANT)
    first_page = (place.parents[1] if has_entry else place) / "index.html"
    if not tables and len(records) == 1:  # there is no more to see than this model
        (model,) = records
        first_page = place / "runs" / f"{model}.html"
    headline = summary.headline(tables, verdicts, records, scores, context, first_page)
    write_text(folder / "headline.txt", headline + "\n")
    return headline


def _write_claims(verdicts: Sequence[Verdict], file: Path) -> None:
    """Write one row a claim and metric, unrounded."""
    rows = []
    for verdict in verdicts:
        claim, images, seeds = verdict.spec, verdict.images, verdict.over_seeds
        rows.append(
            {
                "claim": verdict.id,
                "kind": claim.kind,
                "runs": " ".join(claim.named),
                "metric": verdict.metric,
                "protocol": claim.protocol,
                "of_the_paper": int(bool(claim.place)),
                "paper": verdict.published,
                "paper_sd": verdict.paper_sd,
                "ours": verdict.value,
                "images_low": images and images.low,
                "images_high": images and images.high,
                "seeds_low": seeds and seeds.low,
                "seeds_high": seeds and seeds.high,
                "ratio": verdict.ratio,
                "p_holm": verdict.p,
                "mcnemar": " ".join(map(str, verdict.mcnemar)),
                "n_seeds": verdict.seeds,
                "verdict": verdict.word,
                "why": verdict.why,
            }
        )
    write_text(file, csv_text(list(rows[0]) if rows else ["claim"], rows))


def _write_exports(records: Models, folder: Path) -> None:
    """Write `metrics.json` and `curves/<run>-seed-<seed>.csv`, for `dvc metrics`, `dvc plots` and others' tools.

    The metrics are `<model>: <protocol>: {i2t_r1, i2t_r10, t2i_r1, t2i_r10, rsum}`, recalls in per cent, means over the sound seeds;
    with several seeds the sample standard deviation of rsum is `rsum_sd`.
    """
    exported = {
        model: {protocol: _exported(seeds, protocol) for protocol in seeds[0].metrics}
        for model, seeds in records.items()
    }
    write_text(folder / "metrics.json", json.dumps(exported, indent=1) + "\n")
    for model, seeds in records.items():
        for record in seeds:
            if record.history_csv:
                write_text(folder / "curves" / f"{model}-seed-{record.seed}.csv", record.history_csv)


def _exported(seeds: Sequence[Model], protocol: str) -> dict[str, float]:
    found = {name: level(sound(seeds, protocol), protocol, name) for name in _EXPORTED}
    values = {name: mean(of.by_seed) for name, of in found.items() if of}
    rsum = found["rsum"]
    return {**values, "rsum_sd": rsum.sd} if rsum and rsum.sd is not None else values


def write_entry(reports: Path) -> None:
    """Write the first page of a preset's reports: it leads to the default variant's report, or lists the reports of several papers.

    A report whose manifest is damaged is left out: it is no reason to stop another one.

    Parameters
    ----------
    reports
        `reports/<preset>`, with `<variant>/<paper>/index.html`. Where the default variant has no report, nothing is written.
    """
    listed: list[tuple[str, str, str]] = []
    # Once more where another report was published meanwhile.
    while (pages := _pages(reports)) != listed:
        write_page(reports / "index.html", "entry.html.j2", preset=reports.name, pages=pages)
        listed = pages


def _pages(reports: Path) -> list[tuple[str, str, str]]:
    """Link, title and paper of each report of the default variant that has a manifest."""
    pages = []
    for manifest in sorted(reports.glob(f"{DEFAULT_VARIANT}/*/{MANIFEST}")):
        made = manifest_if_intact(manifest)
        if made and (context := made["spec"].get("context")):
            link = manifest.with_name("index.html").relative_to(reports).as_posix()
            pages.append((link, context["title"], context["paper"]["title"]))
    return pages


@cache
def _environment(latex: bool) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=not latex,
        finalize=text.tex if latex else None,
        **(_LATEX if latex else {}),
    )
    environment.filters |= dict(getmembers(text, isfunction))
    environment.filters |= {"page_layout": page_layout, "tex_layout": tex_layout}
    return environment


def write_page(file: Path, template: str, **values: Any) -> None:
    """Fill a template. LaTeX templates escape whatever they print, unless it is `Tex` already."""
    try:
        filled = _environment(template.endswith(".tex.j2")).get_template(template).render(values)
    except UndefinedError as error:
        raise VseppError(f"template {template}: {error}; the report has no such value") from error
    write_text(file, filled.rstrip() + "\n")
