"""Tables: the paper's numbers and ours beside each other, unrounded for a CSV, and ready to be printed on a page and in LaTeX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vsepp.base.declared import FOLDS
from vsepp.base.errors import VseppError
from vsepp.report import entries, text
from vsepp.report.entries import ContextSpec, Feed, ReportSpec
from vsepp.report.models import MeasuredModel, Models, dirty_steps, mark
from vsepp.report.pairing import (
    Material,
    best_of,
    in_trouble,
    left_out,
    level,
    of_curriculum,
    require_one_test,
    sound,
    trouble_of,
)
from vsepp.report.published import Published

_COLUMNS = (
    ("paper", "paper", "value"),
    ("ours", "ours", "value"),
    ("sd", "ours", "sd"),
    ("released", "released", "value"),
    ("paper_sd", "paper", "sd"),
)
"""Columns of a CSV: the start of their names, the source, and the part of its cell."""


@dataclass
class Cell:
    """One metric of one row from one source."""

    value: float | None = None
    """Mean over the seeds, recalls in per cent; `None` where there is no number."""
    sd: float | None = None
    """Sample standard deviation over the seeds, `None` with one seed; the paper's as printed."""
    mark: str = ""
    """Letter of the note that the number carries."""
    best: bool = False
    """Whether it is the best of its column and group from its source."""
    tint: float | None = None
    """The tint: from 0, the worst of its column and group from its source, to 1, the best."""


@dataclass
class FilledRow:
    """One row: what was trained or quoted, and its cells."""

    id: str
    """Its number in published.csv; of a row of one's own its run, or its label where it has several."""
    run: str
    """The run that feeds it, run or not; empty where none does."""
    facts: dict[str, str]
    """Columns of published.csv: `kind` (`trained`, `quoted`, or `own` where no paper has the row), `system`, `encoder` ...,
    with `label`, the system with its encoder and fine-tuning, and `trainset_label`, both as the paper prints them; `at`, the cell at
    which the row's note stands; and `encoder_here`, what plays the encoder in this report."""
    cells: dict[str, dict[str, Cell]]
    """Source → metric → number. Sources: `ours`; `paper`; `released`, the authors' own checkpoint evaluated here."""
    mark: str
    """Letter of the note on the row."""
    ours: Sequence[MeasuredModel]
    """Models that our numbers are means over; none where the row was not run, or is quoted."""
    released: Sequence[MeasuredModel]
    """The authors' own checkpoint, where it was evaluated."""
    trouble: str
    """Why our numbers say nothing of the method, where no seed is sound: `collapsed`, `ranks like chance`; else empty."""
    left_out: str
    """Which seeds are left out of our numbers, and why; else empty."""

    @property
    def status(self) -> str:
        """`quoted`, `run` or `not run`."""
        if self.facts["kind"] == "quoted":
            return "quoted"
        return "run" if self.ours else "not run"

    @property
    def own(self) -> bool:
        """Whether no paper has it."""
        return self.facts["kind"] == "own"

    @property
    def models(self) -> set[str]:
        """Models whose numbers it shows."""
        return {model.name for model in (*self.ours, *self.released)}

    @property
    def sign(self) -> str:
        """What `vsepp.report.models.mark` puts at the row's numbers."""
        return mark([*self.ours, *self.released])

    @property
    def marks(self) -> tuple[str, ...]:
        """What stands at its number: the letter of its note, and its signs."""
        curriculum = text.OF_CURRICULUM if of_curriculum(self.ours) else ""
        return tuple(filter(None, (self.mark, self.sign, curriculum)))


