"""Expected values: what every score of a study is expected to be, how far it may be off, and which commit set it.

The values of a study are data: `docs/results/<study>/expected.csv`, a row for each run, protocol, seed and metric.

| held to | a score is as expected | within tolerance | not as expected |
|---|---|---|---|
| `tolerance` | within `TIGHT` points of the expected value | within the tolerance | outside, on either side |
| `chance` | the same | the model ranks above chance | it ranks like chance |
| `nothing` | the same | always | never |

The tolerance is `TIMES` the sample standard deviation over the seeds of the run, and not less than `TIMES` the one that is
pooled over the stable runs of the study, since three seeds can agree by luck. It is wide because the rounding of another
CPU moves a score further than another seed does: from a Xeon with AMX to an EPYC the 51 scores of mini that have a
tolerance moved by 2.2 of the pooled deviations (their root mean square), and by 6.1 at most. A run whose rsum varies by more
than `UNSTABLE` of its mean over the seeds, and one with a single seed, is held to ranking above chance. One that varies by
more than `FRAGILE` may collapse elsewhere: it is held to nothing, as is a seed that ranks like chance itself.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from statistics import mean, stdev, variance

from vsepp.errors import VseppError
from vsepp.reporting import filters
from vsepp.reporting.records import Record, Records
from vsepp.reporting.specs import ContextSpec
from vsepp.runtime.files import write_text
from vsepp.spec import seeded

METRICS = {"i2t_r1": "caption R@1", "t2i_r1": "image R@1", "rsum": "rsum"}
"""That are held to a value → what they are called."""
OK, OKISH, FAIL, NOT_RUN = "as expected", "within tolerance", "not as expected", "not run"
WORDS = (OK, OKISH, FAIL, NOT_RUN)
"""Of a score, in the order in which they are counted."""
TOLERANCE, CHANCE, NOTHING = "tolerance", "chance", "nothing"
TIGHT = 0.05
TIMES = 8.0
UNSTABLE = 0.05
FRAGILE = 0.33


@dataclass(frozen=True)
class Expected:
    """One row of the file."""

    run: str
    protocol: str
    seed: int
    metric: str
    expected: float
    tolerance: float | None
    """Points on both sides; `None` where the score is not held to its value."""
    held_to: str
    """`tolerance`, `chance` or `nothing`."""
    commit: str
    """That evaluated it; of the run's training where that is not the same, see its manifest."""
    cause: str = ""
    """Of a known deviation, written by hand or by the rule."""


@dataclass(frozen=True)
class State:
    """A row, and what the present results say of it."""

    row: Expected
    value: float | None
    word: str
    """One of `WORDS`."""
    command: str
    """That makes the score."""


def study(root: Path, preset: str, variant: str) -> Path:
    """File of a variant's expected values, below the folder of the documentation."""
    name = preset if variant == "paper" else f"{preset}-{variant}"
    return root / "results" / name / "expected.csv"


def read_expected(path: Path) -> list[Expected]:
    """Read a study's file.

    Raises
    ------
    VseppError
        Where there is none, and naming the row that is wrong.
    """
    if not path.is_file():
        raise VseppError(f"{path}: no such file; no values were set for this study")
    with path.open(newline="", encoding="utf-8") as stream:
        table = csv.DictReader(stream)
        names = [one.name for one in fields(Expected)]
        if table.fieldnames != names:
            raise VseppError(f"{path}: expected the columns {', '.join(names)}")
        rows = [_row(cells, f"{path}, line {table.line_num}") for cells in table]
    keys = [_key(row) for row in rows]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise VseppError(f"{path}: {' '.join(map(str, twice))} stands twice; keep one")
    return rows


