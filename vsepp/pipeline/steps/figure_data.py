"""Losses → the numbers that figures draw of them."""

from __future__ import annotations

import json
from pathlib import Path

from vsepp.base.files import write_text
from vsepp.pipeline.step import Facts, Inputs, Job, Step
from vsepp.report.entries import FigureDataSpec


def run(spec: FigureDataSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Compute the numbers of a figure about losses."""
    write_text(out / "data.json", json.dumps(spec.figure.compute(), indent=1) + "\n")
    return {}


STEP = Step(
    "figure_data",
    FigureDataSpec,
    run,
    phase="results",
    # The name is `<paper>/<figure>`; the folder lies among the evaluations, which DVC keeps.
    folder="results/{preset}/{variant}/evaluations/figures/{name}",
    modules=lambda spec: ["vsepp.report.entries"],
    components=lambda spec: [
        ("figure", spec.figure.kind),
        *(("loss", loss.name) for loss in spec.figure.losses),
    ],
    files=lambda spec: ["data.json"],
)
