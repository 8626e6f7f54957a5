"""An image encoder, without its last layer."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import EncoderWeightsSpec
from vsepp.pipeline.step import Facts, Inputs, Job, Step


def run(spec: EncoderWeightsSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Import an image encoder's weights."""
    from vsepp.models.encoder import import_encoder

    return import_encoder(spec.encoder, inputs.get("weights"), out)


STEP = Step(
    "encoder",
    EncoderWeightsSpec,
    run,
    phase="features",
    folder="results/{preset}/encoders/{name}",
    modules=lambda spec: ["vsepp.models.encoder"],
    components=lambda spec: [spec.encoder.component],
    name=lambda spec, label: spec.encoder.name,
    files=lambda spec: ["encoder.safetensors"],
)
