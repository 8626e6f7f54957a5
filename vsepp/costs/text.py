"""Numbers and paragraphs as the report shows them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

WIDTH = 110


def wrapped(text: str, indent: str = "  ") -> list[str]:
    """Lines of a paragraph."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def bytes_text(count: float | None) -> str:
    """Bytes in the largest decimal unit that they fill."""
    if count is None:
        return "size not known"
    unit = next((unit for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if count >= size), "B")
    return f"{count / {'GB': 1e9, 'MB': 1e6, 'kB': 1e3, 'B': 1}[unit]:,.{0 if unit == 'B' else 2}f} {unit}"


def count_text(value: int | None) -> str:
    """A whole number, or a question mark where it is not known."""
    return "?" if value is None else f"{value:,}"


def digits(hours: float) -> str:
    """Hours with three significant digits, or all before the point."""
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 10 else f"{hours:.2f}"


def hour_text(*times: Mapping[str, Any], whole: bool = True) -> str:
    """Hours, or what stands in their place; with `whole`, a sum that lacks a part is not shown."""
    missing = any(time["missing"] for time in times)
    lacking = missing or any(time["uncounted"] for time in times)
    known = [time["hours"] for time in times if time["hours"]]
    if lacking and (whole or not known):
        return "not measured" if missing else "?"
    return ("≥ " if lacking else "") + ("+".join(map(digits, known)) or "0.00")
