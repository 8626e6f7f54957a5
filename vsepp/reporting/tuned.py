"""Tuned methods: which setting stands for each method, and which methods the test set tells apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from vsepp.reporting import filters, groups
from vsepp.reporting.figures import kind_of
from vsepp.reporting.groups import Standing
from vsepp.reporting.records import Records, image_values, of_shared_seeds, read_history, trouble_of
from vsepp.reporting.report_specs import FigureSpec, ReportSpec, RowSpec, TableSpec, TunedSpec


def choose(spec: ReportSpec, records: Records) -> ReportSpec:
    """Let one setting of each tuned method stand for it: the one with the highest rsum on validation, averaged over the seeds.

    The rsum of a training is its best epoch's; the weights of that epoch are evaluated.
    """
    best = {tuned.label: _best(tuned, records) for tuned in spec.tuned}
    tables = tuple(_with_chosen_rows(table, best) for table in spec.tables)
    figures = tuple(_with_chosen_runs(figure, spec.tuned, best, records) for figure in spec.figures)
    return replace(spec, tables=tables, figures=figures)


def _best(tuned: TunedSpec, records: Records) -> tuple[str, str]:
    """The run that stands for a method, and its setting in words; the first run, without a setting, where none was run."""
    settings = dict(zip(tuned.runs, tuned.settings, strict=True))
    there = of_shared_seeds({run: records[run] for run in tuned.runs if run in records})
    level = {
        run: np.mean([max(read_history(record, "rsum").values()) for record in seeds])
        for run, seeds in there.items()
    }
    if not level:
        return tuned.runs[0], ""
    run = max(level, key=level.__getitem__)
    return run, settings[run]


def _with_chosen_rows(table: TableSpec, best: Mapping[str, tuple[str, str]]) -> TableSpec:
    def chosen(row: RowSpec) -> RowSpec:
        if row.tuned is None:
            return row
        run, setting = best[row.tuned]
        label = f"{row.tuned}, {setting}" if setting else row.tuned
        return replace(row, run=run, own={**row.own, "label": label})

    groups = tuple(replace(group, rows=tuple(map(chosen, group.rows))) for group in table.groups)
    return replace(table, groups=groups)


def _with_chosen_runs(
    figure: FigureSpec, tuned: Sequence[TunedSpec], best: Mapping[str, tuple[str, str]], records: Records
) -> FigureSpec:
    if kind_of(figure.kind.name).runs != "tuned":
        return figure
    among = [method for method in tuned if method.label in figure.labels]
    trainings = sum(len(records.get(run, ())) for method in among for run in method.runs)
    tried = filters.listing(sorted({len(method.runs) for method in among}))
    caption = (
        f"{figure.caption} Each method has the setting, of {tried}, with the highest rsum on validation, a mean "
        f"over the seeds; {trainings} trainings in all."
    )
    return replace(figure, runs=tuple(best[label][0] for label in figure.labels), caption=caption)


def standings(methods: Records, protocol: str, metric: str) -> list[Standing]:
    """Each method's level, the best first, and its differences to the others; see `vsepp.reporting.groups`.

    `methods`: label → a record per seed. Methods are compared on the seeds that all have; without such seeds, each pair
    on the seeds that both have.
    """
    shared = of_shared_seeds(methods)
    values = {
        label: {record.spec.seed: image_values(record, protocol, metric) for record in records}
        for label, records in shared.items()
    }
    trouble = {label: trouble_of(records, protocol) for label, records in shared.items()}
    return groups.standings({metric: values}, trouble)[metric]
