"""An image encoder's weights, without its last layer."""

from __future__ import annotations

from pathlib import Path

from vsepp.provenance.artefacts import Facts, Inputs, Job, Step, short_digest
from vsepp.spec import EncoderSpec


def run(spec: EncoderSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Convert an image encoder's weights, without its last layer."""
    from vsepp.models.encoder import save_encoder
    from vsepp.models.pretrained import import_weights

    encoder = import_weights(spec, job.raw.get("weights"))
    save_encoder(encoder, out)
    return {"dim": encoder.dim}


STEP = Step(
    "encoder",
    EncoderSpec,
    run,
    phase="features",
    folder="results/{preset}/encoders/{name}",
    modules=("vsepp.models.pretrained",),
    components=lambda spec: [spec.component],
    name=lambda spec, inputs, label: f"{spec.name}-{short_digest(spec)}",
    known_raw=lambda spec, raw: raw,
    files=("encoder.safetensors",),
)
