"""Expected values: what every score of a study is expected to be, how far it may be off, and which commit set it.

The values of a study are data: `docs/results/<study>/expected.csv`, a row for each run, protocol, seed and metric.

| held to | a score is as expected | within tolerance | not as expected |
|---|---|---|---|
| `tolerance` | within `TIGHT` points of the expected value | within the tolerance | outside, on either side |
| `chance` | the same | the model ranks above chance | it ranks like chance |
| `nothing` | the same | always | never |

The tolerance is `TIMES` the sample standard deviation over the seeds of the run, and not less than `TIMES` the deviation
pooled over the stable runs of the study, since three seeds can agree by luck. It is wide because the rounding of another
CPU moves a score further than another seed does: from a Xeon with AMX to an EPYC the 51 scores of mini that have a
tolerance moved by 2.2 pooled deviations (root mean square), and by 6.1 at most. A run is held to ranking above chance where
its rsum varies over the seeds by more than `UNSTABLE` of the mean, and where it has a single seed. A run that varies by
more than `FRAGILE` may collapse elsewhere: it is held to nothing, as is a seed that ranks like chance itself.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from pydantic import ValidationError
from pydantic.dataclasses import dataclass

from vsepp.declared import STRICT, mistakes_of
from vsepp.errors import VseppError, as_started, first_of
from vsepp.reporting import filters
from vsepp.reporting.records import Record, Records, command, dirty_steps
from vsepp.reporting.report_specs import ContextSpec
from vsepp.runtime.files import csv_text, write_text

Score = Literal["i2t_r1", "t2i_r1", "rsum"]
SCORES: dict[Score, str] = {"i2t_r1": "caption R@1", "t2i_r1": "image R@1", "rsum": "rsum"}
"""Scores that have an expected value, and their names in tables."""
OK, OKISH, FAIL, NOT_RUN = "as expected", "within tolerance", "not as expected", "not run"
STATES = (OK, OKISH, FAIL, NOT_RUN)
"""States of a score, in the order of their counts."""
HeldTo = Literal["tolerance", "chance", "nothing"]
TIGHT = 0.05
TIMES = 8.0
UNSTABLE = 0.05
FRAGILE = 0.33


@dataclass(frozen=True, config=STRICT)
class Expected:
    """One row of the file."""

    run: str
    protocol: str
    seed: int
    metric: Score
    expected: float
    tolerance: float | None
    """Points on both sides; `None` where the score is not held to its value."""
    held_to: HeldTo
    commit: str
    """Commit of the evaluation that set the value; the run's manifest names the commit of its training, which may be another."""
    cause: str = ""
    """Why the score deviates, where the cause is known; written by hand or by the rule."""

    @property
    def key(self) -> tuple[str, str, int, str]:
        """The score that the row is about."""
        return self.run, self.protocol, self.seed, self.metric


class State(NamedTuple):
    """A row, and what the present results say of it."""

    row: Expected
    word: str
    """One of `STATES`."""
    record: Record | None
    """The model that has the score; `None` where it was not run."""

    @property
    def value(self) -> float | None:
        """The score; `None` where it was not run."""
        return float(self.record.metrics[self.row.protocol][self.row.metric]) if self.record else None


def read_expected(path: Path) -> list[Expected]:
    """Read a study's file.

    Raises
    ------
    VseppError
        Where there is no file, and on a wrong row, which the error names.
    """
    if not path.is_file():
        raise VseppError(f"{path}: no such file; no values were set for this study")
    rows: dict[tuple[str, str, int, str], Expected] = {}
    with path.open(newline="", encoding="utf-8") as stream:
        table = csv.DictReader(stream, restkey="more cells than columns")
        columns = [field.name for field in fields(Expected)]
        if table.fieldnames != columns:
            raise VseppError(f"{path}: expected the columns {', '.join(columns)}")
        for cells in table:
            where = f"{path}, line {table.line_num}"
            try:
                row = Expected(**{**cells, "tolerance": cells["tolerance"] or None})  # type: ignore[arg-type]  # checked
            except ValidationError as error:
                mistakes = [f"{key}: {mistake}" for key, mistake in mistakes_of(error, Expected)]
                raise VseppError(f"{where}: {first_of(mistakes)}") from None
            if (row.held_to == "tolerance") is (row.tolerance is None):
                raise VseppError(f"{where}: expected a tolerance if held_to is `tolerance`, else none")
            if row.key in rows:
                raise VseppError(f"{where}: {' '.join(map(str, row.key))} is there twice; keep one")
            rows[row.key] = row
    return list(rows.values())


