"""Tables: the paper's numbers and ours, cell by cell, unrounded."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vsepp.errors import VseppError
from vsepp.reporting import filters
from vsepp.reporting.claims import Verdict
from vsepp.reporting.published import Published
from vsepp.reporting.records import Record, Records, dirty_steps, marks, score, scores, trouble_of
from vsepp.reporting.report_specs import ContextSpec, RowSpec, TableSpec

_COLUMNS = (
    ("paper", "paper", "value"),
    ("ours", "ours", "value"),
    ("sd", "ours", "sd"),
    ("released", "released", "value"),
    ("paper_sd", "paper", "sd"),
)
"""Columns of a CSV: what their names begin with, the source, and what is printed of it."""


@dataclass
class Cell:
    """One metric of one row from one source."""

    value: float | None = None
    """Mean over the seeds, recalls in per cent; `None` where there is no number."""
    sd: float | None = None
    """Sample standard deviation over the seeds, `None` with one seed; of the paper what it prints."""
    mark: str = ""
    """Letter of the note that the number carries."""
    best: bool = False
    """Whether it is the best of its column and group from its source."""
    tint: float | None = None
    """The tint: from 0, the worst of its column and group from its source, to 1, the best."""


@dataclass(frozen=True)
class Gap:
    """How far a row is ahead of another one of its table, where a claim of the paper says so."""

    over: str
    """The other row's system and number, or what a row of one's own is called."""
    verdicts: dict[str, Verdict]
    """Metric → the claim's verdict."""


@dataclass(frozen=True)
class Row:
    """One row: what was trained or quoted, and its cells."""

    spec: RowSpec
    facts: dict[str, str]
    """Columns of published.csv: `kind` (`trained`, `quoted`, or `own` where no paper has the row), `system`, `encoder` ...,
    with `label`, the system with its encoder and fine-tuning, and `trainset_label`, both as the paper prints them, and `at`,
    the cell at which the row's note stands."""
    cells: dict[str, dict[str, Cell]]
    """Source → metric → number. Sources: `ours`; `paper`; `released`, the authors' own checkpoint evaluated here."""
    mark: str
    """Letter of the note on the row."""
    ours: Sequence[Record]
    """What our numbers are means over; none where it was not run, or quoted."""
    released: Sequence[Record]
    """The authors' own checkpoint, where it was evaluated."""
    made: str = ""
    """Encoder and test images of our numbers, and the commits of kept ones."""
    trouble: str = ""
    """Why our numbers say nothing of the method: `collapsed`, `ranks like chance`; else empty."""
    gaps: tuple[Gap, ...] = ()

    @property
    def status(self) -> str:
        """`quoted`, `run` or `not run`."""
        if self.facts["kind"] == "quoted":
            return "quoted"
        return "run" if self.ours else "not run"

    @property
    def signs(self) -> str:
        """What `vsepp.reporting.records.marks` puts at the row's numbers."""
        return "".join(marks([*self.ours, *self.released]))


