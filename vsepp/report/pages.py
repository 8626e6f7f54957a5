"""Fill the templates: tables as CSV, HTML and LaTeX, one page that holds everything, and one that leads to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from inspect import getmembers, isfunction
from pathlib import Path
from shlex import quote
from statistics import mean
from types import MappingProxyType
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from vsepp.base.errors import VseppError, as_started
from vsepp.base.files import csv_text, write_text
from vsepp.base.manifest import MANIFEST, manifest_if_intact
from vsepp.base.provenance import git_state
from vsepp.evaluation.intervals import image_intervals
from vsepp.evaluation.metrics import COMPARED
from vsepp.report import cells, run_page, text
from vsepp.report.cells import ledgers
from vsepp.report.entries import ContextSpec, ReportSpec
from vsepp.report.expected import counted, held
from vsepp.report.figures.differences import write_gaps
from vsepp.report.folders import TEMPLATES
from vsepp.report.index_page import best_to_search, index_page, provenance, troubles
from vsepp.report.models import MadeBy, MeasuredModel, Models, command, config_of
from vsepp.report.pairing import Material, level, sound
from vsepp.report.plots import write_figure
from vsepp.report.published import read_published
from vsepp.report.records import read_models
from vsepp.report.tables import FilledTable, build_table, flat_rows
from vsepp.report.verdicts import Verdict, counts, judge, of_the_paper

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
    spec: ReportSpec,
    folder: Path,
    place: Path,
    other_code: Mapping[str, MadeBy] = MappingProxyType({}),
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
    config = config_of(context)
    models = read_models(spec.models, config, other_code)
    material = Material(spec, models, read_published(Path(spec.published)))
    verdicts = judge(spec.claims, material)
    tables = [build_table(name, table, material) for name, table in spec.tables]
    scores = held(Path(spec.expected), models) if spec.expected else []
    scores_counted = counted(scores, config)
    figures = [write_figure(name, figure, material, folder / "figures") for name, figure in spec.figures]
    if gaps := write_gaps(verdicts, material, folder / "figures"):
        figures.insert(0, gaps)
    commands = {model: command(seeds[0], context) for model, seeds in models.items()}
    git = git_state()
    shared: dict[str, Any] = {"context": context, "git": git, "commands": commands}
    _write_tables(tables, folder / "tables", shared)
    _write_exports(models, folder)
    _write_claims(verdicts, folder / "claims.csv")
    for model, seeds in models.items():
        page = run_page.run_page(seeds, tables, context, alone=len(models) == 1)
        about = ledgers(verdict for verdict in verdicts if model in verdict.spec.named)
        write_page(folder / "runs" / f"{model}.html", "run.html.j2", page=page, ledgers=about, **shared)
    page = index_page(spec, tables, figures, verdicts, models, scores)
    page["provenance"] = provenance(context, models, scores_counted, git)
    about = ledgers(verdicts)
    write_page(folder / "index.html", "index.html.j2", tables=tables, page=page, ledgers=about, **shared)
    # The page that `write_entry` writes leads to this report.
    has_entry = place.parts[-3:-1] == (context.preset, DEFAULT_VARIANT)
    first_page = (place.parents[1] if has_entry else place) / "index.html"
    if not tables and len(models) == 1:  # there is no more to see than this model
        (model,) = models
        first_page = place / "runs" / f"{model}.html"
        words = headline_of_one_model(models[model], first_page)
    else:
        words = headline(tables, verdicts, models, scores_counted, context, first_page)
    write_text(folder / "headline.txt", words + "\n")
    return words


# --- The headline -----------------------------------------------------------------------------------------------


def headline(
    tables: Sequence[FilledTable],
    verdicts: Sequence[Verdict],
    models: Models,
    scores: str,
    context: ContextSpec,
    page: Path,
) -> str:
    """What the workflow prints when it has finished: scores, verdicts, what collapsed, the page to open, what to do next.

    Returns
    -------
    str
        Lines without a trailing newline.
    """
    variant = f"variant {context.variant}, fidelity {context.fidelity}, {text.seeds(context.seeds)}"
    lines = [context.title, f"preset {context.preset}, {variant}", *(["", scores] if scores else [])]
    claims, comparisons = of_the_paper(verdicts)
    for noun, whose, group in (("claim", "", claims), ("comparison", " of our own", comparisons)):
        if group:
            lines += ["", f"{text.plural(len(group), noun)}{whose}, each about one metric:"]
            lines += [f"  {number:>3}  {word}" for word, number in counts(group)]
    if troubled := troubles(models):
        lines += ["", "collapsed or like chance:", *(f"  {line}" for line in troubled)]
    rows = {row.id: row for table in tables for row in table.rows}.values()
    if missing := sum(row.status == "not run" for row in rows):
        lines += ["", f"{text.plural(missing, 'row')} of the tables not run."]
    if marked := sum(bool(row.sign) for row in rows):
        lines += [
            "",
            f"{text.plural(marked, 'row')} marked {text.MARK}: made in part with uncommitted changes.",
        ]
    if context.data_note:
        lines += ["", context.data_note]
    return "\n".join([*lines, *_what_next(models, page)])


def headline_of_one_model(seeds: Sequence[MeasuredModel], page: Path) -> str:
    """What the workflow prints when it has finished a report of one model: its recalls, the page to open, what to do next."""
    counting = sound(seeds)
    protocol = next(iter(counting[0].metrics))
    values = np.array([[model.values(protocol, metric) for model in counting] for metric in COMPARED])
    lines = [f"{text.plural(values.shape[2], 'test image')}, in per cent, with 95 % intervals over them"]
    for metric, of_images, ends in zip(COMPARED, values, image_intervals(values.mean(axis=1)), strict=True):
        lines.append(f"  {text.metrics(metric):<26} {of_images.mean():5.1f}  {text.levels(ends)}")
    models = {seeds[0].name: seeds}
    lines += [f"  {line}" for line in troubles(models)]
    return "\n".join([*lines, *_what_next(models, page)])


def _what_next(models: Models, page: Path) -> list[str]:
    best = best_to_search(models)
    serve = [f"next    {as_started()}vsepp serve {quote(best.run)}"] if best else []
    return ["", f"open    {page}", *serve]


# --- Files for other programs ------------------------------------------------------------------------------------


def _write_tables(tables: Sequence[FilledTable], folder: Path, shared: Mapping[str, Any]) -> None:
    """Write each table as unrounded CSV, as a page, and as a tabular to be read with \\input; and a document that reads all tabulars."""
    for table in tables:
        rows = flat_rows(table, shared["context"])
        write_text(folder / f"{table.id}.csv", csv_text(list(rows[0]), rows))
        write_page(folder / f"{table.id}.html", "table_page.html.j2", table=table, runs="../runs/", **shared)
        write_page(folder / f"{table.id}.tex", "table.tex.j2", table=table, **shared)
    write_page(folder / "tables.tex", "tables.tex.j2", tables=tables, **shared)


def _write_claims(verdicts: Sequence[Verdict], file: Path) -> None:
    """Write one row a claim and metric, unrounded."""
    rows = []
    for verdict in verdicts:
        claim, ours, measured = verdict.spec, verdict.effect, verdict.measured
        images, seeds = (ours.images, ours.seeds) if ours else (None, None)
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
                "ours": ours and ours.value,
                "images_low": images and images.low,
                "images_high": images and images.high,
                "seeds_low": seeds and seeds.low,
                "seeds_high": seeds and seeds.high,
                "ratio": verdict.ratio,
                "p_holm": ours and ours.p,
                "mcnemar": " ".join(map(str, measured.mcnemar)),
                "n_seeds": measured.seeds,
                "verdict": verdict.word,
                "why": verdict.why,
            }
        )
    write_text(file, csv_text(list(rows[0]) if rows else ["claim"], rows))


def _write_exports(models: Models, folder: Path) -> None:
    """Write `metrics.json` and `curves/<run>-seed-<seed>.csv`, for `dvc metrics`, `dvc plots` and others' tools.

    The metrics are `<model>: <protocol>: {i2t_r1, i2t_r10, t2i_r1, t2i_r10, rsum}`, recalls in per cent, means over the sound
    seeds; with several the sample standard deviation of rsum is `rsum_sd`.
    """
    exported = {
        name: {protocol: _exported(sound(seeds), protocol) for protocol in seeds[0].metrics}
        for name, seeds in models.items()
    }
    write_text(folder / "metrics.json", json.dumps(exported, indent=1) + "\n")
    for name, seeds in models.items():
        for model in seeds:
            if model.history_csv:
                write_text(folder / "curves" / f"{name}-seed-{model.seed}.csv", model.history_csv)


def _exported(models: Sequence[MeasuredModel], protocol: str) -> dict[str, float]:
    levels = {name: level(models, protocol, name) for name in _EXPORTED}
    values = {
        name: mean(measured.by_seed) for name, measured in levels.items() if measured
    }  # exact, unlike `Level.mean`
    rsum = levels["rsum"]
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
        report = manifest_if_intact(manifest)
        if report and (context := report["spec"].get("context")):
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
        finalize=text.tex if latex else text.html,
        **(_LATEX if latex else {}),
    )
    environment.filters |= {
        name: function
        for module in (text, cells, run_page)
        for name, function in getmembers(module, isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    return environment


def write_page(file: Path, template: str, **values: Any) -> None:
    """Fill a template. LaTeX templates escape whatever they print, unless it is `Tex` already."""
    try:
        filled = _environment(template.endswith(".tex.j2")).get_template(template).render(values)
    except TemplateError as error:
        raise VseppError(f"template {template}: {error}") from error
    write_text(file, filled.rstrip() + "\n")
