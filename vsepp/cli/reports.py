"""From the plan to the specs of the report: which files make each table and figure."""

from __future__ import annotations

import json
from collections.abc import Callable

from vsepp.config.plan import Plan
from vsepp.config.resolve import HARMLESS
from vsepp.config.schema import FigureKeys
from vsepp.reporting.specs import (
    ContextSpec,
    FigureSpec,
    GroupSpec,
    ReportSpec,
    RowSpec,
    SeriesSpec,
    TableSpec,
)

Files = Callable[[str], list[str]]
"""Run id → its files, one for each seed; none for a run that is not part of the plan."""


def report_spec(plan: Plan, metrics: Files, histories: Files) -> ReportSpec:
    """Tables and figures that the preset's report holds, in its order.

    Parameters
    ----------
    plan
        The plan.
    metrics, histories
        Where a run's `metrics.json` and `history.csv` are.
    """
    tables = plan.parameters.tables
    names = plan.parameters.preset.tables
    return ReportSpec(
        context=context_spec(plan),
        published=str(plan.parameters.published),
        tables=tuple(table_spec(plan, name, metrics) for name in names if name in tables.tables),
        figures=tuple(
            figure_spec(plan, name, metrics, histories) for name in names if name in tables.figures
        ),
    )


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


def table_spec(plan: Plan, name: str, metrics: Files) -> TableSpec:
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
            metrics=tuple(metrics(run)) if run else (),
            released=tuple(metrics(released[run])) if run in released else (),
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


def figure_spec(plan: Plan, name: str, metrics: Files, histories: Files) -> FigureSpec:
    """One figure: its runs, and their curves or metrics."""
    keys = plan.parameters.tables.figures[name]
    files = histories if keys.kind == "curves" else metrics
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


def _series(keys: FigureKeys, files: Files) -> list[SeriesSpec]:
    if isinstance(keys.runs, dict):
        return [
            SeriesSpec(run, keys.labels[0], tuple(files(run)), size)
            for size, run in sorted(keys.runs.items())
        ]
    return [
        SeriesSpec(run, label, tuple(files(run))) for run, label in zip(keys.runs, keys.labels, strict=True)
    ]
