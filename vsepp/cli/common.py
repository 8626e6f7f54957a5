"""What several subcommands share."""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.errors import VseppError

if TYPE_CHECKING:
    import torch


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
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--threads", type=int, default=None, help="CPU threads of tensor operations")


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
    """GPUs of this machine, found without importing torch."""
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def use_machine(given: argparse.Namespace, facts: dict[str, Any]) -> torch.device:
    """Set the threads, choose the device and record both.

    Raises
    ------
    VseppError
        When a device was asked for that is not there.
    """
    import torch

    _keep_freed_memory()
    if given.threads:
        torch.set_num_threads(given.threads)
    wanted = given.device
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise VseppError(f"--device: got {wanted!r}; expected auto, cpu, cuda or cuda:N") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise VseppError(
            f"--device: {wanted} asked for, but torch finds no GPU; use --device auto to fall back on the CPU"
        )
    facts["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    facts["threads"] = torch.get_num_threads()
    return device
