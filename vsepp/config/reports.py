"""From the plan to the spec of a paper's report: the runs of each table and figure, and what the page says about them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from shlex import quote
from typing import Any

from vsepp import components
from vsepp.config.components import resolved
from vsepp.config.papers import Paper
from vsepp.config.plan import Plan, expected_of
from vsepp.config.resolve import HARMLESS
from vsepp.config.schema import RowKeys, sizes_of
from vsepp.provenance.acceptance import standing_code
from vsepp.provenance.digests import value_digest
from vsepp.reporting.figures import kind_of
from vsepp.reporting.filters import listing
from vsepp.reporting.published import read_published
from vsepp.reporting.specs import (
    ClaimEntry,
    ClaimSpec,
    ContextSpec,
    FigureEntry,
    FigureSpec,
    GroupSpec,
    MakerSpec,
    ReportSpec,
    RowSpec,
    TableEntry,
    TableSpec,
    TrainedSpec,
    TunedSpec,
)
from vsepp.spec import seeded, to_dict


def report_spec(plan: Plan, paper: Paper) -> ReportSpec:
    """Tables and figures that a paper's report holds, in their order."""
    assert paper.tables
    tables, figures = paper.tables.tables, paper.tables.figures
    names = paper.selected(plan.parameters.preset.tables)
    models = _models_of(plan, paper)
    return ReportSpec(
        context=_context(plan, paper, models),
        published=str(paper.published),
        tables=tuple(_table(plan, paper, name) for name in names if name in tables),
        figures=tuple(_figure(plan, paper, name, models) for name in names if name in figures),
        claims=tuple(_claims(plan, paper)),
        tuned=tuple(_tuned(plan, label, runs) for label, runs in paper.tables.tuned.items()),
        expected=str(expected) if (expected := expected_of(plan.parameters)).is_file() else "",
        models=tuple(_model(plan, model, seed) for model in models for seed in plan.models[model].specs),
        sources=tuple(_sources(plan, models)),
    )


def _models_of(plan: Plan, paper: Paper) -> list[str]:
    """Models of a paper's report: its own runs, those of others that its tables name, and its released checkpoints."""
    assert paper.tables
    named = {*paper.entries, *paper.released}
    for table in paper.tables.tables.values():
        named |= {row.run for row in table.rows if isinstance(row, RowKeys) and row.run}
    for runs in paper.tables.tuned.values():
        named |= set(runs)
    for figure in paper.tables.figures.values():
        named |= set(figure.named)
    for claim in paper.claims.values():
        named |= set(claim.named)
    return [model for model in plan.models if model in named]


def _context(plan: Plan, paper: Paper, models: list[str]) -> ContextSpec:
    """What all captions say: whose data, which variant, which seeds."""
    assert paper.tables
    parameters, preset, said = plan.parameters, plan.parameters.preset, paper.tables.paper
    data = {role: parameters.datasets[keys.dataset].title for role, keys in parameters.corpora.items()}
    encoders = {role: keys.title for role, keys in preset.encoders.items() if keys}
    runs = [plan.models[model] for model in models if plan.models[model].released is None]
    systems = listing(dict.fromkeys(run.spec.system for run in runs))
    changed = {key: value for key, value in parameters.overrides.items() if key not in HARMLESS}
    left_out = [
        f"{len(keys.leave_out)} of {data[role]}"
        for role, keys in parameters.corpora.items()
        if keys.leave_out
    ]
    return ContextSpec(
        paper=said,
        preset=plan.preset,
        variant=plan.variant,
        fidelity=parameters.settings.fidelity,
        title=f"{said.short} on {preset.title}",
        summary=(
            f"{len(runs)} run{'s' * (len(runs) > 1)} of {systems} on {preset.title}"
            + (f", beside the numbers of {said.citation}." if paper.rows else ".")
            + (f" Images left out: {listing(left_out)}." if left_out else "")
            + (f" Overridden: {json.dumps(changed)}." if changed else "")
        ),
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
    """`--config` of what was given, as a shell takes it."""
    settings = plan.parameters.settings
    shared = {"papers": settings.papers, "fidelity": settings.fidelity, "seeds": settings.seeds}
    said: dict[str, object] = {**shared, **changed}
    if settings.label:
        said["label"] = settings.label
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in said.items()}
    return " ".join(quote(f"{key}={text}") for key, text in texts.items() if key != "preset")


def _table(plan: Plan, paper: Paper, name: str) -> TableSpec:
    assert paper.tables
    keys = paper.tables.tables[name]
    groups = [
        GroupSpec(group.heading, tuple(_row(plan, paper, row) for row in group.rows)) for group in keys.groups
    ]
    columns = keys.columns or tuple(paper.tables.columns)
    return TableSpec(**{**_said(keys, TableEntry), "columns": columns}, id=name, groups=tuple(groups))


def _said(keys: object, entry: type) -> dict[str, Any]:
    """What an entry of a YAML file says that its spec has too."""
    return {field.name: getattr(keys, field.name) for field in fields(entry)}


