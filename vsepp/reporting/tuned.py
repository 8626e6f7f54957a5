"""Methods that were tuned: which of its settings stands for each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vsepp.reporting import filters
from vsepp.reporting.figures import kind_of
from vsepp.reporting.records import Records, of_shared_seeds, read_history
from vsepp.reporting.specs import ReportSpec, RowSpec, TunedSpec


def choose(spec: ReportSpec, records: Records) -> ReportSpec:
    """Let one setting of each tuned method stand for it: the one with the highest rsum on validation, averaged over the seeds.

    That of a training is its best epoch's, whose weights are the ones that are evaluated.
    """
    best = {tuned.label: _best(tuned, records) for tuned in spec.tuned}

    def row(given: RowSpec) -> RowSpec:
        if given.tuned is None:
            return given
        run, setting = best[given.tuned]
        return replace(
            given, run=run, own={**given.own, "label": ", ".join(filter(None, (given.tuned, setting)))}
        )

    tables = [
        replace(
            table, groups=tuple(replace(group, rows=tuple(map(row, group.rows))) for group in table.groups)
        )
        for table in spec.tables
    ]
    figures = list(spec.figures)
    for place, figure in enumerate(figures):
        if kind_of(figure.kind.name).runs == "tuned":
            among = [tuned for tuned in spec.tuned if tuned.label in figure.labels]
            trainings = sum(len(records.get(run, ())) for tuned in among for run in tuned.runs)
            tried = filters.listing(sorted({len(tuned.runs) for tuned in among}))
            caption = (
                f"{figure.caption} Each method with the setting, of {tried}, that has the highest rsum on validation, its mean "
                f"over the seeds; {trainings} trainings in all."
            )
            runs = tuple(best[label][0] for label in figure.labels)
            figures[place] = replace(figure, runs=runs, caption=caption)
    return replace(spec, tables=tuple(tables), figures=tuple(figures))


def _best(tuned: TunedSpec, records: Records) -> tuple[str, str]:
    """The run that stands for a method, and its setting in words; the first one where none was run."""
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
