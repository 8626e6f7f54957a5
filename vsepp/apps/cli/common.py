"""Options that several subcommands share, and what was given for them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.base.spec import from_json

if TYPE_CHECKING:
    from vsepp.pipeline.step import Role


def add_step(
    steps: Any, name: str, call: Callable[[argparse.Namespace], None], description: str
) -> argparse.ArgumentParser:
    """Add a subcommand that runs `call`; without argparse's `help`, since `vsepp.apps.cli` lists it by its description."""
    text = f"{description[0].upper()}{description[1:]}."
    parser: argparse.ArgumentParser = steps.add_parser(name, description=text)
    parser.set_defaults(call=call)
    return parser


def add_params(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where the parameters are."""
    parser.add_argument(
        "--params",
        type=Path,
        default=Path("params"),
        metavar="FOLDER",
        help="folder of the parameters; by default params, in the project's folder",
    )


def add_spec(parser: argparse.ArgumentParser, kind: type, *, required: bool = False) -> None:
    """Add the option that takes a spec of a class of `vsepp.base.spec`."""
    text = f"the spec ({kind.__name__}) as JSON, as a file that holds it, or - for standard input"

    def spec(given: str) -> Any:
        return from_json(kind, sys.stdin.read() if given == "-" else given)

    parser.add_argument("--spec", type=spec, required=required, metavar="JSON", help=text)


def option(name: str) -> str:
    """The option of the command line that sets a role or a field."""
    return f"--{name.replace('_', '-')}"


def add_role(parser: argparse.ArgumentParser, role: str, read: Role) -> None:
    """Add the option that names the folder or file of a role."""
    more = "optional: " if read.optional else ""
    parser.add_argument(option(role), type=Path, metavar="FOLDER", help=more + read.what)


_MACHINE: dict[str, dict[str, Any]] = {
    "device": {
        "metavar": "NAME",
        "help": "auto (default), cpu, cuda (any free GPU, waits for one) or cuda:N",
    },
    "device_share": {"type": int, "metavar": "N", "help": "how many jobs like this one share a GPU"},
    "threads": {
        "type": int,
        "metavar": "N",
        "help": "CPU threads or processes; default: torch's number of threads, or one process",
    },
    "data_on": {
        "choices": ("auto", "device", "mapped"),
        "help": "where images and features are read from: the GPU's memory (device) or their files (mapped); auto "
        "(default): device if they fit",
    },
    "checkpoint_seconds": {
        "type": float,
        "metavar": "SECONDS",
        "help": "least seconds between two checkpoints; 60 by default, 0 writes one after each step",
    },
    "test_images": {
        "type": int,
        "metavar": "N",
        "help": "smallest number of test images for the folds of later evaluations; default: any",
    },
}
"""Options on which no result depends: the fields of `vsepp.pipeline.step.Job` that steps take."""


def add_machine(parser: argparse.ArgumentParser, takes: Iterable[str]) -> None:
    """Add the options that a step takes and on which no result depends."""
    for name in takes:
        parser.add_argument(option(name), **_MACHINE[name])
    parser.set_defaults(takes=tuple(takes))


def given_options(given: argparse.Namespace) -> dict[str, Any]:
    """The options of `add_machine` that were given."""
    return {name: value for name in given.takes if (value := getattr(given, name)) is not None}


def given_inputs(given: argparse.Namespace) -> dict[str, Path]:
    """Role → folder or file, for the roles that were given."""
    return {role: path for role in given.roles if (path := getattr(given, role)) is not None}
