"""From the plan to the spec of a paper's report: the runs of each table and figure, and what the page says about them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote

from vsepp.base import components
from vsepp.base.spec import seeded, shared_fields
from vsepp.pipeline.component_options import resolved
from vsepp.pipeline.layers import HARMLESS
from vsepp.pipeline.papers import Paper
from vsepp.pipeline.plan import Plan, expected_of
from vsepp.pipeline.settings import RowKeys, sizes_of
from vsepp.reporting import filters
from vsepp.reporting.figures import kind_of
from vsepp.reporting.published import read_published
from vsepp.reporting.report_specs import (
    ClaimEntry,
    ClaimSpec,
    ContextSpec,
    FigureEntry,
    FigureSpec,
    GroupSpec,
    ReportSpec,
    RowSpec,
    TableEntry,
    TableSpec,
    TrainedSpec,
)


def report_spec(plan: Plan, paper: Paper) -> ReportSpec:
    """Tables and figures that a paper's report holds, in their order."""
    chosen = paper.selected(plan.parameters.preset.tables)
    models = _models(plan, paper)
    expected = expected_of(plan.parameters)
    return ReportSpec(
        context=_context(plan, paper, models),
        published=str(paper.published),
        tables=tuple(_table(plan, paper, name) for name in chosen if name in paper.tables.tables),
        figures=tuple(_figure(plan, paper, name) for name in chosen if name in paper.tables.figures),
        claims=tuple(_claims(plan, paper)),
        expected=str(expected) if expected.is_file() else "",
        models=tuple(_trained(plan, model, seed) for model in models for seed in plan.models[model].specs),
        sources=tuple(_sources(plan, models)),
    )


def _models(plan: Plan, paper: Paper) -> list[str]:
    """Models of a paper's report: its own runs, the runs of other papers that it names, and its released checkpoints."""
    named = {*paper.entries, *paper.released, *(run for row in paper.tables.own_rows for run in row.runs)}
    named = named.union(*(keys.named for keys in paper.tables.figures.values()))
    named = named.union(*(keys.named for keys in paper.claims.values()))
    return [model for model in plan.models if model in named]


def _context(plan: Plan, paper: Paper, models: list[str]) -> ContextSpec:
    """Context that all captions share: data sets, variant, seeds."""
    parameters, preset = plan.parameters, plan.parameters.preset
    data = {role: parameters.datasets[keys.dataset].title for role, keys in parameters.corpora.items()}
    encoders = {role: keys.title for role, keys in preset.encoders.items() if keys}
    runs = [model for model in models if plan.models[model].trained]
    systems = filters.listing(dict.fromkeys(plan.models[run].spec.system for run in runs))
    summary = f"{len(runs)} run{'s' * (len(runs) > 1)} of {systems} on {preset.title}"
    summary += f", beside the numbers of {paper.tables.paper.citation}." if paper.rows else "."
    left_out = {role: len(keys.leave_out) for role, keys in parameters.corpora.items() if keys.leave_out}
    if left_out:
        counts = filters.listing(f"{number} of {data[role]}" for role, number in left_out.items())
        summary += f" Images left out: {counts}."
    changed = {key: value for key, value in parameters.overrides.items() if key not in HARMLESS}
    if changed:
        summary += f" Overridden: {json.dumps(changed)}."
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
        settings=_settings(plan, changed),
        serif=parameters.settings.serif,
    )


def _settings(plan: Plan, changed: Mapping[str, object]) -> str:
    """The given settings as `--config` takes them, quoted for a shell."""
    settings = plan.parameters.settings
    values = {"papers": settings.papers, "fidelity": settings.fidelity, "seeds": settings.seeds, **changed}
    values |= {"label": settings.label} if settings.label else {}
    # A folder of the project, not of this machine.
    if settings.archives and not Path(settings.archives).is_absolute():
        values["archives"] = settings.archives
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    return " ".join(quote(f"{key}={text}") for key, text in texts.items() if key != "preset")


def _table(plan: Plan, paper: Paper, name: str) -> TableSpec:
    keys = paper.tables.tables[name]
    groups = tuple(
        GroupSpec(group.heading, tuple(_row(plan, paper, row) for row in group.rows)) for group in keys.groups
    )
    columns = keys.columns or tuple(paper.tables.columns)
    return TableSpec(**{**shared_fields(TableEntry, vars(keys)), "columns": columns}, id=name, groups=groups)