def write_expected(path: Path, rows: Iterable[Expected]) -> None:
    """Write a study's file, its rows in order of run, protocol, seed and metric."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([one.name for one in fields(Expected)])
    for row in sorted(rows, key=lambda row: (*_key(row)[:3], list(METRICS).index(row.metric))):
        cells = astuple(replace(row, expected=round(row.expected, 4)))
        writer.writerow(["" if cell is None else cell for cell in cells])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text.getvalue())


def expected_state(rows: Iterable[Expected], records: Records, context: ContextSpec) -> list[State]:
    """What the present results say of each expected value of the seeds that the report is about.

    Parameters
    ----------
    rows
        Of the study.
    records
        Of each model; what is not among them is `not run`.
    context
        Preset, variant and seeds of the report.
    """
    found = {(run, record.spec.seed): record for run, seeds in records.items() for record in seeds}
    states = []
    for row in rows:
        if row.seed in context.seeds:
            record = found.get((row.run, row.seed))
            section = record.metrics.get(row.protocol) if record else None
            value = None if section is None else section[row.metric]
            word = NOT_RUN if record is None or section is None else _word(row, record)
            states.append(State(row, value, word, _command(row, context)))
    return states


def counts(states: Iterable[State]) -> list[tuple[str, int]]:
    """How many scores are in which state; states that none is in are left out."""
    words = [state.word for state in states]
    return [(word, words.count(word)) for word in WORDS if word in words]


def set_expected(rows: Sequence[Expected], records: Records) -> list[Expected]:
    """The rows that the present results give; those of other runs and seeds stay.

    A row whose score did not move stays as it is but for its tolerance, and so keeps its commit and its cause. With fewer
    seeds here than the rows have, what a run is held to stays too, and with fewer runs its tolerance.

    Raises
    ------
    VseppError
        Where code or parameters behind a score are in no commit.
    """
    old = {_key(row): row for row in rows}
    new: dict[tuple[str, str, int, str], Expected] = {}
    rules = _rules(records)
    # Tolerances rest on the deviations of all stable runs together.
    whole = {row.run for row in rows if row.held_to == TOLERANCE} <= records.keys()
    for run, seeds in records.items():
        for record in seeds:
            commit, dirty = record.evaluated
            if dirty or record.dirty:
                raise VseppError(
                    f"{record.kept.where}: made with uncommitted changes; commit them and make it again, since an "
                    "expected value names the commit that set it"
                )
            for protocol in record.metrics:
                for metric in METRICS:
                    row = _fresh(record, run, protocol, metric, commit, rules[run, protocol])
                    new[_key(row)] = _kept(row, old.get(_key(row)), rows, len(seeds), whole)
    return [*(row for key, row in old.items() if key not in new), *new.values()]


def moved(old: Iterable[Expected], new: Iterable[Expected]) -> list[str]:
    """Lines of the change log: a line for each run and protocol whose rsum moved, and one for the runs that are new."""
    before, after = ({_key(row): row.expected for row in rows if row.metric == "rsum"} for rows in (old, new))
    lines: dict[str, list[str]] = {}
    for (run, protocol, seed, _), value in sorted(after.items()):
        was = before.get((run, protocol, seed, "rsum"))
        if was is not None and abs(was - value) > TIGHT:
            lines.setdefault(f"{run}, {protocol}", []).append(f"{was:.1f} → {value:.1f} (seed {seed})")
    told = [f"- {name}: rsum {', '.join(parts)}" for name, parts in lines.items()]
    if added := list(dict.fromkeys(key[0] for key in sorted(set(after) - set(before)))):
        told.append(f"- new values: {filters.listing(added)}")
    return told


def update_expected(file: Path, log: Path, records: Records, commit: str, why: str = "") -> None:
    """Set a study's values from the present results, and append what moved to the change log.

    Parameters
    ----------
    file
        Of the study; made where there is none.
    log
        `docs/scores.md`.
    records
        Of each model; errors as in `set_expected`.
    commit
        That is checked out.
    why
        What moved the scores, in a sentence.
    """
    old = read_expected(file) if file.is_file() else []
    new = set_expected(old, records)
    write_expected(file, new)
    if lines := moved(old, new):
        parts = [f"## {file.parent.name}, {commit[:12]}", *([why] if why else []), "\n".join(lines)]
        with log.open("a", encoding="utf-8") as stream:
            stream.write("\n" + "\n\n".join(parts) + "\n")


def failures(states: Iterable[State]) -> list[str]:
    """Of each score outside its bounds: the cause that was written down, and the command that makes it."""
    return [
        f"{state.row.run}, {state.row.protocol}, seed {state.row.seed}, {state.row.metric}: "
        f"{state.row.cause or 'no known cause'}; expected since {state.row.commit}; made by: {state.command}"
        for state in states
        if state.word == FAIL
    ]


def matrix(states: Sequence[State]) -> list[tuple[str, ...]]:
    """Rows to print: run, protocol, seed, each metric beside what is expected, the worst state of these; headings first."""
    rows = [("run", "protocol", "seed", *METRICS.values(), "state")]
    groups: dict[tuple[str, str, int], dict[str, State]] = {}
    for state in states:
        groups.setdefault((state.row.run, state.row.protocol, state.row.seed), {})[state.row.metric] = state
    for (run, protocol, seed), metrics in groups.items():
        cells = [_cell(metrics[metric]) if metric in metrics else "" for metric in METRICS]
        rows.append((run, protocol, str(seed), *cells, worst(metrics.values())))
    return rows


def worst(states: Iterable[State]) -> str:
    """The state of several scores together: that of the worst."""
    words = {state.word for state in states}
    return next(word for word in (FAIL, NOT_RUN, OKISH, OK) if word in words)


def reproduction(states: Sequence[State], records: Records) -> str:
    """One row of the table in `docs/reproductions.md`: where these results were made, with what, and how they came out."""
    made = [record.kept.evaluated for seeds in records.values() for record in seeds]
    machines = dict.fromkeys(
        f"{one['machine']['processor']}, {one['machine']['cores']} cores, {one['facts'].get('device', 'cpu')}"
        for one in made
    )
    versions = dict.fromkeys(
        ", ".join(f"{name} {one['versions'][name]}" for name in ("torch", "numpy") if name in one["versions"])
        for one in made
    )
    commits = dict.fromkeys(filters.commit(str(one["git"]["commit"]), one["git"]["dirty"]) for one in made)
    said = ", ".join(f"{number} {word}" for word, number in counts(states))
    return f"| {'; '.join(machines)} | {'; '.join(versions)} | {'; '.join(commits)} | {said} |"


def _row(cells: Mapping[str, str | None], where: str) -> Expected:
    try:
        row = Expected(
            run=cells["run"] or "",
            protocol=cells["protocol"] or "",
            seed=int(cells["seed"] or ""),
            metric=cells["metric"] or "",
            expected=float(cells["expected"] or ""),
            tolerance=float(cells["tolerance"]) if cells["tolerance"] else None,
            held_to=cells["held_to"] or "",
            commit=cells["commit"] or "",
            cause=cells["cause"] or "",
        )
    except ValueError as error:
        raise VseppError(f"{where}: {error}") from None
    if row.metric not in METRICS or row.held_to not in (TOLERANCE, CHANCE, NOTHING):
        raise VseppError(
            f"{where}: expected a metric of {', '.join(METRICS)}, held to tolerance, chance or nothing; "
            f"got {row.metric!r} and {row.held_to!r}"
        )
    if (row.held_to == TOLERANCE) is (row.tolerance is None):
        raise VseppError(f"{where}: a tolerance is given exactly where a score is held to it")
    return row


def _key(row: Expected) -> tuple[str, str, int, str]:
    return row.run, row.protocol, row.seed, row.metric


def _word(row: Expected, record: Record) -> str:
    section = record.metrics[row.protocol]
    off = abs(section[row.metric] - row.expected)
    if off <= TIGHT:
        return OK
    if row.held_to == TOLERANCE:
        assert row.tolerance is not None
        return OKISH if off <= row.tolerance else FAIL
    return FAIL if row.held_to == CHANCE and record.at_chance(row.protocol) else OKISH


def _command(row: Expected, context: ContextSpec) -> str:
    """The command that makes a score; of a variant with a label its own overrides come on top."""
    chosen = [f"preset={context.preset}", f"fidelity={context.fidelity}", f"'seeds=[{row.seed}]'"]
    if context.variant != context.fidelity:
        chosen.append(f"label={context.variant}")
    folder = f"results/{context.preset}/{context.variant}/evaluations/{seeded(row.run, row.seed)}"
    return f"snakemake --cores all --config {' '.join(chosen)} -- {folder}/metrics.json"


def _rules(records: Records) -> dict[tuple[str, str], dict[str, float] | str]:
    """(run, protocol) → tolerance of each metric, or why there is none."""
    stable: dict[tuple[str, str], dict[str, list[float]]] = {}
    rules: dict[tuple[str, str], dict[str, float] | str] = {}
    for run, seeds in records.items():
        for protocol in seeds[0].metrics:
            found = [record.metrics[protocol] for record in seeds]
            if len(found) < 2:
                rules[run, protocol] = "one seed"
                continue
            values = {metric: [one[metric] for one in found] for metric in METRICS}
            varies = stdev(values["rsum"]) / mean(values["rsum"])
            if varies > UNSTABLE:
                kind = "fragile" if varies > FRAGILE else "unstable"
                rules[run, protocol] = f"{kind}: rsum varied by {100 * varies:.0f} % over {len(found)} seeds"
            else:
                stable[run, protocol] = values
    least = {metric: _pooled([values[metric] for values in stable.values()]) for metric in METRICS if stable}
    for key, values in stable.items():
        rules[key] = {
            metric: round(TIMES * max(stdev(values[metric]), least[metric]), 2) for metric in METRICS
        }
    return rules


def _pooled(groups: Sequence[Sequence[float]]) -> float:
    """The standard deviation within the groups, each weighted by its degrees of freedom."""
    weights = [(len(group) - 1, variance(group)) for group in groups]
    return (sum(free * one for free, one in weights) / sum(free for free, _ in weights)) ** 0.5


def _fresh(
    record: Record, run: str, protocol: str, metric: str, commit: str, rule: dict[str, float] | str
) -> Expected:
    section = record.metrics[protocol]
    tolerance, held_to, cause = None, CHANCE, rule
    if record.at_chance(protocol):
        held_to, cause = NOTHING, "collapsed" if record.collapsed else "ranks like chance"
    elif isinstance(rule, dict):
        tolerance, held_to, cause = rule[metric], TOLERANCE, ""
    elif rule.startswith("fragile"):
        held_to = NOTHING
    return Expected(
        run,
        protocol,
        record.spec.seed,
        metric,
        round(section[metric], 4),
        tolerance,
        held_to,
        commit[:12],
        str(cause),
    )


def _kept(row: Expected, old: Expected | None, rows: Sequence[Expected], seeds: int, whole: bool) -> Expected:
    """A new row, with what stays of the one that was there."""
    known = {other.seed for other in rows if (other.run, other.protocol) == (row.run, row.protocol)}
    if old is None:
        return row
    if seeds < len(known) or (not whole and old.held_to == row.held_to == TOLERANCE):
        row = replace(row, tolerance=old.tolerance, held_to=old.held_to, cause=old.cause)
    if abs(old.expected - row.expected) > TIGHT:
        return row
    same = old.held_to == row.held_to
    return replace(row, expected=old.expected, commit=old.commit, cause=old.cause if same else row.cause)


def _cell(state: State) -> str:
    row = state.row
    bound = f" ± {row.tolerance:.1f}" if row.tolerance is not None else f", held to {row.held_to}"
    value = filters.MISSING if state.value is None else f"{state.value:.1f}"
    return f"{value} ({row.expected:.1f}{bound})"
