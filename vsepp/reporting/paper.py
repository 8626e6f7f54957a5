"""What `paper.tex` is filled with: a report as an article."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from vsepp.reporting import claims, filters
from vsepp.reporting.claims import Verdict
from vsepp.reporting.drawing import Drawn
from vsepp.reporting.filters import Tex
from vsepp.reporting.report_specs import DIRECTIONS, ContextSpec
from vsepp.reporting.tables import Table

# Claims of one float; a page holds some more.
_CLAIMS = 16


@dataclass(frozen=True)
class Float:
    """A table or figure with what stands around it."""

    label: str
    number: str
    """The paper's number, or a letter where it is one's own."""
    caption: str
    content: Any


def paper_values(
    tables: Sequence[Table], drawn: Sequence[Drawn], verdicts: Sequence[Verdict], context: ContextSpec
) -> dict[str, Any]:
    """What the template `paper.tex.j2` prints.

    Parameters
    ----------
    tables, drawn
        Of the report, in its order.
    verdicts
        Of the paper's claims; without any the ledger is left out.
    context
        What the captions say about the data.
    """
    note = short_note(context)
    table_letters, figure_letters = _letters(), _letters()
    theirs, ours = claims.of_the_paper(verdicts)
    ledger = claims.by_claim([*theirs, *ours])
    parts = [ledger[start : start + _CLAIMS] for start in range(0, len(ledger), _CLAIMS)]
    return {
        "note": note,
        "counted": [
            (len(some), filters.listing(f"{number} {word}" for word, number in claims.counts(some)))
            for some in (theirs, ours)
        ],
        "claims": len(verdicts),
        "ledger": [
            Float(f"tab:claims{'' if place == 1 else f'-{place}'}", next(table_letters), note, part)
            for place, part in enumerate(parts, 1)
        ],
        "tables": [
            _float("tab", table.spec.id, table_letters, f"{table.caption} {note}".strip(), table)
            for table in tables
        ],
        "figures": [
            _float("fig", figure.spec.id, figure_letters, _shortened(figure.caption, context), figure.spec)
            for figure in drawn
        ],
    }


def _float(kind: str, name: str, letters: Iterator[str], caption: str, content: Any) -> Float:
    number = filters.numbered(name).partition(" ")[2] or next(letters)
    return Float(f"{kind}:{name}", number, caption, content)


def short_note(context: ContextSpec) -> str:
    """The first sentence of the data's note, which each table and figure carries in itself."""
    first, dot, _ = context.data_note.partition(". ")
    return first + ("." if dot else "")


def tex_layout(table: Table) -> dict[str, Any]:
    """Where a tabular's columns lie; templates do no arithmetic."""
    columns = len(table.spec.columns)
    labels = 4 if table.spec.trainset else 3
    # A deviation has a column of its own, so that the values above and below it stay aligned.
    span = 2 * columns if table.has_seeds else columns
    number = r"r@{\,}l" if table.has_seeds else "r"
    starts = [labels + place * span + 1 for place in range(len(DIRECTIONS))]
    return {
        "labels": labels,
        "span": span,
        "numbers": span * len(DIRECTIONS),
        "width": labels + span * len(DIRECTIONS),
        "columns": Tex("@{}" + "l" * labels + number * columns * len(DIRECTIONS) + "@{}"),
        "rules": [(start, start + span - 1) for start in starts],
    }


def _shortened(caption: str, context: ContextSpec) -> str:
    """A caption with the first sentence of the data's note where it ends in the whole note."""
    if not context.data_note or not caption.endswith(context.data_note):
        return caption
    return caption.removesuffix(context.data_note) + short_note(context)


def _letters() -> Iterator[str]:
    return (chr(ord("A") + place) for place in count())
