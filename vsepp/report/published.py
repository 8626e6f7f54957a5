"""A paper's numbers, cell by cell: its `published.csv`."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from vsepp.base.errors import VseppError, refuse
from vsepp.base.files import shortly, text_of
from vsepp.evaluation.metrics import METRICS

Published = Mapping[tuple[str, str], Mapping[str, str]]
"""(id of the table, row) → column of published.csv → text. A row stands below `""` too, for tables of one's own."""

KINDS = ("trained", "quoted")
"""What a row is: a system that is trained here, or one that is cited alone."""
_REQUIRED = ("table", "row", "kind")
_LARGEST = 4 << 20
_ROUNDING = 0.35 + 1e-9
"""How far a sum may lie from six recalls, each rounded to a tenth as it is itself."""
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_PER_CENT = {key for key, metric in METRICS.items() if metric.factor == 100}
_COLUMNS = {
    re.compile(rf"(\w2\w)_(r\d+|{'|'.join(_PER_CENT)})"): (0, 100, "a percentage"),
    re.compile(r"(sts|sis|sits)_spearman"): (0, 100, "a correlation times 100"),
    re.compile(rf"(\w2\w)_({'|'.join(METRICS.keys() - _PER_CENT)})"): (1, 10**9, "a rank from 1"),
    re.compile(r"rsum"): (0, 600, "a sum of six percentages"),
    re.compile(r".*_sd"): (0, 100, "a standard deviation in points"),
}
"""Names of a column of numbers → the least number, the largest number, and what they are. All other columns are text."""


def read_published(path: Path) -> Published:
    """The paper's rows.

    Raises
    ------
    VseppError
        When the file or a column is missing, when it is no UTF-8 or no CSV, and for all rows at once that are given twice, have
        too few or too many cells, another kind than `KINDS`, or a number that no such metric can have.
    """
    expected = "a paper's numbers as CSV, or its heading alone where a paper has none"
    table = csv.DictReader(io.StringIO(text_of(path, expected, _LARGEST), newline=""), strict=True)
    try:
        if missing := set(_REQUIRED) - set(table.fieldnames or ()):
            raise VseppError(f"{path}: has no column {', '.join(sorted(missing))} in its heading")
        if repeated := [name for name, count in Counter(table.fieldnames).items() if count > 1]:
            raise VseppError(f"{path}: columns given twice: {', '.join(repeated)}; keep one of each")
        published: dict[tuple[str, str], dict[str, str]] = {}
        wrong: list[str] = []
        for row in table:
            where = f"line {table.line_num}, row {shortly(row['row'])}"
            if None in row or None in row.values():
                number = "more" if None in row else "fewer"
                wrong.append(f"{where}: {number} cells than the heading has columns")
                continue
            key = f"table{row['table']}", row["row"]
            if key in published:
                wrong.append(f"{where}: is there twice in one table; keep one")
            wrong += [f"{where}, {mistake}" for mistake in _wrong_cells(row)]
            published[key] = row
            published.setdefault(("", row["row"]), row)
    except csv.Error as error:
        raise VseppError(
            f"{path}: line {table.line_num + 1}: {error}; look for a quote that is not closed"
        ) from error
    refuse(
        wrong,
        f"{path}: rows that cannot be right",
        "Correct them; an empty cell is a number that the paper does not print.",
    )
    return published


def _wrong_cells(row: Mapping[str, str]) -> Iterator[str]:
    """Column, what stands in it, and what was expected."""
    if row["kind"] not in KINDS:
        yield f"kind: got {shortly(row['kind'])}; expected {' or '.join(KINDS)}"
    for column, text in row.items():
        for pattern, (least, largest, what) in _COLUMNS.items():
            fits = _NUMBER.fullmatch(text) and least <= float(text) <= largest
            if pattern.fullmatch(column) and text and not fits:
                yield f"{column}: got {shortly(text)}; expected {what}, with a point, such as 43.4"
                break
    yield from _wrong_together(row)


def _wrong_together(row: Mapping[str, str]) -> Iterator[str]:
    """Recalls that fall where K rises and sums that are none; numbers that a note calls printed so, `COLUMN: [sic]`, are kept."""
    if _CONTROL.search("".join(row.values())):
        yield "holds NUL or another control character, which no text has"
    numbers = {
        column: float(text)
        for column, text in row.items()
        if _NUMBER.fullmatch(text) and f"{column}: [sic]" not in row.get("note", "")
    }
    for task in ("i2t", "t2i"):
        for lower, higher in (("r1", "r5"), ("r5", "r10"), ("r1", "r10")):
            low, high = (numbers.get(f"{task}_{k}") for k in (lower, higher))
            if low is not None and high is not None and low > high:
                yield f"{task}_{higher}: got {high:g}, below {task}_{lower}, {low:g}; expected R@1 ≤ R@5 ≤ R@10"
    parts = [numbers.get(f"{task}_{k}") for task in ("i2t", "t2i") for k in ("r1", "r5", "r10")]
    printed = [part for part in parts if part is not None]
    if "rsum" in numbers and len(printed) == len(parts) and abs(numbers["rsum"] - sum(printed)) > _ROUNDING:
        yield f"rsum: got {numbers['rsum']:g}; expected the sum of the six recalls, {sum(printed):.1f}"
