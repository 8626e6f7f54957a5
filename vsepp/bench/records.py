"""Records of what was measured, as files. Never imports torch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vsepp.errors import VseppError

_KEYS = ("device", "machine", "cores", "date", "command", "results")


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
        if not _usable(entry):
            raise VseppError(
                f"{path}: result {number + 1} has no name, unit and finite median above 0, or measures no entry's rate; "
                "delete the file and measure again"
            )
    return record


def _usable(entry: Any) -> bool:
    try:
        median, measures = entry["per_second"]["median"], entry.get("measures")
        named = bool(entry["name"] and entry["unit"])
        return named and 0 < median < math.inf and (measures is None or {"entry", "rate"} <= measures.keys())
    except (KeyError, TypeError, AttributeError):
        return False


def newest(records: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """The newest result of each name, by machine and device; each with the command that gave it."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for record in records:
        place = found.setdefault((record["machine"], record["device"]), {})
        for entry in record["results"]:
            place[entry["name"]] = {**entry, "date": record["date"][:10], "command": record["command"]}
    return found
