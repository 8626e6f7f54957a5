"""Measurements in turn: each in a process of its own, one turn each a round, medians and spreads at the end.

Never imports torch: the processes do.
"""

from __future__ import annotations

import json
import logging
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple

from vsepp.bench.catalogue import UNITS, Group, Measurement
from vsepp.errors import VseppError
from vsepp.spec import to_json

log = logging.getLogger("vsepp")


class Rounds(NamedTuple):
    """How long a group is measured."""

    seconds: float
    """For each of its measurements, warm-up apart."""
    least: int
    """Rounds at least."""
    most: int
    turn_seconds: float
    """What a turn should take; one step that takes longer is a turn."""


QUICK = Rounds(seconds=3.0, least=3, most=9, turn_seconds=0.3)
FULL = Rounds(seconds=20.0, least=5, most=30, turn_seconds=1.0)


class _Child:
    """A process that takes turns."""

    def __init__(self, measurement: Measurement, command: Sequence[str], errors: IO[str]) -> None:
        self.measurement = measurement
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []
        self._errors = errors
        self._process = subprocess.Popen(
            [*command, to_json(measurement)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

    def answer(self) -> dict[str, Any]:
        """The next line that the process writes.

        Raises
        ------
        VseppError
            When it has ended instead.
        """
        line = self._process.stdout.readline()
        if line.startswith("{"):
            return json.loads(line)
        self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().strip().splitlines()[-1:] or ["it said nothing"]
        raise VseppError(
            f"{self.measurement.name}: its process ended with status {self._process.returncode}: {said[0]}. Where memory "
            "ran out, measure it by itself with --only, or on a larger machine"
        )

    def ask(self, what: str) -> dict[str, Any]:
        """Give a command and wait for what comes of it."""
        try:
            self._process.stdin.write(what + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `answer` says why
        return self.answer()

    def turn(self) -> float:
        """Let it work for a turn; seconds."""
        took = self.ask("turn")
        self.seconds.append(took["seconds"])
        self.cpu_seconds.append(took["cpu_seconds"])
        return took["seconds"]

    def close(self) -> None:
        """End the process, if it has not ended by itself."""
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def measure_group(group: Group, command: Sequence[str], rounds: Rounds) -> list[dict[str, Any]]:
    """Measure a group.

    Parameters
    ----------
    group
        Measurements that are compared with one another.
    command
        Starts a process of `vsepp.bench.child`, to which a measurement's JSON is added.
    rounds
        How long.

    Returns
    -------
    list
        A result for each, in the same order: see `result`.

    Raises
    ------
    VseppError
        When a process fails, with the last line that it wrote.
    """
    with ExitStack() as stack:
        children, ready = [], []
        for measurement in group:
            errors = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
            child = _Child(measurement, command, errors)
            stack.callback(child.close)
            # One after the other, so that none warms up while another does.
            ready.append(child.answer())
            children.append(child)
        for order in _orders(children, rounds):
            for child in order:
                child.turn()
        peaks = [child.ask("end") for child in children]
    seconds = {child.measurement.name: child.seconds for child in children}
    items = {child.measurement.name: said["items"] for child, said in zip(children, ready, strict=True)}
    found = []
    for child, said, peak in zip(children, ready, peaks, strict=True):
        cpu = said["items"] / max(statistics.median(child.cpu_seconds), 1e-9)
        entry = result(child.measurement, items, seconds)
        found.append({**entry, "per_cpu_second": cpu, **peak, "facts": said["facts"]})
    return found


def _orders(children: list[_Child], rounds: Rounds) -> Iterator[list[_Child]]:
    """The order of each round, every other one backwards, until the time is over."""
    started = time.monotonic()
    for number in range(rounds.most):
        yield children[:: -1 if number % 2 else 1]
        over = time.monotonic() - started >= rounds.seconds * len(children)
        if over and number + 1 >= rounds.least:
            return


def result(
    measurement: Measurement, items: Mapping[str, int], seconds: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """What the turns of a measurement amount to.

    Parameters
    ----------
    measurement
        Which.
    items, seconds
        Items of a turn, and seconds of each turn, of all measurements of its group by name.

    Returns
    -------
    dict
        `name`, `unit`, `date`, `per_second` (items a second: median, minimum, maximum, quartiles, repetitions);
        `times_limit`, how many times as long as its limit an item takes; `times_reference`, how many times as fast as
        the reference it is. Both are compared within a round: median, minimum, maximum.
    """
    name = measurement.name
    entry: dict[str, Any] = {
        "name": name,
        "unit": UNITS[measurement.kind],
        "date": datetime.now(UTC).date().isoformat(),
        "precision": "bf16" if measurement.bf16 else "fp32",
        "per_second": spread([items[name] / second for second in seconds[name]]),
    }
    each = {other: [s / items[other] for s in times] for other, times in seconds.items()}
    if measurement.limit:
        entry["times_limit"] = _ratio(each[name], each[measurement.limit], measurement.limit)
    if measurement.reference:
        entry["times_reference"] = _ratio(each[measurement.reference], each[name], measurement.reference)
    return entry


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, minimum, maximum, quartiles and number of some values."""
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
    return {
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "q1": quartiles[0],
        "q3": quartiles[2],
        "repetitions": len(values),
    }


def _ratio(above: Sequence[float], below: Sequence[float], of: str) -> dict[str, Any]:
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    return {"of": of, "median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