def write_expected(path: Path, rows: Iterable[Expected]) -> None:
    """Write a study's file, its rows in order of run, protocol, seed and metric."""
    metrics = list(SCORES)
    in_order = sorted(rows, key=lambda row: (*row.key[:3], metrics.index(row.metric)))
    write_text(path, csv_text([field.name for field in fields(Expected)], map(vars, in_order)))


def expected_state(rows: Iterable[Expected], records: Records, context: ContextSpec) -> list[State]:
    """State of each expected value by the present results, for the seeds that the report is about.

    Parameters
    ----------
    rows
        The study's rows.
    records
        Records of each model; a score without a record is `not run`.
    context
        The report's context, with its seeds.
    """
    by_seed = {(run, record.spec.seed): record for run, seeds in records.items() for record in seeds}
    return [_state(row, by_seed.get((row.run, row.seed))) for row in rows if row.seed in context.seeds]


def _state(row: Expected, record: Record | None) -> State:
    if record is None or row.protocol not in record.metrics:
        return State(row, NOT_RUN, None)
    off = abs(record.metrics[row.protocol][row.metric] - row.expected)
    if off <= TIGHT:
        return State(row, OK, record)
    too_far = row.tolerance is not None and off > row.tolerance
    lost = row.held_to == "chance" and row.protocol in record.at_chance
    return State(row, FAIL if too_far or lost else OKISH, record)


def counts(states: Iterable[State]) -> list[tuple[str, int]]:
    """How many scores are in which state; states without a score are left out."""
    numbers = Counter(state.word for state in states)
    return [(word, numbers[word]) for word in STATES if numbers[word]]


def counted(states: Iterable[State]) -> str:
    """`105 of 105 scores as expected`, of the scores that were run; empty where none was."""
    numbers = dict(counts(state for state in states if state.word != NOT_RUN))
    if not numbers:
        return ""
    measured, failed = sum(numbers.values()), numbers.get(FAIL, 0)
    parts = [f"{measured - failed} of {measured} scores as expected"]
    if 0 < numbers.get(OKISH, 0) < measured:
        parts.append(f"{numbers[OKISH]} of them within a tolerance")
    if failed:
        parts.append(f"{failed} not as expected: `{as_started()}vsepp expected` shows them")
    return ", ".join(parts)


def expected_to_fail(states: Iterable[State]) -> set[tuple[str, int]]:
    """(run, seed) of models that are held to nothing: their collapse is expected."""
    return {(state.row.run, state.row.seed) for state in states if state.row.held_to == "nothing"}


def worst(states: Iterable[State]) -> str:
    """The worst state among several scores."""
    words = {state.word for state in states}
    return next(word for word in (FAIL, NOT_RUN, OKISH, OK) if word in words)


def set_expected(rows: Iterable[Expected], records: Records) -> list[Expected]:
    """A study's rows as the present results set them; rows of other runs and seeds stay.

    A row whose score did not move keeps its value, its commit and, while `held_to` stays, its cause. `held_to` and
    `tolerance` are set anew where all runs and seeds of the rows are here, since both rest on the spread of all; else both stay.

    Raises
    ------
    VseppError
        Where code or parameters behind a score are in no commit.
    """
    old = {row.key: row for row in rows}
    new = {row.key: row for row in _present_rows(records)}
    has_all = old.keys() <= new.keys()
    for key in old.keys() & new.keys():
        before, row = old[key], new[key]
        if not has_all:
            row = replace(row, tolerance=before.tolerance, held_to=before.held_to, cause=before.cause)
        if abs(before.expected - row.expected) <= TIGHT:
            cause = before.cause if before.held_to == row.held_to else row.cause
            row = replace(row, expected=before.expected, commit=before.commit, cause=cause)
        new[key] = row
    return list({**old, **new}.values())


def _present_rows(records: Records) -> Iterator[Expected]:
    """A row for each score of the present results."""
    scores = {
        (run, protocol): np.array(
            [[record.metrics[protocol][metric] for metric in SCORES] for record in seeds]
        )
        for run, seeds in records.items()
        for protocol in seeds[0].metrics
    }
    rules = {key: _held_to(values[:, -1]) for key, values in scores.items()}
    tolerances = _tolerances({key: values for key, values in scores.items() if rules[key][0] == "tolerance"})
    for run, protocol in scores:
        for record in records[run]:
            held_to, cause = rules[run, protocol]
            if protocol in record.at_chance:
                held_to, cause = "nothing", record.trouble(protocol)
            bounds = tolerances[run, protocol] if held_to == "tolerance" else [None] * len(SCORES)
            commit = _clean_commit(record)
            for metric, bound in zip(SCORES, bounds, strict=True):
                value = round(record.metrics[protocol][metric], 4)
                yield Expected(run, protocol, record.spec.seed, metric, value, bound, held_to, commit, cause)