@dataclass(frozen=True)
class Group:
    """Rows under one heading."""

    heading: str
    measured_on: str
    """Which test images our numbers come from; empty where nothing was run."""
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table, ready to be written."""

    spec: TableSpec
    groups: tuple[Group, ...]
    notes: tuple[tuple[str, str], ...]
    """Letter or sign → text."""
    caption: str

    @property
    def rows(self) -> Iterator[Row]:
        """All rows in order."""
        return (row for group in self.groups for row in group.rows)

    @property
    def has_seeds(self) -> bool:
        """Whether any of our numbers is a mean over several seeds."""
        return any(len(row.ours) > 1 for row in self.rows)

    @property
    def published(self) -> bool:
        """Whether a paper has any of its rows."""
        return any(row.facts["kind"] != "own" for row in self.rows)


def build_table(
    spec: TableSpec,
    context: ContextSpec,
    published: Published,
    records: Records,
    verdicts: Sequence[Verdict] = (),
) -> Table:
    """Put the paper's numbers and ours beside each other.

    Parameters
    ----------
    spec
        Rows in order, with the runs that feed them.
    context
        What the captions say about the data.
    published
        The paper's rows.
    records
        Of each model. A row whose run is not there was not run.
    verdicts
        On the paper's claims: a claimed gain of one row over another one of the table stands below the row.

    Returns
    -------
    Table
        Best cells are marked per column and group, the paper's among the paper's numbers and ours among ours, without rows in
        trouble. Values that print alike count as equal, and all of them are marked.

    Raises
    ------
    VseppError
        When a row is not published or fed under another protocol, and as in `scores`.
    """
    notes: list[tuple[str, str]] = []
    rows_of_groups: list[list[Row]] = []
    for group in spec.groups:
        rows_of_groups.append([])
        for row_spec in group.rows:
            facts = _facts(spec, row_spec, context, published)
            mark = string.ascii_lowercase[len(notes)] if facts["note"] else ""
            rows_of_groups[-1].append(_row(spec, row_spec, facts, mark, records, context))
            if mark:
                notes.append((mark, facts["note"]))
        _compare(spec, rows_of_groups[-1])
    rows = [row for rows_of_group in rows_of_groups for row in rows_of_group]
    gaps = _gaps(rows, verdicts)
    groups = tuple(
        Group(
            group.heading,
            _measured_on(rows_of_group),
            tuple(replace(row, gaps=gaps.get(row.spec.row, ())) for row in rows_of_group),
        )
        for group, rows_of_group in zip(spec.groups, rows_of_groups, strict=True)
    )
    notes += marks([record for row in rows for record in (*row.ours, *row.released)]).items()
    return Table(spec, groups, tuple(notes), _caption(spec, context, rows))


def _facts(spec: TableSpec, row: RowSpec, context: ContextSpec, published: Published) -> dict[str, str]:
    """What published.csv says of a row, its numbers included, or the spec of one that no paper has."""
    facts = published.get((spec.id, row.row)) or published.get(("", row.row))
    if row.own:
        absent = dict.fromkeys((*spec.cells, "citation", "note"), "")
        facts = {**absent, "kind": "own", "protocol": row.protocol or "", **row.own}
    elif facts is None:
        raise VseppError(f"{spec.id}: row {row.row} is not in published.csv")
    elif (row.run or row.released) and facts["kind"] == "quoted":
        raise VseppError(f"{spec.id}, row {row.row}: it is quoted from the paper, but run {row.run} feeds it")
    elif row.protocol is not None and row.protocol != facts["protocol"]:
        raise VseppError(
            f"{spec.id}, row {row.row}: run {row.run} feeds it under protocol {row.protocol}, but the "
            f"paper's numbers are {facts['protocol']}; correct `feeds` of the run"
        )
    # The paper's way: the usual encoder goes unnamed, `VSE++ (ResNet152, fine-tuned)`.
    parts = [] if facts["encoder"] in ("", context.default_encoder) else [context.in_paper(facts["encoder"])]
    parts += ["fine-tuned"] if facts["finetuned"] == "yes" else []
    label = facts["system"] + (f" ({', '.join(parts)})" if parts else "")
    # A note that starts with a metric's name and a colon (`i2t_r10: ...`) stands at that cell, any other at the row.
    at, _, text = facts["note"].partition(":")
    note = {"at": at, "note": text.strip()} if at in spec.cells else {"at": ""}
    return {"label": label, "trainset_label": facts["trainset"] or "?", **facts, **note}


def _row(
    spec: TableSpec, row: RowSpec, facts: dict[str, str], mark: str, records: Records, context: ContextSpec
) -> Row:
    ours, released = records.get(row.run or "", []), records.get(row.released or "", [])
    protocol = facts["protocol"]
    scores([*ours, *released], protocol)  # refuses what cannot stand in one row
    return Row(
        row,
        facts,
        {
            "ours": {name: _measured(ours, protocol, name) for name in spec.cells},
            "paper": {name: _printed(facts, name, row, mark) for name in spec.cells},
            "released": {name: Cell(_measured(released, protocol, name).value) for name in spec.cells},
        },
        "" if facts["at"] else mark,
        ours,
        released,
        made=_made(ours, context.here(facts["encoder"]), protocol) if ours else "",
        trouble=trouble_of(ours, protocol),
    )


def _measured(records: Sequence[Record], protocol: str, name: str) -> Cell:
    """Mean and deviation over the seeds."""
    if not records:
        return Cell()
    values = [score(record, protocol, name) for record in records]
    return Cell(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)


def _printed(facts: dict[str, str], name: str, row: RowSpec, mark: str) -> Cell:
    """A number of published.csv, with the note that stands at it."""

    def number(column: str) -> float | None:
        text = facts.get(column)
        try:
            return float(text) if text else None
        except ValueError:
            raise VseppError(
                f"published.csv, row {row.row}: {column} is {text!r}, expected a number or nothing"
            ) from None

    return Cell(number(name), number(f"{name}_sd"), mark=mark if facts["at"] == name else "")


def _compare(spec: TableSpec, rows: Sequence[Row]) -> None:
    """Mark the best of each column of a group, from each source, and tint all; name single folds beside means over five."""
    for source in ("ours", "paper"):
        sound = [row for row in rows if source == "paper" or not row.trouble]
        for name in spec.cells:
            column = [cell for row in sound if (cell := row.cells[source][name]).value is not None]
            values = [cell.value for cell in column if cell.value is not None]
            if not values:
                continue
            worst, best = min(values), max(values)
            if filters.lower_is_better(name):
                worst, best = best, worst
            for cell, value in zip(column, values, strict=True):
                cell.best = filters.number(value) == filters.number(best)
                if spec.tint and best != worst:
                    cell.tint = (value - worst) / (best - worst)
    if {row.facts["protocol"] for row in rows} == {"1K", "5x1K"}:
        for row in rows:
            row.facts["trainset_label"] += " (1 fold)" if row.facts["protocol"] == "1K" else ""


def _gaps(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> dict[str, tuple[Gap, ...]]:
    """Row → claimed gains of it over other rows."""
    fed: dict[tuple[str | None, str | None], Row] = {
        (row.spec.run, row.facts["protocol"]): row for row in rows if row.ours
    }
    gaps: dict[str, dict[str, Gap]] = {}
    for verdict in verdicts:
        claim = verdict.spec
        if claim.kind != "difference" or claim.sign < 0 or not verdict.images:
            continue
        ahead, behind = (fed.get((run, claim.protocol)) for run in claim.runs)
        if ahead and behind:
            spec, facts = behind.spec, behind.facts
            over = facts["label"] if spec.own else f"{facts['system']} ({spec.row})"
            gaps_of_row = gaps.setdefault(ahead.spec.row, {})
            gaps_of_row.setdefault(spec.row, Gap(over, {})).verdicts[claim.metric] = verdict
    return {row: tuple(gaps_of_row.values()) for row, gaps_of_row in gaps.items()}


def _measured_on(rows: list[Row]) -> str:
    """The test images behind our numbers; rows that differ from most are named."""
    places: dict[str, list[str]] = {}
    for row in rows:
        if row.ours:
            place = _place(row.ours[0], row.facts["protocol"])
            places.setdefault(place, []).append(row.facts["label"] if row.spec.own else row.spec.row)
    usual = max(places, key=lambda place: len(places[place]), default="")
    others = [
        f"{'row' if len(names) == 1 else 'rows'} {filters.listing(names)}: {place}"
        for place, names in places.items()
        if place != usual
    ]
    return "; ".join([usual, *others])


def _made(ours: Sequence[Record], encoder: str, protocol: str) -> str:
    """What stands below a row of ours; what is kept may come from any commit, and names it."""
    said = f"{encoder}, {_place(ours[0], protocol)}"
    kept = any(record.spec.study for record in ours)
    return f"{said}, trained at {_commits(ours)}" if kept else said


def _commits(ours: Sequence[Record]) -> str:
    return filters.listing(sorted({filters.commit(*record.trained) for record in ours}))


def _place(record: Record, protocol: str) -> str:
    measured = record.metrics[protocol]
    images, fold = measured["n_images"], measured["fold_size"]
    if protocol == "5K":
        return f"all {filters.count(images)} test images"
    if protocol == "1K":
        return f"first {filters.count(fold)} test images"
    return f"mean of {images // fold} folds of {filters.count(fold)} test images"


def _caption(spec: TableSpec, context: ContextSpec, rows: Sequence[Row]) -> str:
    """Caption, what plays the paper's roles here, and what was not run."""
    trained = [row for row in rows if row.status != "quoted"]
    parts = [spec.caption]
    seeds = sorted({len(row.ours) for row in trained if row.ours})
    if max(seeds, default=0) > 1:
        parts.append(f"Ours: mean ± sample standard deviation over {filters.listing(seeds)} seeds.")
    if trained and (swaps := context.swaps([spec.dataset, *(row.facts["encoder"] for row in trained)])):
        parts.append(f"Our rows use {filters.listing(swaps)}.")
    if missing := sum(not row.ours for row in trained):
        parts.append(f"Not run: {missing} of {len(trained)} trained rows.")
    return " ".join(parts)


