"""What figures draw of losses: over sets of negatives in a plane, or weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vsepp.provenance.artefacts import Job, Step
from vsepp.runtime.files import write_text
from vsepp.spec import FigureDataSpec


def run(spec: FigureDataSpec, inputs: Mapping[str, Path], out: Path, job: Job) -> Mapping[str, Any]:
    """Compute what a figure draws of losses."""
    from vsepp.evaluation.figure_data import compute

    write_text(out / "data.json", json.dumps(compute(spec), indent=1) + "\n")
    return {}


STEP = Step(
    "figure_data",
    FigureDataSpec,
    run,
    title="figure data",
    phase="results",
    # Of `<paper>/<figure>`, among the evaluations, which DVC keeps.
    folder="results/{preset}/{variant}/evaluations/figures/{name}",
    modules=("vsepp.evaluation.figure_data",),
    components=lambda spec: [("loss", loss.name) for loss in spec.losses],
    files=("data.json",),
)
