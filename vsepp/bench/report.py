"""A table of all recorded results, in Markdown. Never imports torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vsepp.errors import VseppError

_KEYS = ("device", "machine", "date", "command", "results")
_COLUMNS = (
    "what",
    "per second",
    "quartiles",
    "range",
    "turns",
    "× time of the limit",
    "× speed of the reference",
    "peak host",
    "peak device",
    "date",
)


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Records of a folder's `*.json`, oldest first.

    Raises
    ------
    VseppError
        Where there are none, or one of them is no record, naming the file and what it lacks.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise VseppError(f"{folder}: holds no results; measure with `vsepp bench --output {folder}`")
    return sorted((_read(path) for path in files), key=lambda record: record["date"])


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise VseppError(f"{path}: not readable as JSON ({error}); delete it and measure again") from error
    if not isinstance(record, dict):
        raise VseppError(f"{path}: expected a record of `vsepp bench`, got a {type(record).__name__}")
    if missing := [key for key in _KEYS if key not in record]:
        raise VseppError(f"{path}: not a record of `vsepp bench`: it lacks {', '.join(missing)}; delete it")
    for number, entry in enumerate(record["results"]):
        try:
            usable = entry["name"] and entry["unit"] and entry["per_second"]["median"] > 0
        except (KeyError, TypeError):
            usable = False
        if not usable:
            raise VseppError(
                f"{path}: result {number + 1} has no name, unit and median above 0; delete the file and measure again"
            )
    return record


def newest(records: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """The newest result of each name, by machine and device; each with the command that gave it."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for record in records:
        place = found.setdefault((record["machine"], record["device"]), {})
        for entry in record["results"]:
            place[entry["name"]] = {**entry, "date": record["date"][:10], "command": record["command"]}
    return found


def render(records: list[dict[str, Any]]) -> str:
    """Markdown: a table a machine, and where the hours of the paper come from."""
    lines: list[str] = []
    for (machine, device), results in newest(records).items():
        where = machine if device == "cpu" else f"{device} ({machine})"
        lines += [f"### {where}", "", _row(_COLUMNS), _row("---" for _ in _COLUMNS)]
        lines += [_row(_cells(results[name])) for name in sorted(results)]
        commands = dict.fromkeys(entry["command"] for entry in results.values())
        lines += ["", "Measured with " + ", ".join(f"`{command}`" for command in commands) + ".", ""]
    return "\n".join([*lines, *_hours({record["device"] for record in records} - {"cpu"})])


def _hours(gpus: set[str]) -> list[str]:
    if not gpus:
        return ["No GPU was measured, so there are no GPU-hours of the paper to reckon from these figures."]
    plans = "; ".join(f"`vsepp plan --preset paper --device '{name}'`" for name in sorted(gpus))
    return [
        f"GPU-hours of the whole paper: {plans}, after `vsepp plan --preset paper --calibrate --save` there."
    ]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(entry: Mapping[str, Any]) -> list[str]:
    rate = entry["per_second"]
    return [
        entry["name"],
        f"{digits(rate['median'])} {entry['unit']}",
        f"{digits(rate['q1'])}–{digits(rate['q3'])}",
        f"{digits(rate['min'])}–{digits(rate['max'])}",
        str(rate["repetitions"]),
        _compared(entry.get("times_limit")),
        _compared(entry.get("times_reference")),
        _bytes(entry.get("peak_host_bytes")),
        _bytes(entry.get("peak_device_bytes")),
        entry["date"],
    ]


def _compared(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return "–"
    return f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f}) of {ratio['of'].partition('/')[0]}"


def digits(value: float) -> str:
    """Three significant digits, with commas: 12,300 or 1.23."""
    if value >= 100:
        rounded = float(f"{value:.3g}")
        return f"{rounded:,.0f}"
    return f"{value:.3g}"


def _bytes(count: int | None) -> str:
    return "–" if count is None else f"{count / 2**20:,.0f} MiB"
