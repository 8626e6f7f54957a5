"""Read metrics and histories into tidy records, one row per trained model (and epoch)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vsepp.errors import VseppError
from vsepp.provenance.manifest import MANIFEST, read_manifest
from vsepp.reporting.origins import read_origin

SECTIONS = {"i2t": "image_to_text", "t2i": "text_to_image"}
"""Prefix of a column → section of metrics.json."""
MEASURES = ("r1", "r5", "r10", "medr", "meanr")
COLUMNS = tuple(f"{direction}_{measure}" for direction in SECTIONS for measure in MEASURES)
TEST_SET = ("fold_size", "n_images", "n_captions", "similarity")
"""What scores must share to be compared."""


def read_metrics(files: Iterable[str | Path], protocol: str) -> pd.DataFrame:
    """Metrics of one run's seeds under one protocol.

    Parameters
    ----------
    files
        `metrics.json` files, one per seed.
    protocol
        `1K`, `5x1K` or `5K`: the section of each file that is read.

    Returns
    -------
    DataFrame
        One row per file: `file`, `seed`, `protocol`, `fold_size`, `n_images`, `n_captions`, `similarity`,
        `i2t_r1` ... `t2i_meanr` (recalls in per cent, unrounded), `rsum`, `origin` (an `Origin`).

    Raises
    ------
    VseppError
        When a file is missing, is not JSON, lacks the protocol or a key, holds a value that no metric can
        have, or when the seeds were measured on different test sets.
    """
    records = [_record(Path(file), protocol) for file in files]
    table = pd.DataFrame.from_records(
        records,
        columns=["file", "seed", "protocol", *TEST_SET, *COLUMNS, "rsum", "origin"],
    )
    for key in TEST_SET:
        if table[key].nunique(dropna=False) > 1:
            raise VseppError(
                f"{table['file'].iloc[0]}: its seeds differ in {key} ({_list(table[key].unique())}), so "
                "their mean has no meaning; evaluate all of them on the same test set"
            )
    return table


def read_history(files: Iterable[str | Path], metrics: Sequence[str]) -> pd.DataFrame:
    """Validation metrics per epoch of one run's seeds.

    Parameters
    ----------
    files
        `history.csv` files, one per seed.
    metrics
        Columns that are wanted, such as `i2t_r1`.

    Returns
    -------
    DataFrame
        Tidy: `file`, `epoch`, `metric`, `value`.

    Raises
    ------
    VseppError
        When a file is missing, is not a table, or lacks a column or a number.
    """
    parts = []
    for file in map(Path, files):
        history = _read_csv(file)
        for column in ("epoch", *metrics):
            if column not in history:
                raise VseppError(f"{file}: no column {column}; it has {_list(history.columns)}")
            values = pd.to_numeric(history[column], errors="coerce")
            if values.isna().any():
                line = int(values.isna().to_numpy().argmax()) + 2
                raise VseppError(
                    f"{file}, line {line}: {column} is not a number: {history[column].iloc[line - 2]}"
                )
            history[column] = values
        if history.empty:
            raise VseppError(f"{file}: no epochs in it; train the run again")
        tidy = history.melt(id_vars="epoch", value_vars=list(metrics), var_name="metric")
        parts.append(tidy.assign(file=str(file)))
    columns = ["file", "epoch", "metric", "value"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _record(file: Path, protocol: str) -> dict[str, Any]:
    content = _read_json(file)
    if protocol not in content:
        raise VseppError(
            f"{file}: no protocol {protocol}; it has {_list(content)}. Evaluate the run under {protocol}"
        )
    values = content[protocol]
    record: dict[str, Any] = {"file": str(file), "seed": _manifest(file).get("seed")}
    for key in ("protocol", *TEST_SET, "rsum"):
        record[key] = _get(file, values, protocol, key)
    if record["protocol"] != protocol:
        raise VseppError(f"{file}, {protocol}.protocol: expected {protocol}, got {record['protocol']}")
    for direction, section in SECTIONS.items():
        for measure in MEASURES:
            record[f"{direction}_{measure}"] = _number(file, values, protocol, section, measure)
    record["origin"] = read_origin(file)
    return record


def _get(file: Path, values: Any, *keys: str) -> Any:
    """Value under `keys[1:]`; `keys[0]` is the protocol and only named in the message."""
    for depth, key in enumerate(keys[1:], start=2):
        if not isinstance(values, dict) or key not in values:
            raise VseppError(f"{file}: no key {'.'.join(keys[:depth])}; evaluate the run again")
        values = values[key]
    return values


def _number(file: Path, values: Any, *keys: str) -> float:
    value = _get(file, values, *keys)
    name = ".".join(keys)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise VseppError(f"{file}, {name}: expected a finite number, got {value!r}")
    low, high = (0, 100) if keys[-1].startswith("r") else (1, math.inf)
    if not low <= value <= high:
        what = "a recall in per cent" if high == 100 else "a rank, at least 1"
        raise VseppError(f"{file}, {name}: expected {what}, got {value!r}")
    return float(value)


def _read_json(file: Path) -> dict[str, Any]:
    _require(file)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise VseppError(f"{file}: not valid JSON: {error}; evaluate the run again") from error
    if not isinstance(content, dict):
        raise VseppError(
            f"{file}: expected an object with a section per protocol, got a {type(content).__name__}"
        )
    return content


def _read_csv(file: Path) -> pd.DataFrame:
    _require(file)
    try:
        return pd.read_csv(file)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise VseppError(
            f"{file}: not a table with one line per epoch: {error}; train the run again"
        ) from error


def _require(file: Path) -> None:
    if not file.is_file():
        raise VseppError(f"{file}: no such file; run the step that makes it (snakemake --cores all {file})")


def _manifest(file: Path) -> dict[str, Any]:
    """Manifest beside a file; empty where a file was brought from elsewhere without one."""
    return read_manifest(file) if (file.parent / MANIFEST).is_file() else {}


def _list(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in values) or "nothing"