def flat_rows(table: Table, context: ContextSpec) -> list[dict[str, Any]]:
    """A table for a CSV, unrounded: `paper_*`, `ours_*` (mean), `sd_*` (sample), `released_*` and
    `paper_sd_*`.

    `ours_uncommitted` and `released_uncommitted` name the steps behind the numbers whose code or parameters no commit holds.
    """
    records = []
    for group in table.groups:
        for row in group.rows:
            facts = row.facts
            measured = row.ours[0].metrics[facts["protocol"]] if row.ours else {}
            record = {
                "table": filters.numbered(table.spec.id).partition(" ")[2] or table.spec.id,
                "group": group.heading,
                "row": row.spec.row,
                "kind": facts["kind"],
                "status": row.status,
                "trouble": row.trouble,
                "system": facts["system"],
                "encoder": context.in_paper(facts["encoder"]),
                "finetuned": facts["finetuned"],
                "trainset": facts["trainset"],
                "protocol": facts["protocol"],
                "run": row.spec.run or "",
                "ours_dataset": context.here(facts["dataset"]) if row.ours else "",
                "ours_encoder": context.here(facts["encoder"]) if row.ours else "",
                "ours_fold_size": measured.get("fold_size"),
                "ours_n_images": measured.get("n_images"),
                "n_seeds": len(row.ours),
                "ours_commit": _commits(row.ours),
                "ours_uncommitted": " ".join(dirty_steps(row.ours)),
                "released_uncommitted": " ".join(dirty_steps(row.released)),
            }
            for column, source, part in _COLUMNS:
                record |= {
                    f"{column}_{name}": getattr(cell, part) for name, cell in row.cells[source].items()
                }
            records.append(record)
    return records
