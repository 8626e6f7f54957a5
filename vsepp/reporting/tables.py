"""Tables 1–4: the paper's numbers and ours, cell by cell, unrounded."""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from vsepp.errors import VseppError
from vsepp.reporting import filters
from vsepp.reporting.origins import MARK, Origin, dirty_note, dirty_steps
from vsepp.reporting.published import read_published
from vsepp.reporting.records import read_metrics
from vsepp.reporting.specs import ContextSpec, GroupSpec, RowSpec, TableSpec


@dataclass(frozen=True)
class Cell:
    """One metric of one row. Recalls in per cent; `None` where there is no number."""

    paper: float | None
    ours: float | None = None
    """Mean over the seeds."""
    sd: float | None = None
    """Sample standard deviation over the seeds; `None` with one seed."""
    released: float | None = None
    """Of the authors' own checkpoint, evaluated here; it is in no comparison for the best."""
    paper_best: bool = False
    ours_best: bool = False
    mark: str = ""
    """Letter of the note that the printed number carries."""


@dataclass(frozen=True)
class Row:
    """One row: what was trained or quoted, and its cells."""

    number: str
    kind: str
    """`trained` or `quoted`."""
    system: str
    label: str
    """The system with its encoder and fine-tuning, as the paper writes it."""
    citation: str
    encoder: str
    finetuned: bool
    dataset: str
    trainset: str
    trainset_label: str
    """As printed: `?` where it is not known, `(1 fold)` where the rows around it average over five."""
    protocol: str
    run: str | None
    seeds: int
    """Trained models that the numbers are means over; 0 means not run, or quoted."""
    cells: dict[str, Cell]
    fold_size: int | None = None
    n_images: int | None = None
    mark: str = ""
    """Letter of the note on the row."""
    origins: tuple[Origin, ...] = ()
    """Of our numbers, one for each seed."""
    released_origins: tuple[Origin, ...] = ()
    """Of the numbers of the authors' own checkpoint."""

    @property
    def status(self) -> str:
        """`quoted`, `run` or `not run`."""
        if self.kind == "quoted":
            return "quoted"
        return "run" if self.seeds else "not run"

    @property
    def released(self) -> bool:
        """Whether the authors' own checkpoint was evaluated for it."""
        return any(cell.released is not None for cell in self.cells.values())

    @property
    def all_origins(self) -> tuple[Origin, ...]:
        """Of our numbers and of those of the authors' own checkpoint."""
        return (*self.origins, *self.released_origins)

    @property
    def dirty_mark(self) -> str:
        """`MARK` where no commit holds all that is behind the row's numbers; else empty."""
        return MARK if dirty_steps(self.all_origins) else ""


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
    context: ContextSpec
    groups: tuple[Group, ...]
    notes: tuple[tuple[str, str], ...]
    """Letter or sign → text."""

    @property
    def rows(self) -> Iterator[Row]:
        """All rows in the paper's order."""
        return (row for group in self.groups for row in group.rows)

    @property
    def name(self) -> str:
        """`Table 1`."""
        return f"Table {self.spec.number}"

    @property
    def not_run(self) -> int:
        """How many trained rows have no numbers of ours."""
        return sum(row.status == "not run" for row in self.rows)

    @property
    def released(self) -> bool:
        """Whether any row has numbers of a released checkpoint."""
        return any(row.released for row in self.rows)


def build_table(spec: TableSpec, context: ContextSpec, published: Path) -> Table:
    """Put the paper's numbers and ours beside each other.

    Parameters
    ----------
    spec
        Rows in order, with the metrics files that feed them.
    context
        What the captions say about the data.
    published
        Path of published.csv.

    Returns
    -------
    Table
        Best cells are marked per column and group, the paper's among the paper's numbers and ours among ours.
        Values that print alike count as equal, and all of them are marked.

    Raises
    ------
    VseppError
        When a row is not published, is fed under another protocol, or its metrics are missing or malformed.
    """
    cells = read_published(published)
    notes: list[tuple[str, str]] = []
    groups = tuple(_group(spec, group, context, cells, published, notes) for group in spec.groups)
    if steps := dirty_steps(origin for group in groups for row in group.rows for origin in row.all_origins):
        notes.append((MARK, dirty_note(steps)))
    return Table(spec, context, groups, tuple(notes))


