"""What several subcommands share: their options, and the frame of a step that makes an artefact."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from vsepp.errors import VseppError
from vsepp.foreign import is_there
from vsepp.provenance.code import step_code
from vsepp.provenance.manifest import artefact_digest, recorded
from vsepp.provenance.publish import published, state_folder
from vsepp.runtime.files import output_folder
from vsepp.spec import from_json, to_dict


def add_step(
    steps: Any, name: str, call: Callable[[argparse.Namespace], None], description: str
) -> argparse.ArgumentParser:
    """Add a subcommand that runs `call`."""
    text = f"{description[0].upper()}{description[1:]}."
    parser: argparse.ArgumentParser = steps.add_parser(name, help=description, description=text)
    parser.set_defaults(call=call, step=name)
    return parser


def add_spec(parser: argparse.ArgumentParser, kind: type, more: str = "", *, required: bool = False) -> None:
    """Add the option that takes a spec of a class of `vsepp.spec`."""
    text = f"parameters of the step ({kind.__name__}), as JSON or as a file that holds it{more}"
    parser.add_argument("--spec", type=partial(from_json, kind), required=required, metavar="JSON", help=text)


def add_making(parser: argparse.ArgumentParser, kind: type, **roles: str) -> None:
    """Add what every step takes that makes an artefact: its spec, its inputs by role, its folder.

    Parameters
    ----------
    parser
        Of the step.
    kind
        Class of the spec.
    roles
        Role → what is read in it; what is described as optional may be left out.
    """
    add_spec(parser, kind, required=True)
    parser.epilog = "`snakemake -n -p` prints this command as each job of the workflow calls it."
    parser.set_defaults(roles=tuple(roles))
    for role, description in roles.items():
        required = not description.startswith("optional")
        option = f"--{role.replace('_', '-')}"
        parser.add_argument(option, type=Path, required=required, metavar="FOLDER", help=description)
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FOLDER", help="folder to write the results to"
    )
    add_code(parser)


def add_code(parser: argparse.ArgumentParser) -> None:
    """Add the option by which a rule says which digest it knows the step's code by."""
    parser.add_argument("--code", metavar="DIGEST", help=argparse.SUPPRESS)


def add_raw(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where raw files lie."""
    parser.add_argument(
        "--raw",
        nargs="+",
        action="extend",
        default=[],
        metavar="ROLE=PATH",
        help="raw files and folders by their role; of a data set, the keys of its `files` in params/datasets.yaml",
    )


def add_machine(parser: argparse.ArgumentParser, *, data_on: bool = False) -> None:
    """Add the options that choose processor, threads and the place of the data, on which no result depends."""
    parser.add_argument(
        "--device",
        default="auto",
        metavar="NAME",
        help="auto (default), cpu, cuda (any free GPU, waits for one) or cuda:N",
    )
    parser.add_argument(
        "--device-share", type=int, default=1, metavar="N", help="how many jobs like this one share a GPU"
    )
    add_threads(parser)
    if data_on:
        parser.add_argument(
            "--data-on",
            choices=("auto", "device", "mapped"),
            default="auto",
            help="where images and features lie while they are read: in the GPU's memory (device) or in their files "
            "(mapped); auto: device if they fit",
        )


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Add the option of a step that takes no device but the CPU."""
    parser.add_argument(
        "--threads",
        type=int,
        default=None,
        metavar="N",
        help="CPU threads; by default as many as torch takes",
    )


def table(rows: Sequence[Sequence[str]], align: str, indent: str = "") -> list[str]:
    """Lines of a table; `align` says `l` or `r` of each column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, align, widths, strict=True)
        lines.append(
            "  ".join(cell.rjust(width) if side == "r" else cell.ljust(width) for cell, side, width in cells)
        )
    return [f"{indent}{line}".rstrip() for line in lines]


def given_inputs(given: argparse.Namespace) -> dict[str, Path]:
    """Role → folder or file, of those that were given."""
    return {role: path for role in given.roles if (path := getattr(given, role)) is not None}


def raw_files(given: argparse.Namespace) -> dict[str, Path]:
    """Role → raw file or folder."""
    found = {}
    for item in given.raw:
        role, equals, path = item.partition("=")
        if not equals:
            raise VseppError(f"--raw: got {item!r}; expected ROLE=PATH")
        found[role] = Path(path)
    return found


@dataclass(frozen=True)
class Making:
    """An artefact that is being made."""

    folder: Path
    """Where the step writes its results; they are published together once it has succeeded."""
    facts: dict[str, Any]
    """For its manifest."""
    identity: dict[str, Any] = field(default_factory=dict)
    """All that decides what is computed, for JSON."""
    kept: Path | None = None
    """`state`, of a step that goes on after a kill."""

    @property
    def state(self) -> Path:
        """A folder that outlives a kill, for a step that goes on."""
        assert self.kept  # no other step asks
        return self.kept


@contextmanager
def making(
    given: argparse.Namespace,
    inputs: Mapping[str, Path] | None = None,
    *,
    seed: int | None = None,
    resumes: bool = False,
    known_by: Mapping[str, Any] | None = None,
) -> Iterator[Making]:
    """Publish a step's results in the folder that was asked for, with their manifest, once the body has succeeded.

    Parameters
    ----------
    given
        The step's command line: its name, its spec and `--output`.
    inputs
        Role → what is read, where it is not simply what was given.
    seed
        The seed, where there is one.
    resumes
        Whether the step goes on after a kill, and so needs a folder for its state.
    known_by
        Role → what tells an input from another one, where its digest would take long.
    """
    code, spec = step_code(given.step, given.spec), to_dict(given.spec)
    inputs = given_inputs(given) if inputs is None else inputs
    # A new folder is made when it is filled: Snakemake takes an empty one, of a step whose rule was given up, as made.
    output_folder(given.output if is_there(given.output) else given.output.absolute().parent)
    with ExitStack() as held:
        identity, state = {}, None
        if resumes:
            digests = {
                role: artefact_digest(path) for role, path in inputs.items() if role not in (known_by or {})
            }
            identity = {"code": code, "inputs": {**digests, **(known_by or {})}}
            state = held.enter_context(state_folder(given.output, spec=spec, **identity))
        folder = held.enter_context(published(given.output))
        facts = held.enter_context(
            recorded(folder, given.step, spec=spec, inputs=inputs, code=code, held_to=given.code, seed=seed)
        )
        yield Making(folder, facts, identity, state)
