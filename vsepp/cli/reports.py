"""From the plan to the specs of the report: which files make each table and figure."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from vsepp.config.artefacts import metrics_folder, model_artefacts, run_folder
from vsepp.config.plan import Plan
from vsepp.config.resolve import HARMLESS
from vsepp.config.schema import FigureKeys
from vsepp.provenance.digests import value_digest
from vsepp.reporting.specs import (
    ContextSpec,
    FigureSpec,
    GroupSpec,
    MakerSpec,
    ReportSpec,
    RowSpec,
    SeriesSpec,
    TableSpec,
    TrainedSpec,
)


def report_spec(plan: Plan) -> ReportSpec:
    """Tables and figures that the preset's report holds, in its order."""
    tables = plan.parameters.tables
    names = plan.parameters.preset.tables
    return ReportSpec(
        context=context_spec(plan),
        published=str(plan.parameters.published),
        tables=tuple(table_spec(plan, name) for name in names if name in tables.tables),
        figures=tuple(figure_spec(plan, name) for name in names if name in tables.figures),
        models=tuple(
            trained_spec(plan, model, seed) for model in plan.models for seed in plan.seeds_of(model)
        ),
    )


def trained_spec(plan: Plan, model: str, seed: int) -> TrainedSpec:
    """One model of one seed, and what its provenance must say."""
    return TrainedSpec(
        model=model,
        seed=seed,
        run=str(run_folder(plan, model, seed)),
        metrics=str(metrics_folder(plan, model, seed)),
        made_by={
            name: MakerSpec(
                target=str(part.target),
                spec_digest=value_digest(json.loads(json.dumps(dict(part.spec or {})))),
                code_digest=part.code,
            )
            for name, part in model_artefacts(plan, model, seed).items()
        },
        trained=model in plan.runs,
    )


def model_metrics(plan: Plan, model: str) -> list[str]:
    """`metrics.json` of a model, one for each seed; none for one that is not part of the plan."""
    if model not in plan.models:
        return []
    return [str(metrics_folder(plan, model, seed) / "metrics.json") for seed in plan.seeds_of(model)]


def run_histories(plan: Plan, run: str) -> list[str]:
    """`history.csv` of a run, one for each seed; none for one that is not part of the plan."""
    if run not in plan.runs:
        return []
    return [str(run_folder(plan, run, seed) / "history.csv") for seed in plan.seeds]


def context_spec(plan: Plan) -> ContextSpec:
    """What all captions say: whose data, which variant, which seeds."""
    preset, tables = plan.parameters.preset, plan.parameters.tables
    corpora = {
        role: plan.parameters.datasets[keys.dataset].title for role, keys in plan.parameters.corpora.items()
    }
    encoders = {role: keys.title for role, keys in preset.encoders.items()}
    overridden = {key: value for key, value in plan.parameters.overrides.items() if key not in HARMLESS}
    return ContextSpec(
        preset=plan.preset,
        variant=plan.variant,
        fidelity=plan.parameters.settings.fidelity,
        title=f"VSE++ on {preset.title}",
        summary=(
            f"{len(plan.runs)} runs of VSE0, VSE++, Order0 and Order++ on {preset.title}, beside the numbers of "
            "Faghri et al., VSE++: Improving Visual-Semantic Embeddings with Hard Negatives."
            + (f" Overridden: {json.dumps(overridden)}." if overridden else "")
        ),
        data_note=preset.data_note.strip(),
        seeds=tuple(plan.seeds),
        fold_size=preset.evaluation.fold_size,
        titles={**corpora, **encoders},
        paper_titles=dict(tables.titles),
        default_encoder=tables.default_encoder,
    )


def table_spec(plan: Plan, name: str) -> TableSpec:
    """One table: its rows, and the metrics of the runs that feed them."""
    keys = plan.parameters.tables.tables[name]
    feeders = {
        row: (run, protocol)
        for run, values in plan.parameters.all_runs.items()
        for row, protocol in values["feeds"].value.items()
    }

    released = {plan.parameters.released[name].run: name for name in plan.released}

    def row_spec(row: str) -> RowSpec:
        run, protocol = feeders.get(row, (None, None))
        return RowSpec(
            row=row,
            run=run,
            protocol=protocol,
            metrics=tuple(model_metrics(plan, run)) if run else (),
            released=tuple(model_metrics(plan, released[run])) if run in released else (),
        )

    return TableSpec(
        id=name,
        title=keys.title,
        caption=keys.caption,
        dataset=keys.dataset,
        columns=tuple(plan.parameters.tables.columns),
        groups=tuple(GroupSpec(group.heading, tuple(map(row_spec, group.rows))) for group in keys.groups),
        trainset=keys.trainset,
    )


def figure_spec(plan: Plan, name: str) -> FigureSpec:
    """One figure: its runs, and their curves or metrics."""
    keys = plan.parameters.tables.figures[name]
    files = partial(run_histories if keys.kind == "curves" else model_metrics, plan)
    baseline = None
    if keys.baseline:
        baseline = SeriesSpec(keys.baseline, keys.labels[-1], tuple(files(keys.baseline)))
    return FigureSpec(
        id=name,
        kind=keys.kind,
        title=keys.title,
        caption=keys.caption,
        dataset=keys.dataset,
        metrics=tuple(keys.metrics),
        series=tuple(_series(keys, files)),
        baseline=baseline,
        protocol=keys.protocol,
    )


def _series(keys: FigureKeys, files: Callable[[str], list[str]]) -> list[SeriesSpec]:
    if isinstance(keys.runs, dict):
        return [
            SeriesSpec(run, keys.labels[0], tuple(files(run)), size)
            for size, run in sorted(keys.runs.items())
        ]
    return [
        SeriesSpec(run, label, tuple(files(run))) for run, label in zip(keys.runs, keys.labels, strict=True)
    ]
