"""One measurement in a process of its own, which does its work when it is told to, so that its peaks are its own.

It is told `turn`, does the work for a while and answers with what it took, and `end`, which it answers with its peaks.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from vsepp.bench.case import Case, peak_host_bytes
from vsepp.bench.cases import make_case
from vsepp.bench.measurement import Measurement

# On a GPU the first calls compile, record CUDA graphs and choose algorithms.
_LEAST_ON_GPU, _MOST = 3, 10
_AGREE = 0.2
# On a CPU, where a step of a network of full size takes half a minute and the first one is as fast as any.
_TURNS_ON_CPU = 4


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
    with (
        tempfile.TemporaryDirectory(prefix="vsepp-bench-") as folder,
        closing(make_case(measurement, Path(folder), device)) as case,
    ):
        facts = {"device": device.type, "threads": torch.get_num_threads(), **case.facts}
        warming: list[float] = []
        while not is_warm(warming, turn_seconds, on_gpu=facts["device"] == "cuda"):
            warming.append(_turn(case, 1, device)[0])
        calls = calls_of_a_turn(warming[-1], turn_seconds)
        facts |= {"calls_of_a_turn": calls, "calls_before": len(warming)}
        asked.send({"items": case.items * calls, "facts": facts})
        while asked.recv() == "turn":
            seconds, cpu = _turn(case, calls, device)
            asked.send({"seconds": seconds, "cpu_seconds": cpu})
        asked.send({**case.peaks(), "host_bytes_before": before})


def is_warm(seconds: Sequence[float], turn_seconds: float, *, on_gpu: bool) -> bool:
    """Whether enough calls were made before the first turn: the last two agree within 20 %, or there were ten.

    Parameters
    ----------
    seconds
        Of each call so far.
    turn_seconds
        What a turn should take; on a CPU, calls that took four of them together are enough.
    on_gpu
        At least three calls.
    """
    if on_gpu and len(seconds) < _LEAST_ON_GPU:
        return False
    if len(seconds) >= _MOST or (not on_gpu and sum(seconds) >= _TURNS_ON_CPU * turn_seconds):
        return True
    return len(seconds) > 1 and abs(seconds[-1] - seconds[-2]) <= _AGREE * max(seconds[-2:])


def calls_of_a_turn(seconds: float, turn_seconds: float) -> int:
    """How many calls of so many seconds fill a turn, at least one."""
    return max(1, min(1000, math.ceil(turn_seconds / seconds)))


def _turn(case: Case, calls: int, device: torch.device) -> tuple[float, float]:
    """Seconds and CPU seconds of some calls, until the device is done."""
    started, cpu = time.perf_counter(), case.cpu_clock()
    for _ in range(calls):
        case.call()
    # Work on the host alone leaves the GPU untouched, as does a process that only asks others to work.
    if device.type == "cuda" and torch.cuda.is_initialized():
        torch.cuda.synchronize(device)
    return time.perf_counter() - started, case.cpu_clock() - cpu
