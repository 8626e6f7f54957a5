"""From the plan to the spec of a report: which runs make each table and figure, and what the page says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from vsepp import components
from vsepp.config.artefacts import model_artefacts
from vsepp.config.plan import Plan
from vsepp.config.resolve import HARMLESS
from vsepp.config.schema import FigureKeys, OwnRow
from vsepp.provenance.digests import value_digest
from vsepp.reporting.filters import listing
from vsepp.reporting.specs import (
    ContextSpec,
    FigureSpec,
    GroupSpec,
    MakerSpec,
    PaperSpec,
    ReportSpec,
    RowSpec,
    TableSpec,
    TrainedSpec,
)
from vsepp.spec import from_dict


def report_spec(plan: Plan) -> ReportSpec:
    """Tables and figures that the preset's report holds, in its order."""
    parameters, names = plan.parameters, plan.parameters.preset.tables
    tables, figures = parameters.tables.tables, parameters.tables.figures
    return ReportSpec(
        context=_context(plan),
        published=str(parameters.published),
        tables=tuple(_table(plan, name) for name in names if name in tables),
        figures=tuple(_figure(name, figures[name]) for name in names if name in figures),
        models=tuple(_model(plan, model, seed) for model in plan.models for seed in plan.seeds_of(model)),
        sources=tuple(_sources(plan)),
    )


def _context(plan: Plan) -> ContextSpec:
    """What all captions say: whose data, which variant, which seeds."""
    parameters, preset, tables = plan.parameters, plan.parameters.preset, plan.parameters.tables
    data = {role: parameters.datasets[keys.dataset].title for role, keys in parameters.corpora.items()}
    encoders = {role: keys.title for role, keys in preset.encoders.items()}
    systems = listing(dict.fromkeys(run.spec.system for run in plan.runs.values()))
    changed = {key: value for key, value in parameters.overrides.items() if key not in HARMLESS}
    return ContextSpec(
        paper=PaperSpec(tables.paper.title, tables.paper.citation, tuple(tables.paper.compare)),
        preset=plan.preset,
        variant=plan.variant,
        fidelity=parameters.settings.fidelity,
        title=f"{tables.paper.short} on {preset.title}",
        summary=(
            f"{len(plan.runs)} runs of {systems} on {preset.title}, beside the numbers of {tables.paper.citation}."
            + (f" Overridden: {json.dumps(changed)}." if changed else "")
        ),
        data_note=preset.data_note.strip(),
        seeds=tuple(plan.seeds),
        fold_size=preset.evaluation.fold_size,
        titles={**data, **encoders},
        paper_titles=dict(tables.titles),
        default_encoder=tables.default_encoder,
    )


def _table(plan: Plan, name: str) -> TableSpec:
    keys = plan.parameters.tables.tables[name]
    groups = [GroupSpec(group.heading, tuple(_row(plan, row) for row in group.rows)) for group in keys.groups]
    columns = tuple(plan.parameters.tables.columns)
    return TableSpec(
        name, groups=tuple(groups), columns=columns, **keys.model_dump(exclude={"groups", "columns"})
    )


def _row(plan: Plan, row: str | OwnRow) -> RowSpec:
    """A published row, fed by the run that says so, or one of a run that no paper published."""
    runs = plan.parameters.all_runs
    if isinstance(row, str):
        fed = {run: feeds[row] for run, keys in runs.items() if row in (feeds := keys["feeds"].value)}
        run, protocol = next(iter(fed.items()), (None, None))
        released = [name for name in plan.released if plan.parameters.released[name].run == run]
        return RowSpec(row, run, protocol, next(iter(released), None))
    own = {key: runs[row.run][key].value for key in ("system", "encoder", "dataset", "trainset")}
    own["finetuned"] = "yes" if runs[row.run]["finetune_from"].value else "no"
    return RowSpec(row.run, row.run, row.protocol, own=own | ({"label": row.label} if row.label else {}))


def _figure(name: str, keys: FigureKeys) -> FigureSpec:
    by_size = dict(sorted(keys.runs.items())) if isinstance(keys.runs, Mapping) else {}
    runs = list(by_size.values() or keys.runs)
    values = keys.model_dump(exclude={"runs"}, exclude_none=True)
    return from_dict(FigureSpec, {"id": name, "runs": runs, "sizes": list(by_size), **values})


def _model(plan: Plan, model: str, seed: int) -> TrainedSpec:
    """One model of one seed, and what its provenance must say."""
    parts = model_artefacts(plan, model, seed)
    made_by = {
        name: MakerSpec(str(parts[name].target), value_digest(parts[name].spec), parts[name].code)
        for name in ("run", "evaluation")
    }
    folders = str(parts["run"].folder), str(parts["evaluation"].folder)
    return TrainedSpec(model, seed, *folders, made_by, trained=model in plan.runs)


def _sources(plan: Plan) -> Iterator[tuple[str, str]]:
    """Where the components come from that the models are made of: those that say so."""
    used: dict[str, dict[str, None]] = {kind: {} for kind in components.KINDS}
    for run in plan.models.values():
        for kind, name in (
            ("loss", run.spec.loss.name),
            ("similarity", run.spec.model.similarity.name),
            ("text encoder", run.spec.model.text.name),
            ("image encoder", run.spec.encoder.family),
            ("reader", plan.corpora[run.corpus].reader.name),
        ):
            used[kind][name] = None
    for kind, names in used.items():
        for name in names:
            if citation := components.describe(kind, name).citation:
                yield f"{kind.capitalize()} {name}", citation
