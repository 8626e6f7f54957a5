"""Image store → the random-crop features of every training caption and epoch (the tape): one pass of a frozen encoder."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import TapeSpec
from vsepp.pipeline.making import take_machine
from vsepp.pipeline.step import Facts, Inputs, Job, Step


def run(spec: TapeSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Compute the features of random crops for every training caption and epoch (tape)."""
    from vsepp.features.frozen import make_tape

    placing, facts = take_machine(job, "tape")
    return {**facts, **make_tape(spec, inputs, out, job.state, placing)}


def name(spec: TapeSpec, label: str) -> str:
    """The store, the encoder, the draw and the epochs."""
    return f"{label}-{spec.encoder.name}-draw{spec.draw}-{spec.epochs}epochs"


STEP = Step(
    "tape",
    TapeSpec,
    run,
    phase="models",
    folder="results/{preset}/tapes/{name}",
    modules=lambda spec: ["vsepp.features.frozen"],
    components=lambda spec: [spec.encoder.component],
    name=name,
    reads={"store": "", "encoder": "", "captions": "captions.parquet"},
    versioned=False,
    threads="preset",
    gpu=lambda spec: "whole",
    resumes=True,
)
