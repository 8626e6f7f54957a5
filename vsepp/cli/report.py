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
    parser.add_argument("--entry", type=Path, help="write the page here too, as what opens by default")


def report(given: argparse.Namespace) -> None:
    """Write the report, and its headline beside it and on standard output."""
    from vsepp.provenance.manifest import write_text
    from vsepp.reporting.render import make_report
    from vsepp.reporting.specs import ReportSpec

    spec = from_json(ReportSpec, given.spec)
    for group in (group for table in spec.tables for group in table.groups):
        for metrics in (Path(file) for row in group.rows for file in [*row.metrics, *row.released]):
            _require_present_model(metrics.parent)
    headline = make_report(spec, given.output, given.entry)
    write_text(given.output / "headline.txt", headline + "\n")
    print(headline)


def _require_present_model(metrics: Path) -> None:
    """Refuse metrics of another model than the one that lies beside them in `runs/`."""
    from vsepp.provenance.manifest import require_input

    run = Path(*("runs" if part == "metrics" else part for part in metrics.parts))
    if run.is_dir():
        require_input(metrics, "run", run)