@dataclass(frozen=True)
class FilledGroup:
    """Rows under one heading."""

    heading: str
    rows: tuple[FilledRow, ...]

    @property
    def measured_on(self) -> str:
        """What our numbers come from: the encoder, where all rows have one, and the test images, with rows that differ from most; empty
        where nothing was run."""
        rows: dict[str, list[str]] = {}
        encoders = dict[str, None]()
        for row in self.rows:
            if row.ours:
                images = _test_images(row.ours[0], row.facts["protocol"])
                rows.setdefault(images, []).append(row.facts["label"] if row.own else row.id)
                encoders[row.facts["encoder_here"]] = None
        usual = max(rows, key=lambda images: len(rows[images]), default="")
        others = [
            f"{text.named('row', names)}: {images}" for images, names in rows.items() if images != usual
        ]
        encoder = next(iter(encoders)) if len(encoders) == 1 else ""
        return "; ".join([", ".join(filter(None, (encoder, usual))), *others])


@dataclass(frozen=True)
class FilledTable:
    """A table, ready to be written."""

    id: str
    """The name of its files."""
    spec: entries.Table
    groups: tuple[FilledGroup, ...]
    notes: tuple[tuple[str, str], ...]
    """Letter or sign → text."""
    caption: str

    @property
    def rows(self) -> Iterator[FilledRow]:
        """All rows in order."""
        return (row for group in self.groups for row in group.rows)

    @property
    def has_seeds(self) -> bool:
        """Whether any of our numbers is a mean over several seeds."""
        return any(len(row.ours) > 1 for row in self.rows)

    @property
    def published(self) -> bool:
        """Whether a paper has any of its rows."""
        return any(not row.own for row in self.rows)

    @property
    def number(self) -> str:
        """What the paper calls it; empty for one's own."""
        return text.numbered(self.id)

    @property
    def short(self) -> str:
        """Its number, or its title where it has none."""
        return self.number or self.spec.title

    @property
    def title(self) -> str:
        """Its title, after its number."""
        return f"{self.number}: {self.spec.title}" if self.number else self.spec.title


def build_table(name: str, spec: entries.Table, material: Material) -> FilledTable:
    """Put the paper's numbers and ours beside each other.

    Parameters
    ----------
    name
        Its id.
    spec
        Rows in order.
    material
        The paper's rows, the runs that feed them, and models. A row whose run has none was not run; of several runs, the one with
        the highest rsum on validation stands for the row. Numbers are means over the seeds that are sound; see
        `vsepp.report.pairing.sound`.

    Returns
    -------
    FilledTable
        Best cells are marked per column and group: the paper's among the paper's numbers; ours among ours, without rows in
        trouble, where all rows have several seeds. Values that print alike count as equal, and all of them are marked.

    Raises
    ------
    VseppError
        When a row is quoted but fed by a run, or is fed under another protocol, and as in
        `vsepp.report.pairing.require_one_test`.
    """
    notes: list[tuple[str, str]] = []
    groups = []
    for group in spec.groups:
        rows = [_row(name, spec, entry, material, notes) for entry in group.rows]
        _compare(spec, rows)
        groups.append(FilledGroup(group.heading, tuple(rows)))
    rows = [row for group in groups for row in group.rows]
    if steps := dirty_steps([model for row in rows for model in (*row.ours, *row.released)]):
        notes.append((text.MARK, text.dirty_note(steps)))
    if note := text.curriculum_note(of_curriculum([model for row in rows for model in row.ours])):
        notes.append((text.OF_CURRICULUM, note))
    return FilledTable(name, spec, tuple(groups), tuple(notes), _caption(spec, material.context, rows))


def _fed(entry: str | entries.Row, report: ReportSpec, models: Models) -> tuple[str, Feed, Mapping[str, str]]:
    """Id of a row, what fills it, and what stands in the place of published.csv where no paper has the row."""
    if isinstance(entry, str):
        return entry, report.feeds.get(entry, Feed()), {}
    runs = report.feeding(entry)
    feed = Feed(best_of(runs, models) if runs else None, entry.protocol)
    if entry.row is not None:
        return entry.row, feed, {}
    several, own = len(entry.runs) > 1, dict(report.runs[entry.runs[0]])
    if entry.label:
        own["label"] = f"{entry.label} ({feed.run})" if several and feed.run in models else entry.label
    return entry.label if several and entry.label else entry.runs[0], feed, own


