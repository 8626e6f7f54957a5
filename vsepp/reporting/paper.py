"""What `paper.tex` is filled with: a report as an article; and where the columns of tables lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from vsepp.reporting import claims, filters
from vsepp.reporting.claims import Verdict
from vsepp.reporting.drawing import Drawn
from vsepp.reporting.filters import Tex
from vsepp.reporting.report_specs import ContextSpec
from vsepp.reporting.tables import Table

# Claims in one float; a page holds some more.
_CLAIMS = 16


def paper_values(
    tables: Sequence[Table], drawn: Sequence[Drawn], verdicts: Sequence[Verdict], context: ContextSpec
) -> dict[str, Any]:
    """What the template `paper.tex.j2` prints.

    Parameters
    ----------
    tables, drawn
        Tables and figures of the report, in its order.
    verdicts
        Verdicts on the paper's claims and on comparisons of one's own; without any the ledger is left out.
    context
        What the captions say about the data.
    """
    theirs, ours = claims.of_the_paper(verdicts)
    ledger = claims.by_claim([*theirs, *ours])
    parts = [ledger[start : start + _CLAIMS] for start in range(0, len(ledger), _CLAIMS)]
    # The parts of the ledger have letters.
    numbers = _numbers([""] * len(parts) + [table.spec.id for table in tables])
    return {
        "note": short_note(context),
        "counted": [
            (len(some), filters.listing(f"{number} {word}" for word, number in claims.counts(some)))
            for some in (theirs, ours)
        ],
        "claims": len(verdicts),
        "ledger": list(zip(numbers, parts, strict=False)),
        "tables": list(zip(numbers[len(parts) :], tables, strict=True)),
        "figures": list(zip(_numbers(figure.spec.id for figure in drawn), drawn, strict=True)),
    }


def _numbers(names: Iterable[str]) -> list[str]:
    """The paper's number of each table or figure, or the next letter where it is one's own."""
    letters = (chr(ord("A") + place) for place in count())
    return [filters.numbered(name).partition(" ")[2] or next(letters) for name in names]


def short_note(context: ContextSpec) -> str:
    """The first sentence of the data's note, which each table and figure carries in itself."""
    first, dot, _ = context.data_note.partition(". ")
    return first + ("." if dot else "")


def page_layout(table: Table) -> dict[str, Any]:
    """Where a table's columns lie on a page; templates do no arithmetic."""
    numbers = len(table.spec.cells)
    return {
        "columns": numbers,
        "width": 2 + table.spec.trainset + numbers * (1 + table.published),
        "first": [f"{direction}_{table.spec.columns[0]}" for direction in table.spec.tasks],
    }


def tex_layout(table: Table) -> dict[str, Any]:
    """Where a tabular's columns lie; templates do no arithmetic."""
    columns = len(table.spec.columns)
    labels = 4 if table.spec.trainset else 3
    # A deviation has a column of its own, so that the values above and below it stay aligned.
    span = 2 * columns if table.has_seeds else columns
    number = r"r@{\,}l" if table.has_seeds else "r"
    starts = [labels + place * span + 1 for place in range(len(table.spec.tasks))]
    return {
        "labels": labels,
        "span": span,
        "numbers": span * len(table.spec.tasks),
        "width": labels + span * len(table.spec.tasks),
        "columns": Tex("@{}" + "l" * labels + number * columns * len(table.spec.tasks) + "@{}"),
        "rules": [(start, start + span - 1) for start in starts],
    }
