"""A paper's report, laid out from the plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from vsepp.base import components
from vsepp.report import text
from vsepp.report.entries import OF_A_ROW, ContextSpec, Feed, ReportSpec, TrainedSpec
from vsepp.report.figures.base import FigureOfRuns

SETTINGS_FILE = "settings.json"
"""Name of a file with all settings, in the folder `archives` that they name."""

if TYPE_CHECKING:
    from vsepp.pipeline.papers import Paper
    from vsepp.pipeline.plan import Plan


def report_spec(plan: Plan, paper: Paper) -> ReportSpec:
    """Tables and figures that a paper's report holds, in their order, and what the plan knows of them."""
    parameters, entries = plan.parameters, paper.tables
    chosen = paper.selected(parameters.preset.tables)
    tables = tuple(
        (name, replace(entry, columns=entry.columns or entries.columns))
        for name in chosen
        if (entry := entries.tables.get(name))
    )
    figures = tuple((name, entries.figures[name]) for name in chosen if name in entries.figures)
    labels = {label for _, figure in figures for label in figure.rows}
    named = {
        *(run for row in entries.own_rows for run in row.runs),
        *(run for figure in entries.figures.values() for run in figure.named),
        *(run for claim in paper.claims.values() for run in claim.named),
    }
    feeds = dict(_feeds(plan, paper))
    # Its own runs, the runs of other papers that it names, and its released checkpoints.
    models = [model for model in plan.models if model in {*named, *paper.entries, *paper.released}]
    data = {role: parameters.datasets[keys.dataset] for role, keys in parameters.corpora.items()}
    return ReportSpec(
        context=_context(plan, paper, models),
        published=str(paper.published),
        tables=tables,
        figures=figures,
        claims=tuple(paper.claims.items()),
        runs={
            run: {
                **{key: getattr(parameters.all_runs[run], key) for key in OF_A_ROW},
                "finetuned": "yes" if parameters.all_runs[run].finetune_from else "no",
            }
            for run in sorted({*named, *(feed.run for feed in feeds.values() if feed.run)})
        },
        feeds=feeds,
        labelled={row.label: row for row in reversed(entries.own_rows) if row.label in labels},
        truths={role: entry.truths for role, entry in data.items() if entry.truths},
        data={
            name: str(artefact.folder)
            for name, _ in figures
            if (artefact := plan.table.get(("figure_data", f"{paper.name}/{name}")))
        },
        photographs=tuple(
            role
            for role in dict.fromkeys(f.dataset for _, f in figures if isinstance(f, FigureOfRuns))
            if role in data and data[role].photographs
        ),
        models=tuple(_trained(plan, model, seed) for model in models for seed in plan.models[model].specs),
        expected=str(parameters.expected) if parameters.expected.is_file() else "",
        sources=tuple(_sources(plan, models)),
    )


def _feeds(plan: Plan, paper: Paper) -> Iterator[tuple[str, Feed]]:
    """Each published row that a run feeds."""
    for row, (run, protocol) in plan.parameters.feeders(paper).items():
        checkpoints = (name for name, model in plan.models.items() if model.released == run)
        yield row, Feed(run, protocol, next(checkpoints, None))


def _context(plan: Plan, paper: Paper, models: list[str]) -> ContextSpec:
    """Context that all captions share: data sets, variant, seeds."""
    parameters, preset = plan.parameters, plan.parameters.preset
    data = {role: parameters.datasets[keys.dataset].title for role, keys in parameters.corpora.items()}
    encoders = {role: keys.title for role, keys in preset.encoders.items() if keys}
    runs = [model for model in models if plan.models[model].trained]
    systems = text.listing(dict.fromkeys(plan.models[run].spec.system for run in runs))
    summary = f"{text.plural(len(runs), 'run')} of {systems} on {preset.title}"
    summary += f", beside the numbers of {paper.tables.paper.citation}." if paper.rows else "."
    left_out = {role: len(keys.leave_out) for role, keys in parameters.corpora.items() if keys.leave_out}
    if left_out:
        counts = text.listing(f"{number} of {data[role]}" for role, number in left_out.items())
        summary += f" Images left out: {counts}."
    file = Path(parameters.settings.archives or ".") / SETTINGS_FILE
    settings_file = str(file) if not file.is_absolute() and file.is_file() else ""
    if parameters.changed and not settings_file:
        summary += f" Overridden: {json.dumps(parameters.changed)}."
    return ContextSpec(
        paper=paper.tables.paper,
        preset=plan.preset,
        variant=plan.variant,
        fidelity=parameters.settings.fidelity,
        title=f"{paper.tables.paper.short} on {preset.title}",
        summary=summary,
        data_note=preset.data_note.strip(),
        seeds=tuple(plan.seeds),
        fold_size=preset.evaluation.fold_size,
        titles={**data, **encoders},
        paper_titles=dict(paper.tables.titles),
        default_encoder=paper.tables.default_encoder,
        settings=_settings(plan),
        settings_file=settings_file,
        serif=parameters.settings.serif,
    )


def _settings(plan: Plan) -> str:
    """The given settings as `--config` takes them, quoted for a shell."""
    settings = plan.parameters.settings
    values: dict[str, Any] = {
        "papers": settings.papers,
        "fidelity": settings.fidelity,
        "seeds": settings.seeds,
    }
    values |= plan.parameters.changed
    values |= {"label": settings.label} if settings.label else {}
    # A folder of the project, not of this machine.
    if settings.archives and not Path(settings.archives).is_absolute():
        values["archives"] = settings.archives
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    return " ".join(quote(f"{key}={value}") for key, value in texts.items() if key != "preset")


def _trained(plan: Plan, model: str, seed: int) -> TrainedSpec:
    """One model of one seed, and what its manifest must say."""
    if seed in plan.models[model].recorded:
        return TrainedSpec(model, seed, trained=True, study=str(plan.parameters.study.folder))
    evaluation = plan.evaluation(model, seed)
    assert evaluation
    run = plan.owner(evaluation.inputs["run"].path)
    assert run
    return TrainedSpec(
        model,
        seed,
        trained=plan.models[model].trained,
        run=str(run.folder),
        evaluation=str(evaluation.folder),
        spec_digests={"run": run.spec_digest, "evaluation": evaluation.spec_digest},
        pictures=str(plan.models[model].pictures or ""),
    )


def _sources(plan: Plan, models: list[str]) -> Iterator[tuple[str, str]]:
    """Citations of the models' components, where they have one."""
    used: dict[tuple[str, str], None] = {}
    for name in models:
        spec = plan.models[name].spec
        evaluation = plan.evaluation(name, spec.init_seed)
        corpus = plan.corpus_of(evaluation) if evaluation else None
        dataset = plan.parameters.datasets[plan.parameters.corpora[spec.dataset].dataset]
        reader = (corpus.spec if corpus else dataset).reader
        used |= dict.fromkeys([*spec.components, spec.encoder.component, ("reader", reader.name)])
    for kind, name in sorted(used, key=lambda component: list(components.KINDS).index(component[0])):
        if citation := components.describe(kind, name).citation:
            yield f"{kind.capitalize()} {name}", citation
