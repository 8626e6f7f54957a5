"""What the rules of the workflow call: `vsepp fetch`, one raw file; `vsepp make KIND`, one artefact, by hand by its name alone."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.apps.cli.common import (
    add_machine,
    add_role,
    add_spec,
    add_step,
    given_inputs,
    given_options,
    option,
)
from vsepp.apps.cli.show import add_plan_options, config_option, plan_of
from vsepp.base.errors import VseppError, as_started, did_you_mean
from vsepp.base.files import is_there
from vsepp.base.spec import SourceSpec
from vsepp.pipeline.making import make as make_artefact
from vsepp.pipeline.steps import STEPS

if TYPE_CHECKING:
    from vsepp.pipeline.step import Step

_HOW = """\
In the project's folder NAME is enough: the parameters name its inputs. Otherwise give --spec, --output and the inputs, as the
workflow does: `snakemake -n -p` prints its commands."""


LOCK = "sources.lock.yaml"


def add_steps(steps: Any) -> None:
    """Add `fetch`, and `make` with a subcommand for each kind of artefact."""
    what = "fetch and verify a file, or resume its download; all files: snakemake all_downloads"
    parser = add_step(steps, "fetch", fetch, what)
    add_spec(parser, SourceSpec, required=True)
    parser.add_argument(
        "--lock", type=Path, metavar="FILE", required=True, help=f"recorded SHA-256 sums: params/{LOCK}"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="where to put the file")

    parser = add_step(steps, "make", make, "make one artefact, such as a corpus, features, a run or a report")
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", required=True)
    for kind, step in STEPS.items():
        _add_kind(kinds, kind, step)


def _add_kind(kinds: Any, kind: str, step: Step) -> None:
    does = (step.run.__doc__ or "").splitlines()[0]
    parser = kinds.add_parser(kind, help=does.rstrip("."), description=does, epilog=_HOW)
    parser.set_defaults(kind=kind, roles=tuple(step.reads), takes=step.takes, raw=[])
    parser.add_argument("name", nargs="?", metavar="NAME", help="its name, as in the folder of its kind")
    add_spec(parser, step.spec)
    for role, read in step.reads.items():
        add_role(parser, role, read)
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="folder to write the results to")
    if step.known_raw:
        parser.add_argument(
            "--raw",
            nargs="+",
            action="extend",
            default=[],
            metavar="ROLE=PATH",
            help="raw files and folders by their role; of a data set, the keys of its `files` in params/datasets.yaml",
        )
    add_machine(parser, step.takes)
    add_plan_options(parser)


def fetch(given: argparse.Namespace) -> None:
    """Fetch one file."""
    from vsepp.sources import download

    download.fetch(given.spec, given.output, given.lock)


def make(given: argparse.Namespace) -> None:
    """Make an artefact with the spec that was given, or with the spec that the parameters give to its name."""
    step = STEPS[given.kind]
    inputs = given_inputs(given)
    if given.spec is None:
        if given.name is None or inputs or given.raw or given.output:
            raise VseppError(f"make {given.kind}: expected NAME alone, or --spec, --output and the inputs")
        _make_named(given, step)
        return
    if given.name is not None:
        raise VseppError(
            f"make {given.kind}: got {given.name} and --spec; a spec is made into --output, without NAME"
        )
    missing = [role for role, read in step.reads.items() if not read.optional and role not in inputs]
    if missing or given.output is None:
        wanted = [option(role) for role in missing] + ["--output"] * (given.output is None)
        raise VseppError(f"make {given.kind}: with --spec it needs {', '.join(wanted)}, too")
    raw: dict[str, Path] = {}
    for item in given.raw:
        role, equals, path = item.partition("=")
        if not equals:
            raise VseppError(f"--raw: got {item!r}; expected ROLE=PATH")
        raw[role] = Path(path)
    make_artefact(step, given.spec, inputs, given.output, raw=raw, **given_options(given))


def _make_named(given: argparse.Namespace, step: Step) -> None:
    """Make a row of the plan's table."""
    plan = plan_of(given)
    named = plan.of_kind(given.kind)
    if given.name not in named:
        near = did_you_mean(given.name, named) or f"; there are {', '.join(named) or 'none'}"
        raise VseppError(f"{given.name}: no {given.kind} of preset {plan.preset}{near}")
    artefact = named[given.name]
    for role, path in (*artefact.inputs.items(), *artefact.raw.items()):
        if not is_there(path):
            owner = plan.owner(path)
            command = (
                f"vsepp make {owner.kind} {owner.name}" if owner else "snakemake --cores all all_downloads"
            )
            raise VseppError(
                f"{path}: missing; {artefact.name} reads it as its {role}. Make it first: {as_started()}{command}"
                f"{config_option(given)}"
            )
    given.output = artefact.folder
    options = given_options(given)
    if "test_images" in step.takes:
        options.setdefault("test_images", plan.test_images(artefact))
    inputs = {role: path for role, path in artefact.inputs.items() if role in step.reads}
    make_artefact(step, artefact.spec, inputs, artefact.folder, raw=artefact.raw, **options)
