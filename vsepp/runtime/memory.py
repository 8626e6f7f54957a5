"""Errors when the host or a GPU runs out of memory, saying what to lower."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from vsepp.errors import VseppError
from vsepp.runtime.progress import bytes_text, peak_memory

# torch has an error class for GPUs only. Its allocator on the host and the libraries below it only say so in words, and the
# compiler names the error that it met.
_WORDS = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED", "MemoryError")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out."""
    said = any(word in str(error) for word in _WORDS)
    return said or isinstance(error, (MemoryError, torch.OutOfMemoryError))


@contextmanager
def out_of_memory_explained(what: str, device: torch.device, lower: Sequence[str]) -> Iterator[None]:
    """Turn an out-of-memory error into one that says what to lower; raise other failures unchanged.

    Parameters
    ----------
    what
        What was computed, in a few words.
    device
        Where it was computed.
    lower
        What to change, each in a few words, the best first: `lower schedule.batch_size, now 128`.

    Raises
    ------
    VseppError
        If the host or the GPU has no memory left.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        lines = str(error).splitlines()
        telling = [line for line in lines if any(word in line for word in _WORDS)]
        reason = next(iter([*telling, *lines]), type(error).__name__)
        advice = "; or ".join([*lower, "end other programs that use memory here"])
        raise VseppError(
            f"{what}: out of memory on {device} ({reason.strip()}); {_memory_there(device)}. "
            f"{advice[0].upper()}{advice[1:]}. Then run the same command again: it continues where it was"
        ) from error


def _memory_there(device: torch.device) -> str:
    """The memory of the GPU or machine, and this process's peak, in words."""
    if device.type == "cuda":
        free, there = torch.cuda.mem_get_info(device)
        peak = torch.cuda.max_memory_allocated(device)
        return (
            f"this process took {bytes_text(peak)} at most; of the GPU's {bytes_text(there)}, "
            f"{bytes_text(free)} are free"
        )
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"this process took {bytes_text(peak_memory())} at most; the machine has {bytes_text(there)}"
