"""The device and threads that a job computes with."""

from __future__ import annotations

import atexit
import ctypes
import logging
import re
from contextlib import ExitStack, suppress
from typing import Any

import torch

from vsepp.base import devices
from vsepp.base.errors import VseppError

log = logging.getLogger("vsepp")


def use_machine(
    wanted: str = "auto", *, share: int = 1, threads: int | None = None, job: str = "vsepp"
) -> tuple[torch.device, dict[str, Any]]:
    """Set the threads and choose the device.

    A GPU is locked until the process ends; see `vsepp.base.devices.claim`. Under
    `torchrun` each process has the GPU of its local rank and takes no lock.

    Parameters
    ----------
    wanted
        `auto`, `cpu`, `cuda` (a free GPU; waits for one) or `cuda:N` (this GPU).
    share
        How many jobs like this one share a GPU.
    threads
        CPU threads of tensor operations; torch's own choice by default.
    job
        Step and output, for the log while this job waits for a GPU.

    Returns
    -------
    tuple
        The device, and the facts for the manifest: `device`, `threads`, `instructions` of the CPU and, if
        one was claimed, `gpu`.

    Raises
    ------
    VseppError
        If the wanted device does not exist.
    """
    facts = use_cpu(threads)
    device, gpu = _choose_device(wanted, share, job)
    if device.type == "cuda":
        facts["device"] = torch.cuda.get_device_name(device)
    return device, facts if gpu is None else {**facts, "gpu": gpu}


def present_device(wanted: str) -> torch.device:
    """The device of a name, without a claim on it: `auto` is a GPU if there is one.

    Raises
    ------
    VseppError
        If there is no such device.
    """
    _require_name(wanted)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if wanted == "cpu" or (wanted == "auto" and not count):
        return torch.device("cpu")
    device = torch.device("cuda" if wanted == "auto" else wanted)
    if (device.index or 0) >= count:
        raise VseppError(f"device: got {wanted}, but torch finds {count} GPUs; use cpu or auto")
    return device


def _require_name(wanted: str) -> None:
    if not re.fullmatch(r"auto|cpu|cuda(:(0|[1-9][0-9]?))?", wanted):
        raise VseppError(f"device: got {wanted!r}; expected auto, cpu, cuda or cuda:N")


def use_cpu(threads: int | None = None) -> dict[str, Any]:
    """Set the threads of a step that computes on the CPU; returns the facts for its manifest."""
    _keep_freed_memory()
    if devices.process_rank() > 0:  # the first process speaks for all of them
        log.setLevel(logging.WARNING)
    if threads:
        torch.set_num_threads(threads)
    return {
        "device": "cpu",
        "threads": torch.get_num_threads(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def _keep_freed_memory() -> None:
    """Tell glibc to keep what tensors free, up to two gigabytes, instead of returning it
    to the kernel at once.

    Every step allocates the same sizes again; fetching fresh pages for them took a fifth of a CPU training's
    time, and a quarter to a third of the time of an encoder in fp32.
    """
    m_trim_threshold, m_mmap_threshold = -1, -3  # constants of malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another libc
        return
    mallopt(m_mmap_threshold, 1 << 30)
    mallopt(m_trim_threshold, (1 << 31) - 1)  # the largest that a C int holds


def return_freed_memory() -> None:
    """Give freed memory back to the system: for a process that waits long after large work."""
    with suppress(OSError, AttributeError):  # another libc
        ctypes.CDLL(None).malloc_trim(0)


def _choose_device(wanted: str, share: int, job: str) -> tuple[torch.device, str | None]:
    """The wanted device, claimed for this process if it is a GPU, and the claimed GPU."""
    _require_name(wanted)
    if wanted == "cpu":
        return torch.device("cpu"), None
    if torch.cuda.is_initialized():  # by an earlier step of this process, which keeps its GPU
        return torch.device("cuda", torch.cuda.current_device()), None
    gpus, rank = devices.visible_gpus(), devices.local_rank()
    device, gpu, claimed = torch.device("cuda", rank or 0), None, ExitStack()
    usable = gpus if torch.backends.cuda.is_built() else ()
    # Before CUDA is asked anything: the driver looks at the visible GPUs once.
    if rank is not None:
        if usable and rank >= len(gpus):
            raise VseppError(
                f"torchrun: a process with local rank {rank} was started, but there are {len(gpus)} GPUs "
                f"here; expected {len(gpus)} processes on this machine or fewer, or device cpu"
            )
    elif usable:
        allowed = devices.allowed_gpus(usable, torch.device(wanted).index if wanted != "auto" else None)
        gpu = claimed.enter_context(devices.claim(job, allowed, share))
    if torch.cuda.is_available():
        atexit.register(claimed.close)
        return device, gpu
    claimed.close()
    reason = _why_no_gpu()
    if wanted != "auto":
        raise VseppError(
            f"device: got {wanted}, but torch finds no GPU ({reason}); use auto to fall back on the CPU"
        )
    if gpus:
        log.warning(
            "GPUs %s exist, but torch finds none (%s); this job computes on the CPU", ", ".join(gpus), reason
        )
    return torch.device("cpu"), None


def _why_no_gpu() -> str:
    """Why torch does not use the GPUs of this machine, in its own words."""
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return next(iter(str(error).splitlines()), type(error).__name__)
    return "it counts none"
