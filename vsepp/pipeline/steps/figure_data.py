"""Losses → the numbers that figures draw of them."""

from __future__ import annotations

import json
from pathlib import Path

from vsepp.base import components
from vsepp.base.files import write_text
from vsepp.base.spec import FigureDataSpec
from vsepp.pipeline.step import Facts, Inputs, Job, Step


def run(spec: FigureDataSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Compute the numbers of a figure about losses."""
    kind, options = components.load("figure", spec.kind.name), components.options("figure", spec.kind)
    write_text(out / "data.json", json.dumps(kind.compute(options, spec.losses), indent=1) + "\n")
    return {}


STEP = Step(
    "figure_data",
    FigureDataSpec,
    run,
    phase="results",
    # The name is `<paper>/<figure>`; the folder lies among the evaluations, which DVC keeps.
    folder="results/{preset}/{variant}/evaluations/figures/{name}",
    modules=lambda spec: [],
    components=lambda spec: [("figure", spec.kind.name), *(("loss", loss.name) for loss in spec.losses)],
    files=lambda spec: ["data.json"],
)
