"""Metrics and training curves → tables, figures, verdicts and the page that holds them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from vsepp.base.manifest import differences, manifest_if_intact
from vsepp.base.spec import from_dict
from vsepp.pipeline.step import Facts, Inputs, Job, Step
from vsepp.report.entries import ReportSpec, TrainedSpec


def run(spec: ReportSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Write a report: tables, figures and pages; print the headline."""
    from vsepp.report.pages import write_report

    print(write_report(spec, out, job.output, _by_other_code(spec.models)))
    return {}


def _by_other_code(models: Iterable[TrainedSpec]) -> dict[str, tuple[str, bool]]:
    """Folder of a training or an evaluation that other code than the present one made → commit, and whether files differed from it."""
    from vsepp.pipeline.steps import STEPS

    commits: dict[str, tuple[str, bool]] = {}
    for folder in {folder for model in models for folder in (model.run, model.evaluation) if folder}:
        manifest = manifest_if_intact(Path(folder))
        if manifest is None:
            continue
        step = STEPS.get(manifest["step"])  # earlier steps had other names
        code = step.code(from_dict(step.spec, manifest["spec"])) if step else ""
        if differences(manifest, code=code).code:
            commits[folder] = str(manifest["git"]["commit"]), bool(manifest["git"]["dirty"])
    return commits


def write_entry_page(folder: Path) -> None:
    """Write the preset's entry page, which lists its reports."""
    from vsepp.report.pages import write_entry

    write_entry(folder.absolute().parent.parent)


STEP = Step(
    "report",
    ReportSpec,
    run,
    phase="results",
    folder="reports/{preset}/{variant}/{name}",
    modules=lambda spec: ["vsepp.report.pages"],
    components=lambda spec: [("figure", figure.kind) for _, figure in spec.figures],
    files=lambda spec: ["index.html", *spec.files],
    published=write_entry_page,
)
