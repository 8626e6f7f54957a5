"""Captions → vectors whose inner products say how alike two captions are."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import VectorsSpec
from vsepp.pipeline.step import Facts, Inputs, Job, Step


def run(spec: VectorsSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Compute vectors of all captions, for losses that compare them."""
    from vsepp.features.captions import make_vectors

    return make_vectors(spec, inputs, out)


STEP = Step(
    "vectors",
    VectorsSpec,
    run,
    phase="features",
    folder="results/{preset}/features/{name}",
    modules=lambda spec: ["vsepp.features.captions"],
    name=lambda spec, label: f"{label}-captions-{spec.encoder}",
    reads={"captions": "captions.parquet", "tokens": "", "caption_states": ""},
    files=lambda spec: ["vectors.npz"],
)
