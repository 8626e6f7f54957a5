"""One measurement in a process of its own, which does its work when it is told to, so that its peaks are its own.

It is told `turn`, does the work for a while and answers with what it took, and `end`, which it answers with its peaks.
"""

from __future__ import annotations

import math
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from vsepp.bench.case import Case, peak_host_bytes
from vsepp.bench.cases import make_case
from vsepp.bench.measurement import Measurement


def serve(measurement: Measurement, device: torch.device, turn_seconds: float, asked: Connection) -> None:
    """Set a measurement up, warm it up, and take turns until the end.

    Parameters
    ----------
    measurement
        What.
    device
        Where.
    turn_seconds
        The work is repeated within a turn until it takes about so long.
    asked
        Commands in, dictionaries out: at first `items` of a turn and `facts`.
    """
    before = peak_host_bytes()
    with tempfile.TemporaryDirectory(prefix="vsepp-bench-") as folder:
        case = make_case(measurement, Path(folder), device)
        calls = _calls_of_a_turn(case, turn_seconds)
        own = {"device": device.type, "threads": torch.get_num_threads(), "calls_of_a_turn": calls}
        asked.send({"items": case.items * calls, "facts": {**own, **case.facts}})
        while asked.recv() == "turn":
            seconds, cpu = _turn(case, calls)
            asked.send({"seconds": seconds, "cpu_seconds": cpu})
        asked.send({**case.peaks(), "host_bytes_before": before})


def _calls_of_a_turn(case: Case, turn_seconds: float) -> int:
    """Warm up, and find how many calls fill a turn; a call that is much longer than a turn warms up once."""
    seconds, _ = _turn(case, 1)
    if seconds < 4 * turn_seconds:
        seconds, _ = _turn(case, 1)
    return max(1, min(1000, math.ceil(turn_seconds / seconds)))


def _turn(case: Case, calls: int) -> tuple[float, float]:
    """Seconds and CPU seconds of some calls, until the device is done."""
    started, cpu = time.perf_counter(), case.cpu_clock()
    for _ in range(calls):
        case.call()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter() - started, case.cpu_clock() - cpu