def _row(plan: Plan, paper: Paper, row: str | RowKeys) -> RowSpec:
    """A published row and the run that feeds it, or a row of a run that no paper published."""
    parameters = plan.parameters
    if isinstance(row, str):
        run, protocol = parameters.feeders(paper).get(row, (None, None))
        checkpoints = (name for name, model in plan.models.items() if run and model.released == run)
        return RowSpec(row, run, protocol, released=next(checkpoints, None))
    if row.row is not None:
        runs = tuple(run for run in row.runs if parameters.applies(run, row.protocol))
        return RowSpec(row.row, runs[0] if runs else None, row.protocol, among=_several(runs))
    run = row.runs[0]
    own = {key: parameters.get(run, key) for key in ("system", "encoder", "dataset", "trainset")}
    own["finetuned"] = "yes" if parameters.get(run, "finetune_from") else "no"
    if row.label:
        own["label"] = row.label
    among = _several(row.runs)
    return RowSpec(row.label if among and row.label else run, run, row.protocol, among=among, own=own)


def _several(runs: tuple[str, ...]) -> tuple[str, ...]:
    """Runs of which one is chosen; none where there is no choice."""
    return runs if len(runs) > 1 else ()


def _figure(plan: Plan, paper: Paper, name: str) -> FigureSpec:
    keys, parameters = paper.tables.figures[name], plan.parameters
    runs = {
        "rows": [row.runs[0] for label in keys.labels for row in paper.tables.own_rows if row.label == label],
    }.get(kind_of(keys.kind.name).runs, keys.drawn)
    compared = [*runs, *([keys.baseline] if keys.baseline else [])]
    feeders = parameters.feeders(paper).items()
    computed = plan.table.get(("figure_data", f"{paper.name}/{name}"))
    claims = _claims(plan, paper) if kind_of(keys.kind.name).runs == "pairs" else ()
    corpus = parameters.corpora.get(keys.dataset)
    return FigureSpec(
        **{**shared_fields(FigureEntry, vars(keys)), "kind": resolved("figure", keys.kind)},
        id=name,
        runs=tuple(runs),
        sizes=sizes_of(keys.runs),
        references=tuple(
            (run, row) for row, (run, under) in feeders if run in compared and under == keys.protocol
        ),
        printed=tuple(
            (claim.runs[0], claim.runs[1], claim.metric, claim.published)
            for claim in claims
            if claim.kind == "difference" and len(claim.runs) == 2 and claim.published is not None
        ),
        encoders=tuple(dict.fromkeys(parameters.get(run, "encoder") for run in compared)),
        data=str(computed.folder) if computed else "",
        photographs=bool(corpus and parameters.datasets[corpus.dataset].photographs),
    )


def _claims(plan: Plan, paper: Paper) -> Iterator[ClaimSpec]:
    """Each claim about each of its metrics."""
    for name, keys in paper.claims.items():
        row = read_published(paper.published)["", keys.row] if keys.row else {}
        roles = [plan.parameters.get(run, key) for key in ("dataset", "encoder") for run in keys.named]
        for metric, published in keys.published.items():
            yield ClaimSpec(
                id=f"{name}/{metric}",
                runs=tuple(keys.named),
                metric=metric,
                roles=tuple(dict.fromkeys(roles)),
                published=published,
                sizes=sizes_of(keys.runs),
                against=float(row[metric]) if row else None,
                **shared_fields(ClaimEntry, vars(keys)),
            )


def _trained(plan: Plan, model: str, seed: int) -> TrainedSpec:
    """One model of one seed, and what its manifest must say."""
    if seed in plan.models[model].recorded:
        return TrainedSpec(model, seed, trained=True, study=str(plan.study.folder))
    evaluation = plan.table["evaluation", seeded(model, seed)]
    run = plan.owner(evaluation.inputs["run"])
    assert run
    pictures = plan.table.get(("pictures", evaluation.inputs["corpus"].name))
    return TrainedSpec(
        model,
        seed,
        trained=plan.models[model].trained,
        run=str(run.folder),
        evaluation=str(evaluation.folder),
        spec_digests={"run": run.spec_digest, "evaluation": evaluation.spec_digest},
        pictures=str(pictures.folder) if pictures else "",
    )


def _sources(plan: Plan, models: list[str]) -> Iterator[tuple[str, str]]:
    """Citations of the models' components, where they have one."""
    used: dict[tuple[str, str], None] = {}
    for name in models:
        spec = plan.models[name].spec
        evaluation = plan.table.get(("evaluation", seeded(name, spec.init_seed)))
        corpus = plan.owner(evaluation.inputs["corpus"]) if evaluation else None
        dataset = plan.parameters.datasets[plan.parameters.corpora[spec.dataset].dataset]
        reader = (corpus.spec if corpus else dataset).reader
        used |= dict.fromkeys([*spec.components, spec.encoder.component, ("reader", reader.name)])
    for kind, name in sorted(used, key=lambda component: list(components.KINDS).index(component[0])):
        if citation := components.describe(kind, name).citation:
            yield f"{kind.capitalize()} {name}", citation
