"""Expected values: a score lies within its seeds' spread or outside, or is held to ranking above chance, or to nothing. On a machine
of a kind that was tried, its model's ranks are the ranks that were found there.

`docs/results/<study>/expected.csv` has a row for each run, protocol, seed and metric of a study; `ranks.csv` beside it has one for each
model of a kind of machine.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import ValidationError
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT, mistakes_of
from vsepp.base.errors import VseppError, as_started, first_of
from vsepp.report import text
from vsepp.report.entries import KNOWN_RANKS
from vsepp.report.models import MeasuredModel, Models
from vsepp.report.records import ranks_digest

EQUAL, WITHIN, ABOVE = "with equal ranks", "within tolerance", "above chance"
NOT_HELD, OUTSIDE = "not held", "outside"
DEVIATIONS = 5
"""How many standard deviations a score may lie from the mean over the seeds. One more training lies within 4.5 of them, all 51
scores of `mini` together, in 95 % of cases, by Student's t."""

RowOfFile = TypeVar("RowOfFile", "Expected", "KnownRanks")


@dataclass(frozen=True, config=STRICT)
class Expected:
    """One row of the file."""

    run: str
    protocol: str
    seed: int
    metric: Literal["i2t_r1", "t2i_r1", "rsum"]
    expected: float
    tolerance: Literal["seeds", "chance", "nothing"]
    """`seeds`: see `tolerances`. `chance`: of a run that varies much over its seeds, or has one, only that it ranks above chance.
    `nothing`: of a run that may collapse on another machine."""


@dataclass(frozen=True, config=STRICT)
class KnownRanks:
    """One row of `ranks.csv`."""

    machine: str
    """As `machine_of` names it."""
    run: str
    seed: int
    ranks: str
    """First 12 digits of `ranks_digest`."""


class State(NamedTuple):
    """A row, and what the present results say of it."""

    row: Expected
    value: float
    word: str
    """`EQUAL`, `WITHIN`, `ABOVE`, `NOT_HELD` or `OUTSIDE`."""
    held_to: str
    """What was expected."""


def read_expected(path: Path) -> list[Expected]:
    """Read a study's file.

    Raises
    ------
    VseppError
        Where there is no file, and on a wrong row, which the error names.
    """
    if not path.is_file():
        raise VseppError(f"{path}: no such file; no values were set for this study")
    return _rows(path, Expected)


def read_known_ranks(expected: Path) -> list[KnownRanks]:
    """Read the ranks that were found on kinds of machines, beside a study's file; none where there is no such file.

    Raises
    ------
    VseppError
        On a wrong row, which the error names.
    """
    path = expected.with_name(KNOWN_RANKS)
    return _rows(path, KnownRanks) if path.is_file() else []


def _rows(path: Path, kind: type[RowOfFile]) -> list[RowOfFile]:
    rows = []
    with path.open(newline="", encoding="utf-8") as stream:
        table = csv.DictReader(stream, restkey="more cells than columns")
        for cells in table:
            try:
                rows.append(kind(**cells))  # type: ignore[arg-type]  # checked
            except ValidationError as error:
                mistakes = [f"{key}: {mistake}" for key, mistake in mistakes_of(error, kind)]
                raise VseppError(f"{path}, line {table.line_num}: {first_of(mistakes)}") from None
    return rows


