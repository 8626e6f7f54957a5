"""Expected values: a score is within its tolerance or outside, or held to ranking above chance, or to nothing.

`docs/results/<study>/expected.csv` has a row for each run, protocol, seed and metric of a study.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ValidationError
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT, mistakes_of
from vsepp.base.errors import VseppError, as_started, first_of
from vsepp.report import text
from vsepp.report.models import Models

WITHIN, ABOVE, NOT_HELD, OUTSIDE = "within tolerance", "above chance", "not held", "outside"


@dataclass(frozen=True, config=STRICT)
class Expected:
    """One row of the file."""

    run: str
    protocol: str
    seed: int
    metric: Literal["i2t_r1", "t2i_r1", "rsum"]
    expected: float
    tolerance: float | Literal["chance", "nothing"]
    """Points on both sides. `chance`: of a run that varies much over its seeds, or has one, only that it ranks above chance.
    `nothing`: of a run that may collapse on another machine."""


class State(NamedTuple):
    """A row, and what the present results say of it."""

    row: Expected
    value: float
    word: str
    """`WITHIN`, `ABOVE`, `NOT_HELD` or `OUTSIDE`."""


def read_expected(path: Path) -> list[Expected]:
    """Read a study's file.

    Raises
    ------
    VseppError
        Where there is no file, and on a wrong row, which the error names.
    """
    if not path.is_file():
        raise VseppError(f"{path}: no such file; no values were set for this study")
    rows = []
    with path.open(newline="", encoding="utf-8") as stream:
        table = csv.DictReader(stream, restkey="more cells than columns")
        for cells in table:
            try:
                rows.append(Expected(**cells))  # type: ignore[arg-type]  # checked
            except ValidationError as error:
                mistakes = [f"{key}: {mistake}" for key, mistake in mistakes_of(error, Expected)]
                raise VseppError(f"{path}, line {table.line_num}: {first_of(mistakes)}") from None
    return rows


def states_of(rows: Iterable[Expected], models: Models) -> list[State]:
    """State of each row whose model is there and was evaluated under its protocol."""
    by_seed = {(run, model.seed): model for run, seeds in models.items() for model in seeds}
    states = []
    for row in rows:
        model = by_seed.get((row.run, row.seed))
        value = model.score(row.protocol, row.metric) if model and row.protocol in model.metrics else None
        if model is None or value is None:
            continue
        if row.tolerance == "nothing":
            word = NOT_HELD
        elif row.tolerance == "chance":
            word = OUTSIDE if row.protocol in model.at_chance else ABOVE
        else:
            word = WITHIN if abs(value - row.expected) <= row.tolerance else OUTSIDE
        states.append(State(row, value, word))
    return states


def counted(states: Iterable[State], config: str = "") -> str:
    """`105 scores: 51 within tolerance, 45 above chance, 9 not held`; empty where no model is there."""
    numbers = Counter(state.word for state in states)
    words = [f"{numbers[word]} {word}" for word in (WITHIN, ABOVE, NOT_HELD, OUTSIDE) if numbers[word]]
    verify = f"{as_started()}vsepp verify --scores {config}".strip()
    shown = f": `{verify}` names them" * bool(numbers[OUTSIDE])
    return f"{text.plural(numbers.total(), 'score')}: {', '.join(words)}{shown}" if words else ""
