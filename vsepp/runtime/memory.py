"""Errors of a step whose host or GPU ran out of memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from vsepp.errors import VseppError
from vsepp.runtime.progress import bytes_text, peak_memory

# torch has an error class for GPUs only. Its allocator on the host and the libraries below it only say so in words, and the
# compiler names the error that it met.
_WORDS = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED", "MemoryError")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out."""
    return isinstance(error, MemoryError) or any(word in str(error) for word in _WORDS)


@contextmanager
def out_of_memory_explained(what: str) -> Iterator[None]:
    """Turn an out-of-memory error into one sentence; raise other failures unchanged.

    Parameters
    ----------
    what
        What was computed, in a few words.

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
        device, memory = _memory()
        raise VseppError(f"{what}: out of memory on {device} ({reason.strip()}); {memory}") from error


def _memory() -> tuple[str, str]:
    """The device of this process, and in words its memory and the part that this process took."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        free, total = torch.cuda.mem_get_info()
        peak = bytes_text(torch.cuda.max_memory_allocated())
        total, free = bytes_text(total), bytes_text(free)
        return "cuda", f"this process took {peak} at most; of the GPU's {total}, {free} are free"
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    peak = bytes_text(peak_memory())
    return "cpu", f"this process took {peak} at most; the machine has {bytes_text(total)}"