def to_frame(table: Table) -> pd.DataFrame:
    """A table as one wide frame, unrounded: `paper_*`, `ours_*` (mean), `sd_*` (sample) and `released_*`.

    `ours_uncommitted` and `released_uncommitted` name the steps behind the numbers whose code or parameters no commit holds.
    """
    context = table.context
    records = []
    for group in table.groups:
        for row in group.rows:
            record = {
                "table": table.spec.number,
                "group": group.heading,
                "row": row.number,
                "kind": row.kind,
                "status": row.status,
                "system": row.system,
                "encoder": context.in_paper(row.encoder) if row.encoder else "",
                "finetuned": {True: "yes", False: "no"}[row.finetuned] if row.kind == "trained" else "",
                "trainset": row.trainset,
                "protocol": row.protocol,
                "run": row.run or "",
                "ours_dataset": context.here(row.dataset) if row.seeds else "",
                "ours_encoder": context.here(row.encoder) if row.seeds else "",
                "ours_fold_size": row.fold_size,
                "ours_n_images": row.n_images,
                "n_seeds": row.seeds,
                "ours_uncommitted": " ".join(dirty_steps(row.origins)),
                "released_uncommitted": " ".join(dirty_steps(row.released_origins)),
            }
            for source in ("paper", "ours", "sd", "released"):
                record |= {f"{source}_{name}": getattr(cell, source) for name, cell in row.cells.items()}
            records.append(record)
    frame = pd.DataFrame.from_records(records)
    return frame.astype({"ours_fold_size": "Int64", "ours_n_images": "Int64"})


def _group(
    spec: TableSpec,
    group: GroupSpec,
    context: ContextSpec,
    published: pd.DataFrame,
    path: Path,
    notes: list[tuple[str, str]],
) -> Group:
    rows = []
    for row_spec in group.rows:
        key = (spec.number, row_spec.row)
        if key not in published.index:
            raise VseppError(
                f"{path}: no row {row_spec.row} in table {spec.number}, which {spec.id} asks for"
            )
        rows.append(_row(spec, row_spec, context, published.loc[key], notes))
    return Group(group.heading, _measured_on(rows), _mark_best(_mark_single_folds(rows), spec.cells))


def _row(
    spec: TableSpec, row: RowSpec, context: ContextSpec, published: pd.Series, notes: list[tuple[str, str]]
) -> Row:
    if (row.metrics or row.released) and published["kind"] == "quoted":
        raise VseppError(f"{spec.id}, row {row.row}: it is quoted from the paper, but run {row.run} feeds it")
    if row.protocol is not None and row.protocol != published["protocol"]:
        raise VseppError(
            f"{spec.id}, row {row.row}: run {row.run} feeds it under protocol {row.protocol}, but the "
            f"paper's numbers are {published['protocol']}; correct `feeds` of the run"
        )
    metrics = read_metrics(row.metrics, published["protocol"])
    released = read_metrics(row.released, published["protocol"])
    _require_same_images(spec, row, metrics, released)
    at, mark = _note(published["note"], spec.cells, notes)
    cells = {}
    for name in spec.cells:
        ours, theirs = metrics[name], released[name]
        cells[name] = Cell(
            paper=None if pd.isna(published[name]) else float(published[name]),
            ours=float(ours.mean()) if len(ours) else None,
            sd=float(ours.std(ddof=1)) if len(ours) > 1 else None,
            released=float(theirs.mean()) if len(theirs) else None,
            mark=mark if at == name else "",
        )
    first = metrics.iloc[0] if len(metrics) else None
    return Row(
        number=row.row,
        kind=published["kind"],
        system=published["system"],
        label=_label(published, context),
        citation=published["citation"],
        encoder=published["encoder"],
        finetuned=published["finetuned"] == "yes",
        dataset=published["dataset"],
        trainset=published["trainset"],
        trainset_label=published["trainset"] or "?",
        protocol=published["protocol"],
        run=row.run,
        seeds=len(metrics),
        cells=cells,
        fold_size=None if first is None or pd.isna(first["fold_size"]) else int(first["fold_size"]),
        n_images=None if first is None else int(first["n_images"]),
        mark="" if at else mark,
        origins=tuple(metrics["origin"]),
        released_origins=tuple(released["origin"]),
    )