def _tolerances(scores: Mapping[tuple[str, str], np.ndarray]) -> dict[tuple[str, str], list[float]]:
    """The tolerance of each metric, from the scores `(seeds, metrics)` of the stable runs."""
    variances = {key: values.var(axis=0, ddof=1) for key, values in scores.items()}
    freedom = [len(values) - 1 for values in scores.values()]
    pooled = np.average(list(variances.values()), axis=0, weights=freedom) if scores else 0.0
    return {
        key: (TIMES * np.sqrt(np.maximum(variance, pooled))).round(2).tolist()
        for key, variance in variances.items()
    }


def _held_to(rsums: np.ndarray) -> tuple[HeldTo, str]:
    """What the scores of a run are held to, by rsum of its seeds, and why not to their values."""
    if len(rsums) < 2:
        return "chance", "one seed"
    varies = rsums.std(ddof=1) / rsums.mean()
    cause = f"rsum varied by {100 * varies:.0f} % over {len(rsums)} seeds"
    if varies > FRAGILE:
        return "nothing", f"fragile: {cause}"
    return ("chance", f"unstable: {cause}") if varies > UNSTABLE else ("tolerance", "")


def _clean_commit(record: Record) -> str:
    """The commit that evaluated a model, where commits hold all that is behind its scores."""
    if dirty_steps([record]):
        raise VseppError(
            f"{record.kept.where}: made with uncommitted changes; commit them and make it again, since an "
            "expected value names the commit that set it"
        )
    return record.evaluated[0][:12]


def moved(old: Iterable[Expected], new: Iterable[Expected]) -> list[str]:
    """Lines of the change log: a line for each run and protocol whose rsum moved, and one line for all runs with new values."""
    before, after = ({row.key: row.expected for row in rows if row.metric == "rsum"} for rows in (old, new))
    moves: dict[str, list[str]] = {}
    for key in sorted(before.keys() & after.keys()):
        run, protocol, seed, _ = key
        if abs(before[key] - after[key]) > TIGHT:
            move = f"{before[key]:.1f} → {after[key]:.1f} (seed {seed})"
            moves.setdefault(f"- {run}, {protocol}: rsum ", []).append(move)
    lines = [start + ", ".join(of_seeds) for start, of_seeds in moves.items()]
    added = dict.fromkeys(run for run, *_ in sorted(after.keys() - before.keys()))
    return [*lines, f"- new values: {filters.listing(added)}"] if added else lines


def update_expected(file: Path, log: Path, records: Records, commit: str, why: str = "") -> None:
    """Set a study's values from the present results, and append what moved to the change log.

    Parameters
    ----------
    file
        The study's file; made where there is none.
    log
        `docs/scores.md`.
    records
        Records of each model; errors as in `set_expected`.
    commit
        The commit that is checked out.
    why
        What moved the scores, in a sentence.
    """
    old = read_expected(file) if file.is_file() else []
    new = set_expected(old, records)
    write_expected(file, new)
    if lines := moved(old, new):
        parts = [f"## {file.parent.name}, {commit[:12]}", why, "\n".join(lines)]
        with log.open("a", encoding="utf-8") as stream:
            stream.write("\n" + "\n\n".join(filter(None, parts)) + "\n")


def failures(states: Iterable[State], context: ContextSpec) -> list[str]:
    """A line for each score outside its bounds: the cause that was written down, and the command that makes the score."""
    return [
        f"{row.run}, {row.protocol}, seed {row.seed}, {row.metric}: {row.cause or 'no known cause'}; expected since "
        f"{row.commit}; made by: {command(record.spec, context)}"
        for row, word, record in states
        if word == FAIL and record
    ]


def matrix(states: Iterable[State]) -> list[tuple[str, ...]]:
    """Rows to print, headings first: run, protocol, seed, each metric beside its expected value, the worst state of the row."""
    groups: dict[tuple[str, str, int], dict[str, State]] = {}
    for state in states:
        groups.setdefault(state.row.key[:3], {})[state.row.metric] = state
    rows = [("run", "protocol", "seed", *SCORES.values(), "state")]
    for (run, protocol, seed), metrics in groups.items():
        cells = [_cell(metrics[metric]) if metric in metrics else "" for metric in SCORES]
        rows.append((run, protocol, str(seed), *cells, worst(metrics.values())))
    return rows


def _cell(state: State) -> str:
    row = state.row
    bound = f" ± {row.tolerance:.1f}" if row.tolerance is not None else f", held to {row.held_to}"
    return f"{filters.number(state.value)} ({row.expected:.1f}{bound})"
