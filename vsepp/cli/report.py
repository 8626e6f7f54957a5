"""Metrics and training curves → tables, figures and pages."""

from __future__ import annotations

import argparse
from typing import Any

from vsepp.cli.common import add_output, add_spec, add_step
from vsepp.provenance import code
from vsepp.provenance.manifest import recorded
from vsepp.spec import from_json, to_dict


def add_steps(steps: Any) -> None:
    """Add `report`."""
    parser = add_step(steps, "report", report, "write all tables and figures and the page that holds them")
    add_spec(parser, "ReportSpec")
    add_output(parser)


def report(given: argparse.Namespace) -> None:
    """Write the report and the preset's entry page; print the headline."""
    from vsepp.reporting.pages import write_entry, write_report
    from vsepp.reporting.specs import ReportSpec

    spec = from_json(ReportSpec, given.spec)
    given.output.mkdir(parents=True, exist_ok=True)
    with recorded(given.output, "report", spec=to_dict(spec), inputs=spec.inputs, code=code.report_code()):
        headline = write_report(spec, given.output)
    write_entry(given.output.absolute().parent.parent)
    print(headline)