def _row(plan: Plan, paper: Paper, row: str | RowKeys) -> RowSpec:
    """A published row and the run that feeds it, or a row of a run that no paper published."""
    if isinstance(row, str):
        run, protocol = plan.parameters.feeders(paper).get(row, (None, None))
        released = (name for name, model in plan.models.items() if model.released == run)
        return RowSpec(row, run, protocol, next(released, None) if run else None)
    if row.row is not None:
        return RowSpec(row.row, row.run, row.protocol)
    assert paper.tables
    run = row.run or paper.tables.tuned[row.tuned or ""][0]
    keys = ("system", "encoder", "dataset", "trainset")
    own = {key: plan.parameters.get(run, key) for key in keys}
    own["finetuned"] = "yes" if plan.parameters.get(run, "finetune_from") else "no"
    own |= {"label": label} if (label := row.label or row.tuned) else {}
    return RowSpec(row.run or row.tuned or "", row.run, row.protocol, tuned=row.tuned, own=own)


def _tuned(plan: Plan, label: str, runs: list[str]) -> TunedSpec:
    """A method's runs, with the options of the loss, and the learning rate, that not all of them share."""
    options = {}
    for run in runs:
        loss = plan.parameters.get(run, "loss")
        # Options that have their default too: the parameters name only the others.
        chosen = vars(components.describe("loss", loss.name).options(**loss.options))
        options[run] = {**chosen, "learning rate": plan.parameters.get(run, "learning_rate")}
    names = dict.fromkeys(name for given in options.values() for name in given)
    differ = [name for name in names if len({str(given.get(name)) for given in options.values()}) > 1]
    settings = [", ".join(f"{name} {options[run].get(name)}" for name in differ) for run in runs]
    return TunedSpec(label, tuple(runs), tuple(settings))


def _figure(plan: Plan, paper: Paper, name: str, models: list[str]) -> FigureSpec:
    assert paper.tables
    keys = paper.tables.figures[name]
    shown = kind_of(keys.kind.name).runs
    runs = keys.drawn
    if shown == "all":
        runs = [model for model in models if plan.models[model].released is None]
    elif shown == "tuned":
        runs = [paper.tables.tuned[label][0] for label in keys.labels]
    compared = [*runs, *([keys.baseline] if keys.baseline else [])]
    feeds = plan.parameters.feeders(paper).items()
    made = plan.table.get(("figure_data", f"{paper.name}/{name}"))
    data = plan.parameters.corpora.get(keys.dataset)
    return FigureSpec(
        **{**_said(keys, FigureEntry), "kind": resolved("figure", keys.kind)},
        id=name,
        runs=tuple(runs),
        sizes=sizes_of(keys.runs),
        references=tuple(
            (run, row) for row, (run, under) in feeds if run in compared and under == keys.protocol
        ),
        encoders=tuple(dict.fromkeys(plan.parameters.get(run, "encoder") for run in compared)),
        data=str(made.folder) if made else "",
        photographs=bool(data and plan.parameters.datasets[data.dataset].photographs),
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
                **_said(keys, ClaimEntry),
            )


def _model(plan: Plan, model: str, seed: int) -> TrainedSpec:
    """One model of one seed, and what its manifest must say."""
    if seed in plan.models[model].recorded:
        return TrainedSpec(model, seed, True, study=str(plan.study.folder))
    evaluation = plan.table["evaluation", seeded(model, seed)]
    run = plan.owner(evaluation.inputs["run"])
    assert run
    made_by = {
        name: MakerSpec(str(made.targets[0]), value_digest(to_dict(made.spec)), standing_code(made))
        for name, made in (("run", run), ("evaluation", evaluation))
    }
    pictures = plan.table.get(("pictures", evaluation.inputs["corpus"].name))
    return TrainedSpec(
        model,
        seed,
        plan.models[model].released is None,
        str(run.folder),
        str(evaluation.folder),
        made_by,
        pictures=str(pictures.folder) if pictures else "",
    )


def _sources(plan: Plan, models: list[str]) -> Iterator[tuple[str, str]]:
    """Citations of the models' components, where they have one."""
    used: dict[tuple[str, str], None] = {}
    for name in models:
        spec = plan.models[name].spec
        evaluation = plan.table.get(("evaluation", seeded(name, spec.init_seed)))
        corpus = plan.owner(evaluation.inputs["corpus"]) if evaluation else None
        reader = plan.parameters.readers[plan.parameters.corpora[spec.dataset].dataset]
        used |= dict.fromkeys(
            [
                ("loss", spec.loss.name),
                ("optimiser", spec.optimiser.name),
                *spec.model.components,
                spec.encoder.component,
                ("reader", corpus.spec.reader.name if corpus else reader.name),
            ]
        )
    for kind in components.KINDS:
        for of, name in used:
            if of == kind and (citation := components.describe(kind, name).citation):
                yield f"{kind.capitalize()} {name}", citation
