"""An image encoder, without its last layer: with imported weights, or trained on labelled single-object scenes."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import EncoderWeightsSpec
from vsepp.pipeline.step import Facts, Inputs, Job, Step


def run(spec: EncoderWeightsSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Import an image encoder's weights, or train a small encoder on scenes, on the CPU."""
    if spec.pretraining:
        from vsepp.base.machine import use_cpu
        from vsepp.scenes.pretrain import pretrain

        return {**use_cpu(job.threads), **pretrain(spec.encoder, spec.pretraining, out)}
    from vsepp.models.encoder import import_encoder

    return import_encoder(spec.encoder, inputs.get("weights"), out)


STEP = Step(
    "encoder",
    EncoderWeightsSpec,
    run,
    phase="features",
    folder="results/{preset}/encoders/{name}",
    modules=lambda spec: ["vsepp.scenes.pretrain" if spec.pretraining else "vsepp.models.encoder"],
    components=lambda spec: [spec.encoder.component],
    name=lambda spec, label: spec.encoder.name,
    files=lambda spec: ["encoder.safetensors"],
    seed=lambda spec: spec.pretraining.seed if spec.pretraining else None,
)
