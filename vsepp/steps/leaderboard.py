"""Submissions → the page that ranks them."""

from __future__ import annotations

from pathlib import Path

from vsepp.provenance.artefacts import Facts, Inputs, Job, Step
from vsepp.reporting.report_specs import LeaderboardSpec


def run(spec: LeaderboardSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Write the page of the submissions."""
    from vsepp.reporting.leaderboard import write_leaderboard

    print(f"{write_leaderboard(Path(spec.submissions), out)}: {job.output}/index.html")
    return {}


STEP = Step(
    "leaderboard",
    LeaderboardSpec,
    run,
    title="leaderboards",
    phase="results",
    folder="reports/{name}",
    modules=("vsepp.reporting.leaderboard",),
    named_inputs=lambda spec: {"submissions": Path(spec.submissions)},
    files=("index.html", "manifest.json"),
)
