"""Image store → the features of every image under a fixed crop: one pass of a frozen encoder."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import FeaturesSpec
from vsepp.pipeline.making import take_machine
from vsepp.pipeline.step import Facts, Inputs, Job, Step


def run(spec: FeaturesSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Compute the 1C or 10C features of every image, or those of its regions."""
    from vsepp.features.frozen import make_features

    placing, facts = take_machine(job, "features")
    return {**facts, **make_features(spec, inputs["store"], inputs["encoder"], out, job.state, placing)}


def name(spec: FeaturesSpec, label: str) -> str:
    """The store, the encoder and the crop, or the grid."""
    return f"{label}-{spec.encoder.name}-{'grid' if spec.grid else spec.crop.kind}"


STEP = Step(
    "features",
    FeaturesSpec,
    run,
    phase="features",
    folder="results/{preset}/features/{name}",
    modules=lambda spec: ["vsepp.features.frozen"],
    components=lambda spec: [spec.encoder.component],
    name=name,
    reads={"store": "", "encoder": ""},
    files=lambda spec: ["features.npy"],
    threads="preset",
    gpu=lambda spec: "whole",
    resumes=True,
)
