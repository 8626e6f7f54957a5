"""Captions → vectors whose inner products say how alike two captions are."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import VectorsSpec
from vsepp.pipeline.step import Facts, Inputs, Job, Step
from vsepp.pipeline.steps.tokens import CAPTIONS


def run(spec: VectorsSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Compute vectors of all captions, for losses that compare them."""
    from vsepp.data.tables import read_tables
    from vsepp.data.vectors import caption_vectors

    _, captions = read_tables(inputs["captions"].parent)
    vectors = caption_vectors(captions, spec)
    vectors.save(out)
    return {"captions": len(vectors)}


STEP = Step(
    "vectors",
    VectorsSpec,
    run,
    phase="features",
    folder="results/{preset}/features/{name}",
    modules=("vsepp.data.vectors",),
    name=lambda spec, inputs, label: f"{inputs['captions'].name}-captions-{spec.encoder}",
    reads={"captions": CAPTIONS},
    files=("vectors.npz",),
)
