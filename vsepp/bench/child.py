"""One measurement in a process of its own, which does its work when it is told to, so that its peaks are its own.

It reads lines: `turn` does the work for a while and is answered with what it took, and `end` with the peaks.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

import torch

from vsepp.bench.cases import Case, make_case
from vsepp.bench.catalogue import Measurement


def serve(
    measurement: Measurement, device: torch.device, turn_seconds: float, asked: IO[str], answers: IO[str]
) -> None:
    """Set a measurement up, warm it up, and take turns until the end.

    Parameters
    ----------
    measurement
        What.
    device
        Where.
    turn_seconds
        The work is repeated within a turn until it takes about so long.
    asked, answers
        Lines of text: commands in, JSON out.
    """

    def answer(**values: Any) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    before = _peak_host()
    with tempfile.TemporaryDirectory(prefix="vsepp-bench-") as folder:
        case = make_case(measurement, Path(folder), device)
        calls = _calls_of_a_turn(case, device, turn_seconds)
        answer(
            items=case.items * calls,
            facts={
                "device": device.type,
                **case.facts,
                "threads": torch.get_num_threads(),
                "calls_of_a_turn": calls,
            },
        )
        for line in asked:
            if line.strip() != "turn":
                break
            seconds, cpu = _turn(case, calls, device)
            answer(seconds=seconds, cpu_seconds=cpu)
        peaks = {"peak_host_bytes": _peak_host(), "host_bytes_before": before}
        if device.type == "cuda":
            peaks["peak_device_bytes"] = torch.cuda.max_memory_allocated(device)
        answer(**peaks)


def _calls_of_a_turn(case: Case, device: torch.device, turn_seconds: float) -> int:
    """Warm up, and find how many calls fill a turn; a call that is much longer than a turn warms up once."""
    seconds, _ = _turn(case, 1, device)
    if seconds < 4 * turn_seconds:
        seconds, _ = _turn(case, 1, device)
    return max(1, min(1000, math.ceil(turn_seconds / seconds)))


def _turn(case: Case, calls: int, device: torch.device) -> tuple[float, float]:
    """Seconds and CPU seconds of some calls, until the device is done."""
    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        case.call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started, time.process_time() - cpu


def _peak_host() -> int:
    """Bytes that this process has held at most."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
