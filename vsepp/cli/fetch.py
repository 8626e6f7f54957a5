"""A raw file, or weights, from its mirrors."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from vsepp.cli.common import add_spec, add_step
from vsepp.spec import SourceSpec

LOCK = "sources.lock.yaml"


def add_steps(steps: Any) -> None:
    """Add `fetch`."""
    parser = add_step(
        steps, "fetch", fetch, "fetch and verify a file, from where it was cut; all: snakemake all_downloads"
    )
    add_spec(parser, SourceSpec, required=True)
    parser.add_argument(
        "--lock", type=Path, metavar="FILE", required=True, help=f"recorded SHA-256 sums: params/{LOCK}"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="where to put the file")


def fetch(given: argparse.Namespace) -> None:
    """Fetch one file, as a rule of the workflow does."""
    from vsepp.sources import download

    download.fetch(given.spec, given.output, given.lock)
