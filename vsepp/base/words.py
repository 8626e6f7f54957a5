"""Numbers, counts, sizes, times and p values in words, the same on a terminal and on pages;
and a table of words."""

from __future__ import annotations

from collections.abc import Sequence


def rounded(value: float, sign: str = "-") -> str:
    """A number with one decimal, as the paper prints recalls and median ranks, and a minus that is as wide as a plus; what rounds
    to zero has no sign. `sign` is `+` for differences.

    >>> rounded(64.62), rounded(-0.04), rounded(-1.5), rounded(3.14, sign="+")
    ('64.6', '0.0', '−1.5', '+3.1')
    """
    words = f"{value:{sign}.1f}"
    return (words if float(words) else words.lstrip("+-")).replace("-", "−")


def count(value: float) -> str:
    """A whole number with commas between thousands.

    >>> count(5000), count(1234.5)
    ('5,000', '1,234')
    """
    return f"{value:,.0f}"


def plural(number: int, noun: str) -> str:
    """A number of things; a noun with an irregular plural is not printed here.

    >>> plural(1, "comparison"), plural(2, "comparison"), plural(1000, "test image")
    ('1 comparison', '2 comparisons', '1,000 test images')
    """
    return f"{count(number)} {noun}{'s' * (number != 1)}"


def p_text(p: float) -> str:
    """A p value as people write it, with enough digits to tell on which side of .05 it lies.

    >>> p_text(0.00002), p_text(0.0312), p_text(0.0502)
    ('< .001', '.031', '.0502')
    """
    digits = 4 if 0.0495 <= p < 0.0505 else 3
    return "< .001" if p < 0.001 else f"{p:.{digits}f}".removeprefix("0")


def duration_text(seconds: float) -> str:
    """A time as one says it: `40 s`, `12 min`, `3 h 20 min`, `2 d 5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def bytes_text(count: float) -> str:
    """Bytes in the largest decimal unit that they fill: `1.50 kB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.2f} {unit}"
    return f"{count:,.0f} B"


def table(rows: Sequence[Sequence[str]], align: str) -> list[str]:
    """Lines of a table; `align` has `l` or `r` for each column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, align, widths, strict=True)
        lines.append(
            "  ".join(cell.rjust(width) if side == "r" else cell.ljust(width) for cell, side, width in cells)
        )
    return [line.rstrip() for line in lines]
