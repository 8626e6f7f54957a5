"""What a measurement's process does over and over."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch


def peak_host_bytes() -> int:
    """Bytes that this process has held at most."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def own_peaks() -> dict[str, int]:
    """The most memory that this process has held, on the host and on its GPU if it used one."""
    peaks = {"peak_host_bytes": peak_host_bytes()}
    if torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        peaks["peak_device_bytes"] = max(torch.cuda.max_memory_allocated(device) for device in devices)
    return peaks


def nothing() -> None:
    """End work that holds nothing which does not end by itself."""


class Case(NamedTuple):
    """Work that is timed."""

    call: Callable[[], object]
    items: int
    """Of a call."""
    facts: dict[str, Any]
    cpu_clock: Callable[[], float] = time.process_time
    """CPU seconds spent so far, on the work of all calls."""
    peaks: Callable[[], dict[str, int]] = own_peaks
    close: Callable[[], object] = nothing
    """Ends what goes on between calls, such as threads, and puts back what is set for a process."""
