"""An image encoder, without its last layer: with imported weights, or trained on labelled single-object scenes."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import EncoderWeightsSpec
from vsepp.pipeline.step import Artefacts, Facts, Inputs, Job, Step, short_digest


def run(spec: EncoderWeightsSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Import an image encoder's weights, or train a small encoder on scenes, on the CPU."""
    if spec.pretraining:
        from vsepp.base.machine import use_cpu
        from vsepp.scenes.pretrain import pretrain

        facts = use_cpu(job.threads)
        return {**facts, **pretrain(spec.encoder, spec.pretraining, out)}
    from vsepp.models.encoder import save_encoder
    from vsepp.models.pretrained import import_weights

    encoder = import_weights(spec.encoder, job.raw.get("weights"))
    save_encoder(encoder, out)
    return {"dim": encoder.dim}


def more_modules(spec: EncoderWeightsSpec) -> tuple[str, ...]:
    """What trains the encoder, or what reads its weights."""
    return ("vsepp.scenes.pretrain",) if spec.pretraining else ("vsepp.models.pretrained",)


def name(spec: EncoderWeightsSpec, inputs: Artefacts, label: str) -> str:
    """The encoder's name, and a digest of its network and of its training."""
    parts = [spec.encoder, *([spec.pretraining] if spec.pretraining else [])]
    return f"{spec.encoder.name}-{short_digest(*parts)}"


STEP = Step(
    "encoder",
    EncoderWeightsSpec,
    run,
    phase="features",
    folder="results/{preset}/encoders/{name}",
    modules=(),
    more_modules=more_modules,
    components=lambda spec: [spec.encoder.component],
    name=name,
    known_raw=lambda spec, raw: raw,
    files=("encoder.safetensors",),
    seed=lambda spec: spec.pretraining.seed if spec.pretraining else None,
    takes=("threads",),
)
