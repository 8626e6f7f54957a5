"""Options that several subcommands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vsepp.base.errors import as_started


class _Formatter(argparse.HelpFormatter):
    """Keeps an example in one line, to be pasted."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_EXAMPLE) else super()._fill_text(text, width, indent)


_EXAMPLE = "example:\n"
AFTER = "  # once `snakemake reproduce_tables` has run"
"""Ends the example of a command that needs results of `mini`."""


def add_step(
    steps: Any, name: str, call: Callable[[argparse.Namespace], None], description: str, example: str
) -> argparse.ArgumentParser:
    """Add a subcommand that runs `call`; without argparse's `help`, since `vsepp.apps.cli` lists it by its description."""
    text = f"{description[0].upper()}{description[1:]}."
    epilog = f"{_EXAMPLE}  {as_started()}{example}"
    parser: argparse.ArgumentParser = steps.add_parser(
        name, description=text, epilog=epilog, formatter_class=_Formatter
    )
    parser.set_defaults(call=call)
    return parser


def a_path(text: str) -> Path:
    """The path that an option or argument gives.

    Raises
    ------
    argparse.ArgumentTypeError
        If no path can be that.
    """
    if not text:
        raise argparse.ArgumentTypeError("expected a path, got an empty text")
    if "\0" in text:
        raise argparse.ArgumentTypeError(f"got {text!r}; a path cannot hold NUL")
    return Path(text)


def add_params(parser: argparse._ActionsContainer, hidden: bool = False) -> None:
    """Add the option that says where the parameters are."""
    words = "folder of the parameters; by default params, in the project's folder"
    parser.add_argument(
        "--params",
        type=a_path,
        default=Path("params"),
        metavar="FOLDER",
        help=argparse.SUPPRESS if hidden else words,
    )


def option(name: str) -> str:
    """The option of the command line that sets a role or a field."""
    return f"--{name.replace('_', '-')}"


def add_machine(parser: argparse._ActionsContainer, *, device: bool = True) -> None:
    """Add the options on which no result depends but for the last bits: threads and, where a GPU may be used, the device."""
    what = "CPU threads or processes; default: what the preset's `resources` give such a job"
    parser.add_argument("--threads", type=int, metavar="N", help=what)
    if not device:
        return
    parser.add_argument(
        "--device",
        metavar="NAME",
        default="auto",
        help="auto (default), cpu, cuda (any free GPU, waits for one) or cuda:N",
    )
