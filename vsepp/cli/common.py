"""What several subcommands share."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.runtime import devices

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
        choices=("auto", "device", "mapped"),
        default="auto",
        help="where images and features lie: on the device or in their files; auto: on a GPU that has room for them, else "
        "in their files",
    )


def gpu_count() -> int:
    """GPUs that jobs of this machine may use, found without importing torch."""
    return len(devices.visible_gpus())


def use_machine(given: argparse.Namespace, facts: dict[str, Any]) -> torch.device:
    """Set the threads, choose the device and record both; see `vsepp.runtime.machine`."""
    from vsepp.runtime import machine

    share = getattr(given, "device_share", 1)
    device, found = machine.use_machine(given.device, share=share, threads=given.threads, job=job_of(given))
    facts.update(found)
    return device


def use_cpu(given: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Set the threads of a step that computes on the CPU, and record both."""
    from vsepp.runtime import machine

    facts.update(machine.use_cpu(given.threads))


def job_of(given: argparse.Namespace) -> str:
    """Step and output of a job, for those who wait for its GPU."""
    step = getattr(getattr(given, "call", None), "__name__", "vsepp")
    output = getattr(given, "output", None)
    return step if output is None else f"{step} {output}"
