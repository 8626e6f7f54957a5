"""A small image encoder, trained on labelled single-object scenes."""

from __future__ import annotations

from pathlib import Path

from vsepp.provenance.artefacts import Facts, Inputs, Job, Step, short_digest
from vsepp.spec import PretrainedSpec


def run(spec: PretrainedSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Train a small image encoder on labelled single-object scenes, on the CPU."""
    from vsepp.runtime.machine import use_cpu
    from vsepp.scenes.pretrain import pretrain

    facts = use_cpu(job.threads)
    return {**facts, **pretrain(spec.encoder, spec.pretraining, out)}


STEP = Step(
    "pretrained",
    PretrainedSpec,
    run,
    phase="features",
    folder="results/{preset}/encoders/{name}",
    modules=("vsepp.scenes.pretrain",),
    components=lambda spec: [spec.encoder.component],
    name=lambda spec, inputs, label: f"{spec.encoder.name}-{short_digest(spec.encoder, spec.pretraining)}",
    files=("encoder.safetensors",),
    seed=lambda spec: spec.pretraining.seed,
    takes=("threads",),
)
