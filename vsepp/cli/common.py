"""What several subcommands share."""

from __future__ import annotations

import argparse
import atexit
import ctypes
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.runtime import devices
from vsepp.errors import VseppError

if TYPE_CHECKING:
    import torch

log = logging.getLogger("vsepp")


def add_step(
    steps: Any, name: str, call: Callable[[argparse.Namespace], None], description: str
) -> argparse.ArgumentParser:
    """Add a subcommand that runs `call`."""
    parser = steps.add_parser(name, help=description, description=description)
    parser.set_defaults(call=call)
    return parser


def add_spec(parser: argparse.ArgumentParser, kind: str) -> None:
    """Add the option that says what to compute."""
    parser.add_argument("--spec", required=True, help=f"JSON of a {kind}, or a file that holds it")


def add_folders(parser: argparse.ArgumentParser, **folders: str) -> None:
    """Add options for folders of earlier steps; those described as optional may be left out."""
    for name, description in folders.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=Path,
            required=not description.startswith("optional"),
            help=description,
        )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the folder to publish in."""
    parser.add_argument("--output", type=Path, required=True, help="folder to publish in")


def add_machine(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose processor and threads, on which no result depends."""
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda (a free GPU; waits for one) or cuda:N (this GPU)"
    )
    parser.add_argument(
        "--device-share", type=int, default=1, metavar="N", help="jobs like this one that share a GPU"
    )
    add_threads(parser)


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Add the option of a step that takes no device but the CPU."""
    parser.add_argument("--threads", type=int, default=None, help="CPU threads of tensor operations")


def add_data_on(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where images and features lie, on which no result depends."""
    parser.add_argument(
        "--data-on",
        choices=("auto", "device", "pinned", "mapped"),
        default="auto",
        help="where images and features lie: on the device, in pinned memory of the host, or in their files; auto: "
        "the first of these where they fit, and on a CPU their files",
    )


def _keep_freed_memory() -> None:
    """Tell glibc to keep what tensors free, up to a gigabyte, instead of giving it back to the kernel at once.

    Every step allocates the same sizes again; fetching fresh pages for them cost a fifth of a CPU training's time.
    """
    m_trim_threshold, m_mmap_threshold = -1, -3  # of malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another libc
        return
    mallopt(m_mmap_threshold, 1 << 25)
    mallopt(m_trim_threshold, 1 << 30)


def gpu_count() -> int:
    """GPUs that jobs of this machine may use, found without importing torch."""
    return len(devices.visible_gpus())


def use_machine(given: argparse.Namespace, facts: dict[str, Any]) -> torch.device:
    """Set the threads, choose the device and record both.

    A GPU is taken from the machine's locks and kept until the process ends; see `vsepp.runtime.devices.claim`. Under
    `torchrun` each process has the GPU of its local rank and takes no lock.

    Raises
    ------
    VseppError
        When a device was asked for that is not there.
    """
    import torch

    use_cpu(given, facts)
    device = _choose_device(given, facts)
    if device.type == "cuda":
        facts["device"] = torch.cuda.get_device_name(device)
    return device


def use_cpu(given: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Set the threads of a step that computes on the CPU, and record both."""
    import torch

    _keep_freed_memory()
    if devices.process_rank() > 0:  # the first process speaks for all of them
        log.setLevel(logging.WARNING)
    if given.threads:
        torch.set_num_threads(given.threads)
    facts["device"], facts["threads"] = "cpu", torch.get_num_threads()


def _choose_device(given: argparse.Namespace, facts: dict[str, Any]) -> torch.device:
    """The device that was asked for, made this process's own where it is a GPU."""
    import torch

    wanted, rank = given.device, devices.local_rank()
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", wanted):
        raise VseppError(f"--device: got {wanted!r}; expected auto, cpu, cuda or cuda:N")
    device = torch.device("cuda" if wanted == "auto" else wanted)
    if device.type != "cuda":
        return device
    if torch.cuda.is_initialized():  # by an earlier step of this process, which keeps its GPU
        return torch.device("cuda", torch.cuda.current_device())
    with ExitStack() as held:
        # Before CUDA is asked anything: the driver looks at the visible GPUs once. A torch without CUDA needs none.
        there = devices.visible_gpus()
        gpus = there if torch.backends.cuda.is_built() else ()
        if rank is not None:
            _require_local_gpu(wanted, rank, gpus)
            device = torch.device("cuda", rank)
        elif gpus:
            wish = devices.one_of(gpus, device.index)
            share = getattr(given, "device_share", 1)
            facts["gpu"] = held.enter_context(devices.claim(_job(given), wish, share))
            device = torch.device("cuda", 0)
        if torch.cuda.is_available():
            atexit.register(held.pop_all().close)
            return device
        reason = _why_no_gpu()
    gpu = facts.pop("gpu", None) or next(iter(there[rank or 0 :]), None)
    if wanted != "auto":
        raise VseppError(
            f"--device: {wanted} asked for, but torch finds no GPU ({reason}); use --device auto to fall back on the CPU"
        )
    if gpu is not None:
        log.warning(
            "--device auto: GPU %s is there, but torch finds none (%s); this job computes on the CPU",
            gpu,
            reason,
        )
    return torch.device("cpu")


def _why_no_gpu() -> str:
    """What torch has against the GPUs of this machine, in its own words."""
    import torch

    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return next(iter(str(error).splitlines()), type(error).__name__)
    return "it counts none"


def _require_local_gpu(wanted: str, rank: int, gpus: Sequence[str]) -> None:
    """Refuse what cannot be had by one of the processes that `torchrun` started here."""
    if wanted not in ("auto", "cuda"):
        raise VseppError(
            f"--device: got {wanted} under torchrun, where each process takes the GPU of its local rank; expected "
            "auto, cpu or cuda"
        )
    if gpus and rank >= len(gpus):
        raise VseppError(
            f"torchrun: a process with local rank {rank} was started, but there are {len(gpus)} GPUs to use here; "
            f"expected --nproc-per-node {len(gpus)} or fewer, or --device cpu"
        )


def _job(given: argparse.Namespace) -> str:
    """Step and output of a job, for those who wait for its GPU."""
    step = getattr(getattr(given, "call", None), "__name__", "vsepp")
    output = getattr(given, "output", None)
    return step if output is None else f"{step} {output}"
