"""Measurements in turn: each in a process of its own, one turn each a round, medians and spreads at the end.

Never imports torch: the processes do.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from vsepp.bench.measurement import UNITS, Group, Measurement, precision_of, rate_of
from vsepp.errors import VseppError


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
FULL = Rounds(seconds=10.0, least=3, most=30, turn_seconds=0.5)


Serve = Callable[[Measurement, Connection], None]
"""What the process of a measurement runs, such as `vsepp.bench.child.serve`; a function that can be pickled."""

# Imports torch once; the process of each measurement is forked from it before anything was computed.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["vsepp.bench.child"])


class _Child:
    """A process that takes turns."""

    def __init__(self, measurement: Measurement, serve: Serve) -> None:
        self.measurement = measurement
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []
        self._end, other = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(target=serve, args=(measurement, other))
        self._process.start()
        other.close()

    def answer(self) -> dict[str, Any]:
        """What the process says next.

        Raises
        ------
        VseppError
            When it failed or has ended instead.
        """
        try:
            said = self._end.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            said = {"error": f"ended with status {self._process.exitcode}"}
        if "error" in said:
            raise VseppError(
                f"{self.measurement.name}: its process failed: {said['error']}. Where memory ran out, measure it by itself "
                "with --only, or on a larger machine"
            )
        return said

    def ask(self, what: str) -> dict[str, Any]:
        """Give a command and wait for what comes of it."""
        with suppress(BrokenPipeError):  # `answer` says why
            self._end.send(what)
        return self.answer()

    def turn(self) -> float:
        """Let it work for a turn; seconds."""
        took = self.ask("turn")
        self.seconds.append(took["seconds"])
        self.cpu_seconds.append(took["cpu_seconds"])
        return took["seconds"]

    def close(self) -> None:
        """End the process, if it has not ended by itself."""
        self._end.close()
        self._process.join(timeout=20)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def measure_group(group: Group, serve: Serve, rounds: Rounds) -> list[dict[str, Any]]:
    """Measure a group.

    Parameters
    ----------
    group
        Measurements that are compared with one another.
    serve
        What each process runs.
    rounds
        How long.

    Returns
    -------
    list
        A result for each, in the same order: see `result`.

    Raises
    ------
    VseppError
        When a process fails, with what it said.
    """
    with ExitStack() as stack:
        children, ready = [], []
        for measurement in group:
            child = _Child(measurement, serve)
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
        `measures`, the `entry` and `rate` of a plan that this is;
        `times_limit`, how many times as long as its limit an item takes; `times_reference`, how many times as fast as
        the reference it is. Both are compared within a round: median, minimum, maximum.
    """
    name = measurement.name
    entry: dict[str, Any] = {
        "name": name,
        "unit": UNITS[measurement.kind],
        "date": datetime.now(UTC).date().isoformat(),
        "precision": precision_of(measurement),
        "per_second": spread([items[name] / second for second in seconds[name]]),
    }
    each = {other: [s / items[other] for s in times] for other, times in seconds.items()}
    if rate := rate_of(measurement):
        entry["measures"] = dict(zip(("entry", "rate"), rate, strict=True))
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