def tolerances(rows: Iterable[Expected]) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Run, protocol and metric → mean over the seeds, and how far from it a score may lie.

    That is `DEVIATIONS` standard deviations: the run's own over its seeds, or, where this is larger, the root mean square of those of
    all runs that are held to their seeds in this metric.
    """
    values = defaultdict[tuple[str, str, str], list[float]](list)
    for row in rows:
        if row.tolerance == "seeds":
            values[row.run, row.protocol, row.metric].append(row.expected)
    deviations = {key: float(np.std(seeds, ddof=1)) for key, seeds in values.items() if len(seeds) > 1}
    of_metric = defaultdict[str, list[float]](list)
    for (_, _, metric), sd in deviations.items():
        of_metric[metric].append(sd)
    pooled = {metric: float(np.mean(np.square(sds))) ** 0.5 for metric, sds in of_metric.items()}
    allowed = {}
    for (run, protocol, metric), seeds in values.items():
        spread = max(deviations.get((run, protocol, metric), 0.0), pooled.get(metric, 0.0))
        allowed[run, protocol, metric] = float(np.mean(seeds)), DEVIATIONS * spread
    return allowed


def machine_of(model: MeasuredModel) -> str:
    """The kind of machine that decides how a model's sums are rounded, if it computed on one CPU's kind; else empty.

    An evaluation without a matcher names no device; of it the processor counts.
    """
    trained, evaluated = model.trained or {}, model.evaluated
    if "device" not in evaluated.get("facts", {}):
        evaluated = {**trained, "machine": evaluated.get("machine")}
    kinds = {_kind(trained), _kind(evaluated)}
    return kinds.pop() if len(kinds) == 1 else ""


def _kind(manifest: Mapping[str, Any]) -> str:
    facts, versions = manifest.get("facts", {}), manifest.get("versions", {})
    if facts.get("device") != "cpu" or "instructions" not in facts:  # earlier manifests lack them
        return ""
    threads = text.plural(facts["threads"], "thread")
    packages = ", ".join(f"{name} {versions.get(name)}" for name in ("torch", "numpy"))
    return f"{manifest['machine']['processor']}, {facts['instructions']}, {threads}, {packages}"


def held(file: Path, models: Models) -> list[State]:
    """Hold models to a study's file, and to the ranks beside it; errors as of `read_expected`."""
    return states_of(read_expected(file), read_known_ranks(file), models)


def states_of(rows: Iterable[Expected], known: Iterable[KnownRanks], models: Models) -> list[State]:
    """State of each row whose model is there and was evaluated under its protocol."""
    rows = list(rows)
    allowed = tolerances(rows)
    ranks = {(row.machine, row.run, row.seed): row.ranks for row in known}
    by_seed = {(run, model.seed): model for run, seeds in models.items() for model in seeds}
    states = []
    for row in rows:
        model = by_seed.get((row.run, row.seed))
        value = model.score(row.protocol, row.metric) if model and row.protocol in model.metrics else None
        if model is None or value is None:
            continue
        machine = machine_of(model)
        if kept := ranks.get((machine, row.run, row.seed)):
            digest = ranks_digest(model.arrays)[:12]
            holds, word, held_to = digest == kept, EQUAL, f"ranks {kept} of {machine}, got {digest}"
        elif row.tolerance == "nothing":
            holds, word, held_to = True, NOT_HELD, "nothing"
        elif row.tolerance == "chance":
            holds, word, held_to = row.protocol not in model.at_chance, ABOVE, "above chance"
        else:
            mean, tolerance = allowed[row.run, row.protocol, row.metric]
            holds, word, held_to = abs(value - mean) <= tolerance, WITHIN, f"{mean:.2f} ± {tolerance:.2f}"
        states.append(State(row, value, word if holds else OUTSIDE, held_to))
    return states


def count_by_word(states: Iterable[State]) -> dict[str, int]:
    """How many scores are as expected, and how: word → number, without zeros."""
    numbers = Counter(state.word for state in states)
    return {word: numbers[word] for word in (EQUAL, WITHIN, ABOVE, NOT_HELD, OUTSIDE) if numbers[word]}


def counted(states: Iterable[State], config: str = "") -> str:
    """`105 scores: 51 within tolerance, 45 above chance, 9 not held`; empty where no model is there."""
    numbers = count_by_word(states)
    words = [f"{number} {word}" for word, number in numbers.items()]
    verify = f"{as_started()}vsepp verify --scores {config}".strip()
    shown = f": `{verify}` names them" if OUTSIDE in numbers else ""
    return f"{text.plural(sum(numbers.values()), 'score')}: {', '.join(words)}{shown}" if words else ""