def _require_same_images(
    spec: TableSpec, row: RowSpec, metrics: pd.DataFrame, released: pd.DataFrame
) -> None:
    """Refuse a released checkpoint's scores of other test images than ours."""
    if metrics.empty or released.empty:
        return
    for key in ("fold_size", "n_images", "n_captions"):
        ours, theirs = metrics[key].iloc[0], released[key].iloc[0]
        if ours != theirs and not (pd.isna(ours) and pd.isna(theirs)):
            raise VseppError(
                f"{spec.id}, row {row.row}: {key} is {ours} in {metrics['file'].iloc[0]} and {theirs} in "
                f"{released['file'].iloc[0]}; evaluate the released checkpoint on the test images of run {row.run}"
            )


def _label(published: pd.Series, context: ContextSpec) -> str:
    """The paper's way: the usual encoder goes unnamed, `VSE++ (ResNet152, fine-tuned)`."""
    parts = []
    if published["encoder"] not in ("", context.default_encoder):
        parts.append(context.in_paper(published["encoder"]))
    if published["finetuned"] == "yes":
        parts.append("fine-tuned")
    return published["system"] + (f" ({', '.join(parts)})" if parts else "")


def _note(text: str, cells: tuple[str, ...], notes: list[tuple[str, str]]) -> tuple[str, str]:
    """Register a note and give where it stands (a cell's name, or empty for the row) and its letter.

    A note that starts with a metric's name and a colon (`i2t_r10: ...`) stands at that cell.
    """
    if not text:
        return "", ""
    at, colon, rest = text.partition(":")
    if not (colon and at in cells):
        at, rest = "", text
    mark = string.ascii_lowercase[len(notes)]
    notes.append((mark, rest.strip()))
    return at, mark


def _mark_single_folds(rows: list[Row]) -> list[Row]:
    if {row.protocol for row in rows} != {"1K", "5x1K"}:
        return rows
    return [
        replace(row, trainset_label=f"{row.trainset_label} (1 fold)") if row.protocol == "1K" else row
        for row in rows
    ]


def _mark_best(rows: list[Row], names: tuple[str, ...]) -> tuple[Row, ...]:
    best: dict[tuple[str, str], str] = {}
    for name in names:
        choose = min if filters.lower_is_better(name) else max
        for source in ("paper", "ours"):
            values = [value for row in rows if (value := getattr(row.cells[name], source)) is not None]
            if values:
                best[name, source] = filters.number(choose(values))

    def mark(name: str, cell: Cell) -> Cell:
        def wins(source: str, value: float | None) -> bool:
            return value is not None and filters.number(value) == best[name, source]

        return replace(cell, paper_best=wins("paper", cell.paper), ours_best=wins("ours", cell.ours))

    return tuple(replace(row, cells={name: mark(name, row.cells[name]) for name in names}) for row in rows)


def _measured_on(rows: list[Row]) -> str:
    """The test images behind our numbers; rows that differ from most are named."""
    places: dict[str, list[str]] = {}
    for row in rows:
        if row.n_images:
            places.setdefault(_place(row), []).append(row.number)
    if not places:
        return ""
    usual = max(places, key=lambda place: len(places[place]))
    parts = [usual]
    for place, numbers in places.items():
        if place != usual:
            parts.append(f"{'row' if len(numbers) == 1 else 'rows'} {filters.listing(numbers)}: {place}")
    return "; ".join(parts)


def _place(row: Row) -> str:
    images, fold = row.n_images or 0, row.fold_size
    if row.protocol == "5K" or not fold:
        return f"all {filters.count(images)} test images"
    if row.protocol == "1K":
        return f"first {filters.count(fold)} test images"
    return f"mean of {images // fold} folds of {filters.count(fold)} test images"
