"""Raw files and weights from their mirrors."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from vsepp.cli.common import add_spec, add_step
from vsepp.cli.parameters import add_plan_options, plan_of
from vsepp.errors import VseppError, did_you_mean
from vsepp.spec import SourceSpec

LOCK = "sources.lock.yaml"


def add_steps(steps: Any) -> None:
    """Add `fetch`."""
    parser = add_step(
        steps,
        "fetch",
        fetch,
        "fetch the files that a preset reads, resume and verify them; with --spec, one file",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only these files; by default all that the preset reads"
    )
    add_plan_options(parser)
    parser.add_argument(
        "--folder", type=Path, metavar="FOLDER", help="fetch into this folder instead of resources/downloads"
    )
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="files fetched at a time (4)")
    parser.add_argument(
        "--lock",
        type=Path,
        metavar="FILE",
        help=f"file of recorded SHA-256 sums; by default {LOCK} in the folder of the parameters",
    )
    add_spec(parser, SourceSpec, ": fetch this file alone")
    parser.add_argument("--output", type=Path, metavar="FILE", help="with --spec: where to put the file")


def fetch(given: argparse.Namespace) -> None:
    """Fetch one file, as a rule of the workflow does, or all that the plan reads."""
    from vsepp.sources import download

    lock = given.lock or given.params / LOCK
    if (given.spec is None) != (given.output is None) or (given.spec and given.names):
        raise VseppError("fetch: expected --spec and --output together and no names, or neither of the two")
    if given.spec:
        download.fetch(given.spec, given.output, lock)
        return
    plan = plan_of(given)
    files = plan.files
    if not files:
        print(f"preset {plan.preset} reads no files that are fetched")
        return
    if unknown := [name for name in given.names if name not in files]:
        raise VseppError(
            f"fetch: {', '.join(unknown)}: not read by preset {plan.preset}; it reads {', '.join(files)}"
            + did_you_mean(unknown[0], files)
        )
    wanted = {name: file for name, file in files.items() if not given.names or name in given.names}
    for name, file in wanted.items():
        if file.own:
            print(f"{name}: your own, {file.path}")
    sources = [
        (file.spec, given.folder / file.spec.file if given.folder else file.path)
        for file in wanted.values()
        if not file.own
    ]
    download.fetch_all(sources, lock, given.workers)
    for _, target in sources:
        print(f"{target.name}: {target}")