def _facts(table: str, row: str, feed: Feed, published: Published) -> dict[str, str]:
    """What published.csv says of a row, its numbers included."""
    facts = published.get((table, row)) or published["", row]
    if (feed.run or feed.released) and facts["kind"] == "quoted":
        raise VseppError(f"{table}, row {row}: it is quoted from the paper, but run {feed.run} feeds it")
    if feed.protocol is not None and feed.protocol != facts["protocol"]:
        raise VseppError(
            f"{table}, row {row}: run {feed.run} feeds it under protocol {feed.protocol}, but the "
            f"paper's numbers are {facts['protocol']}; correct `feeds` of the run"
        )
    return dict(facts)


def _row(
    table: str,
    spec: entries.Table,
    entry: str | entries.Row,
    material: Material,
    notes: list[tuple[str, str]],
) -> FilledRow:
    """A row; its note, if it has one, is added to `notes`."""
    context, models = material.context, material.models
    row, feed, own = _fed(entry, material.report, models)
    if own:
        absent = dict.fromkeys((*spec.cells, "citation", "note"), "")
        facts = {**absent, "kind": "own", "protocol": feed.protocol or "", **own}
    else:
        facts = _facts(table, row, feed, material.published)
    # The paper's way: the usual encoder goes unnamed, `VSE++ (ResNet152, fine-tuned)`.
    parts = [] if facts["encoder"] in ("", context.default_encoder) else [context.in_paper(facts["encoder"])]
    parts += ["fine-tuned"] if facts["finetuned"] == "yes" else []
    label = facts["system"] + (f" ({', '.join(parts)})" if parts else "")
    # A note that starts with a metric's name and a colon (`i2t_r10: ...`) stands at that cell, any other at the row.
    at, _, note_text = facts["note"].partition(":")
    note = {"at": at, "note": note_text.strip()} if at in spec.cells else {"at": ""}
    derived = {"label": label, "trainset_label": facts["trainset"] or "?"}
    facts = {**derived, **facts, **note, "encoder_here": context.here(facts["encoder"])}
    letter = text.letter(len(notes)) if facts["note"] else ""
    if letter:
        notes.append((letter, facts["note"]))
    every, released = models.get(feed.run or "", []), models.get(feed.released or "", [])
    protocol = facts["protocol"]
    require_one_test([*every, *released], protocol)
    ours = sound(every)
    cells = {
        "ours": {name: _measured(ours, protocol, name) for name in spec.cells},
        "paper": {name: _printed(facts, name, letter) for name in spec.cells},
        "released": {name: Cell(_measured(released, protocol, name).value) for name in spec.cells},
    }
    return FilledRow(
        row,
        feed.run or "",
        facts,
        cells,
        mark="" if facts["at"] else letter,
        ours=ours,
        released=released,
        trouble=text.listing(in_trouble(every)) if trouble_of(every) else "",
        left_out=left_out(every),
    )


def _measured(models: Sequence[MeasuredModel], protocol: str, name: str) -> Cell:
    """Mean and deviation over the seeds."""
    measured = level(models, protocol, name)
    return Cell(measured.mean, measured.sd) if measured else Cell()


def _printed(facts: dict[str, str], name: str, mark: str) -> Cell:
    """A number of published.csv, with the note that stands at it."""
    value, sd = (float(printed) if (printed := facts.get(key)) else None for key in (name, f"{name}_sd"))
    return Cell(value, sd, mark if facts["at"] == name else "")


