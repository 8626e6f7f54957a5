"""Time of work at measured rates, the longest chain of jobs, and the time from the first job to the last."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from vsepp.costs.rates import Rates
from vsepp.costs.work import Job, Part, Work

NO_COUNT = "how many images there are"
"""Missing where a data set's entry gives no numbers of images or captions."""


class Time(NamedTuple):
    """Seconds of work, as far as they are known."""

    seconds: float
    missing: frozenset[str]
    """What is not known, in words; the sum is a lower bound where there is anything."""


def time_of(work: Iterable[Work], rates: Rates | None, parts: Iterable[Part] | None = None) -> Time:
    """Time of some work on a device, or of those of its parts that are named."""
    seconds, missing = 0.0, set()
    for item in work:
        if parts is not None and item.part not in parts:
            continue
        speed = rates.per_second(item.entry, item.rate) if rates else None
        if item.amount is None:
            missing.add(NO_COUNT)
        elif speed is None:
            missing.add(f"{item.rate} of {item.entry}")
        else:
            seconds += item.amount / speed
    return Time(seconds, frozenset(missing))


def longest_chain(found: Mapping[str, Job], seconds: Mapping[str, float]) -> tuple[float, list[str]]:
    """Seconds and jobs of the chain that bounds the time however many devices there are."""
    ends: dict[str, float] = {}
    before: dict[str, str | None] = {}
    for name, job in found.items():  # each comes after what it needs
        before[name] = max(job.needs, key=ends.__getitem__, default=None)
        ends[name] = seconds[name] + (ends[before[name]] if before[name] else 0.0)
    last: str | None = max(ends, key=ends.__getitem__, default=None)
    total, chain = ends.get(last or "", 0.0), []
    while last is not None:
        chain.append(last)
        last = before[last]
    return total, chain[::-1]


def wall_seconds(
    found: Mapping[str, Job], seconds: Mapping[str, float], devices: int, *, cores_apart: bool = True
) -> float:
    """Time from the first job to the last on so many devices, one job on each at a time.

    List scheduling: whatever is free takes the job that is ready and has the longest way to the end.

    Parameters
    ----------
    found
        The jobs.
    seconds
        Of each of them.
    devices
        At least 1.
    cores_apart
        Whether jobs of the cores, which take all of them, run beside those of the devices; false on a machine
        without a GPU, whose device its cores are.
    """
    way = _ways_to_the_end(found, seconds)
    waits = {name: len(job.needs) for name, job in found.items()}
    readers: dict[str, list[str]] = {name: [] for name in found}
    for name, job in found.items():
        for need in job.needs:
            readers[need].append(name)
    free = [devices, 1]
    ready: list[list[tuple[float, str]]] = [[], []]

    def place(name: str) -> int:
        return int(cores_apart and found[name].on_cores)

    for name, count in waits.items():
        if not count:
            heapq.heappush(ready[place(name)], (-way[name], name))
    now, running = 0.0, []
    while running or any(ready):
        for kind in (0, 1):
            while free[kind] and ready[kind]:
                free[kind] -= 1
                name = heapq.heappop(ready[kind])[1]
                heapq.heappush(running, (now + seconds[name], name))
        now, name = heapq.heappop(running)
        free[place(name)] += 1
        for reader in readers[name]:
            waits[reader] -= 1
            if not waits[reader]:
                heapq.heappush(ready[place(reader)], (-way[reader], reader))
    return now


def _ways_to_the_end(found: Mapping[str, Job], seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds from each job's start to the end of the longest chain that it begins."""
    way = dict(seconds)
    for name in reversed(found):  # type: ignore[call-overload]
        for need in found[name].needs:
            way[need] = max(way[need], seconds[need] + way[name])
    return way
