"""Metrics and training curves → tables, figures, verdicts and the page that holds them."""

from __future__ import annotations

from pathlib import Path

from vsepp.provenance.artefacts import Facts, Inputs, Job, Step
from vsepp.provenance.manifest import FILES
from vsepp.reporting.report_specs import ReportSpec


def run(spec: ReportSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Write a report: tables, figures and pages; print the headline."""
    from vsepp.reporting.pages import write_report

    print(write_report(spec, out, job.output))
    files = (path for path in out.rglob("*") if path.is_file())
    return {FILES: sorted(path.relative_to(out).as_posix() for path in files)}


def write_entry_page(folder: Path) -> None:
    """Write the preset's entry page, which lists its reports."""
    from vsepp.reporting.pages import write_entry

    write_entry(folder.absolute().parent.parent)


STEP = Step(
    "report",
    ReportSpec,
    run,
    title="reports",
    phase="results",
    folder="reports/{preset}/{variant}/{name}",
    modules=("vsepp.reporting.pages",),
    components=lambda spec: [("figure", figure.kind.name) for figure in spec.figures],
    named_inputs=lambda spec: spec.inputs,
    files=("index.html", "manifest.json"),
    published=write_entry_page,
)
