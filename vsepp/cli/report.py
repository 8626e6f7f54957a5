"""Metrics and training curves → tables, figures and pages."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from vsepp.cli.common import add_output, add_spec, add_step
from vsepp.spec import from_json


def add_steps(steps: Any) -> None:
    """Add `report`."""
    parser = add_step(steps, "report", report, "write all tables and figures and the page that holds them")
    add_spec(parser, "ReportSpec")
    add_output(parser)
    parser.add_argument("--entry", type=Path, help="also write this page, which opens the report")


def report(given: argparse.Namespace) -> None:
    """Write the report, and its headline beside it and on standard output."""
    from vsepp.provenance.manifest import write_text
    from vsepp.reporting.render import make_report, write_entry_page
    from vsepp.reporting.specs import ReportSpec

    headline = make_report(from_json(ReportSpec, given.spec), given.output)
    write_text(given.output / "headline.txt", headline + "\n")
    if given.entry:
        write_entry_page(given.entry, given.output / "index.html")
    print(headline)
