"""What the rules of the workflow call: `vsepp fetch FILE`, a raw file; `vsepp make KIND NAME`, an artefact."""

from __future__ import annotations

import argparse
from pathlib import Path
from shlex import quote
from typing import Any

from vsepp.apps.cli.common import AFTER, a_path, add_machine, add_step
from vsepp.apps.cli.show import add_plan_options, config_option, plan_of
from vsepp.base.errors import VseppError, as_started, did_you_mean, fixes, snakemake
from vsepp.base.files import is_there
from vsepp.pipeline.step import Step
from vsepp.pipeline.steps import STEPS
from vsepp.pipeline.table import ArtefactTable, read_table


def add_steps(steps: Any) -> None:
    """Add `fetch`, and `make` with a subcommand for each kind of artefact."""
    what = "fetch and verify a file, or resume its download; all files: snakemake all_downloads"
    parser = add_step(steps, "fetch", fetch, what, "vsepp fetch caption_datasets.zip --preset paper")
    parser.add_argument("name", metavar="FILE", help="an entry of `sources` in params/datasets.yaml")
    _add_table_options(parser)

    what = "make one artefact, such as a corpus, features, a run or a report"
    parser = add_step(steps, "make", make, what, f"vsepp make report vsepp{AFTER}")
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", required=True, parser_class=_OfKind)
    for kind, step in STEPS.items():
        does = (step.run.__doc__ or f"Make a {kind}.").splitlines()[0]
        parser = kinds.add_parser(kind, help=does.rstrip("."), description=does)
        parser.set_defaults(kind=kind)
        parser.add_argument("name", metavar="NAME", help="its name, as in the folder of its kind")
        _add_table_options(parser)
        add_machine(parser, device=step.gpu is not Step.gpu)


class _OfKind(argparse.ArgumentParser):
    """Its help ends with the first artefact of the kind that the parameters in `params` lay out: names carry digests."""

    def format_help(self) -> str:
        from vsepp.pipeline.planner import make_plan

        kind = self.get_default("kind")
        try:
            names = list(make_plan(Path("params"), {}).of_kind(kind))
        except VseppError:
            names = []
        if names:
            self.epilog = f"example: {as_started()}vsepp make {kind} {names[0]}"
        return super().format_help()


def _add_table_options(parser: argparse.ArgumentParser) -> None:
    what = "the plan that a workflow wrote; without it the plan is laid out from the parameters"
    parser.add_argument("--plan", type=a_path, metavar="FILE", help=what)
    add_plan_options(parser)


def _table(options: argparse.Namespace) -> ArtefactTable:
    """The table that was given, or that the parameters lay out."""
    if options.plan is None:
        return plan_of(options)
    if ignored := [name for name in ("config", "preset", "fidelity") if getattr(options, name)]:
        raise VseppError(f"--{ignored[0]}: a plan was given, which has all values; leave one of them out")
    return read_table(options.plan)


def fetch(options: argparse.Namespace) -> None:
    """Fetch one file."""
    from vsepp.data import download

    table = _table(options)
    if options.name not in table.files:
        near = did_you_mean(options.name, table.files) or f"; it reads {', '.join(table.files) or 'none'}"
        raise VseppError(f"{options.name}: no raw file of preset {table.preset}{near}")
    file = table.files[options.name]
    download.fetch(file.spec, file.path, table.lock)


def make(options: argparse.Namespace) -> None:
    """Make an artefact by its name."""
    table = _table(options)
    artefact = table.row(options.kind, options.name)
    options.output = artefact.folder
    for role, path in artefact.paths.items():
        if not is_there(path):
            how = fixes(*_makes(path, table, options))
            raise VseppError(f"{path}: missing; {options.name} reads it as its {role}{how}")
    table.make(options.kind, options.name, threads=options.threads, device=getattr(options, "device", "auto"))


def _makes(path: Path, table: ArtefactTable, options: argparse.Namespace) -> list[str]:
    """The command that makes or fetches what an artefact is made from, where there is one."""
    if owner := table.owner(path):
        same = f" --plan {quote(str(options.plan))}" if options.plan else config_option(options)
        return [f"{as_started()}vsepp make {owner.kind} {owner.name}{same}"]
    if any(file.path == path for file in table.files.values()):
        return [snakemake("all_downloads", config_option(options))]
    return []
