"""What is kept of a finished model where everybody can read it: its configuration, history, metrics and ranks, not its weights.

A record has the layout of the results, `runs/<run>/seed-<n>/` and `evaluations/<run>/seed-<n>/`, each with its manifest, and is
small enough to be committed. It stands for the model in reports: later code does not void it, other parameters do.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from vsepp.errors import VseppError
from vsepp.provenance.manifest import MANIFEST, read_manifest, require_input, require_intact
from vsepp.runtime.files import whole_file
from vsepp.spec import EvaluationSpec, to_dict

RUNS, EVALUATIONS = "runs", "evaluations"
PDF = "paper.pdf"
_OF_RUN, _OF_EVALUATION = ("config.json", "history.csv"), ("metrics.json", "ranks.npz")


def is_kept(evaluation: Path, spec: EvaluationSpec) -> bool:
    """Whether an evaluation, or the record of one, was made with these parameters."""
    if not (evaluation / MANIFEST).is_file():
        return False
    found, wanted = read_manifest(evaluation)["spec"], to_dict(spec)
    more = set(wanted.pop("protocols")) <= set(found.pop("protocols"))
    return more and found == wanted


def keep(run: Path, evaluation: Path, records: Path, name: str) -> int:
    """Copy what is kept of a model, and return its bytes.

    Raises
    ------
    VseppError
        If a file was changed, or the evaluation is of another training.
    """
    require_intact(run, "history.csv")
    require_intact(evaluation, *_OF_EVALUATION)
    require_input(evaluation, "run", run)
    size = 0
    for source, kind, files in ((run, RUNS, _OF_RUN), (evaluation, EVALUATIONS, _OF_EVALUATION)):
        for file in (*files, MANIFEST):  # the manifest last: with it the record counts
            with whole_file(records / kind / name / file) as partial:
                shutil.copyfile(source / file, partial)
            size += (source / file).stat().st_size
    return size


def keep_report(report: Path, kept: Path) -> None:
    """Copy a report, in place of what was kept of it.

    Raises
    ------
    VseppError
        If it has no PDF, and what was kept has one.
    """
    if (kept / PDF).is_file() and not (report / PDF).is_file():
        raise VseppError(
            f"{report}: no {PDF}, which {kept} has; install pdflatex and run the report's command again"
        )
    partial = kept.with_name(f".{kept.name}")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(report, partial, ignore=shutil.ignore_patterns(".*"))
    shutil.rmtree(kept, ignore_errors=True)
    partial.rename(kept)