def _compare(spec: entries.Table, rows: Sequence[FilledRow]) -> None:
    """Mark the best of each column of a group, from each source, and tint all; name single folds beside means over five."""
    for source in ("ours", "paper"):
        sources = [row for row in rows if source == "paper" or not row.trouble]
        # Only several seeds say which of ours is the best: one seed settles nothing.
        is_settled = source == "paper" or all(len(row.ours) > 1 for row in sources if row.ours)
        for name in spec.cells:
            column = [cell for row in sources if (cell := row.cells[source][name]).value is not None]
            values = [cell.value for cell in column if cell.value is not None]
            if not values:
                continue
            worst, best = min(values), max(values)
            if text.lower_is_better(name):
                worst, best = best, worst
            for cell, value in zip(column, values, strict=True):
                cell.best = is_settled and text.number(value) == text.number(best)
                if spec.tint and best != worst:
                    cell.tint = (value - worst) / (best - worst)
    if {row.facts["protocol"] for row in rows} == {"1K", "5x1K"}:
        for row in rows:
            row.facts["trainset_label"] += " (1 fold)" if row.facts["protocol"] == "1K" else ""


def _test_images(model: MeasuredModel, protocol: str) -> str:
    """Which test images were ranked, and how many of them again by a matcher."""
    test = model.tested(protocol)
    images, fold = test["n_images"], test["fold_size"]
    if protocol not in FOLDS:
        ranked = f"all {text.plural(images, 'test image')}"
    elif protocol == "1K":
        ranked = f"first {text.plural(fold, 'test image')}"
    else:
        ranked = f"mean of {text.plural(images // fold, 'fold')} of {text.plural(fold, 'test image')}"
    matched = text.reranked(test)
    return f"{ranked} ({matched})" if matched else ranked


def _caption(spec: entries.Table, context: ContextSpec, rows: Sequence[FilledRow]) -> str:
    """Caption, what plays the paper's roles here, and what was not run."""
    trained = [row for row in rows if row.status != "quoted"]
    parts = [spec.caption]
    seeds = sorted({len(row.ours) for row in trained if row.ours})
    if max(seeds, default=0) > 1:
        parts.append(f"Ours: mean ± sample standard deviation over {text.listing(seeds)} seeds.")
    if trained and (swaps := context.swaps([spec.dataset, *(row.facts["encoder"] for row in trained)])):
        parts.append(f"Our rows use {text.listing(swaps)}.")
    if missing := sum(not row.ours for row in trained):
        parts.append(f"Not run: {missing} of {text.plural(len(trained), 'trained row')}.")
    return " ".join(parts)


def flat_rows(table: FilledTable, context: ContextSpec) -> list[dict[str, Any]]:
    """A table for a CSV, unrounded: `paper_*`, `ours_*` (mean), `sd_*` (sample), `released_*` and
    `paper_sd_*`.

    `ours_uncommitted` and `released_uncommitted` name the steps behind the numbers with code or parameters that no commit holds.
    """
    flat = []
    for group in table.groups:
        for row in group.rows:
            facts = row.facts
            test = row.ours[0].tested(facts["protocol"]) if row.ours else {}
            values = {
                "table": table.number.partition(" ")[2] or table.id,
                "group": group.heading,
                "row": row.id,
                "kind": facts["kind"],
                "status": row.status,
                "trouble": row.trouble,
                "system": facts["system"],
                "encoder": context.in_paper(facts["encoder"]),
                "finetuned": facts["finetuned"],
                "trainset": facts["trainset"],
                "protocol": facts["protocol"],
                "run": row.run,
                "ours_dataset": context.here(facts["dataset"]) if row.ours else "",
                "ours_encoder": facts["encoder_here"] if row.ours else "",
                "ours_fold_size": test.get("fold_size"),
                "ours_n_images": test.get("n_images"),
                "n_seeds": len(row.ours),
                "ours_commit": text.listing(sorted({text.commit(*model.trained_by) for model in row.ours})),
                "ours_uncommitted": " ".join(dirty_steps(row.ours)),
                "released_uncommitted": " ".join(dirty_steps(row.released)),
            }
            for column, source, part in _COLUMNS:
                values |= {
                    f"{column}_{name}": getattr(cell, part) for name, cell in row.cells[source].items()
                }
            flat.append(values)
    return flat
