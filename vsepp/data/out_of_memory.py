"""Errors where the host or a GPU has no memory left, with what to lower."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch

from vsepp.errors import VseppError

# torch has a class for GPUs only; its allocator on the host and the libraries below it say it in words, and the compiler
# names the error that it met.
_WORDS = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED", "MemoryError")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    said = any(word in str(error) for word in _WORDS)
    return said or isinstance(error, (MemoryError, torch.OutOfMemoryError))


@contextmanager
def out_of_memory_explained(
    what: str, device: torch.device, explanation: Callable[[], str]
) -> Iterator[None]:
    """Turn a refusal of memory into an error that says what to lower; other failures pass.

    Parameters
    ----------
    what
        What was computed, in a few words.
    device
        Where.
    explanation
        What it needs, what there is, and what to lower, in whole sentences; asked for after the failure.

    Raises
    ------
    VseppError
        Where the host or the GPU has no memory left.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        lines = str(error).splitlines()
        telling = [line for line in lines if any(word in line for word in _WORDS)]
        reason = next(iter([*telling, *lines]), type(error).__name__)
        raise VseppError(f"{what}: out of memory on {device} ({reason.strip()}). {explanation()}") from error


def memory_there(device: torch.device) -> str:
    """What a GPU or the machine has, in words."""
    if device.type == "cuda":
        free, there = torch.cuda.mem_get_info(device)
        return f"the GPU has {gib(there)}, of which {gib(free)} are free of all processes"
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return f"this process has used {gib(peak)} at most; the machine has {gib(there)}"


def move_data_off(resident: Mapping[str, int]) -> str:
    """What to set where data lie on a GPU, data → their bytes: without an end, or nothing where none do."""
    if not resident:
        return ""
    data = ", ".join(f"{what}, {gib(size)}" for what, size in resident.items())
    return f"On the GPU lie data too ({data}): set resources.data_on (--data-on) to pinned"


def gib(size: float) -> str:
    """Bytes in GiB."""
    return f"{size / 2**30:.2f} GiB"
