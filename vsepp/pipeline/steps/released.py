"""A checkpoint that the authors released, with its vocabulary → the run that it is a training of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vsepp.base.spec import RunSpec
from vsepp.pipeline.step import Facts, Inputs, Job, Step


def run(spec: RunSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Convert a checkpoint that the authors released."""
    from vsepp.models.released import import_released

    return import_released(inputs["checkpoint"], inputs["vocabulary"], spec, out)


def components(spec: RunSpec) -> Sequence[tuple[str, str]]:
    """Components of the model, and the encoder where it is part of the model."""
    family = [spec.encoder.component] if spec.live_encoder else []
    return [*spec.model.components, *family]


STEP = Step(
    "released",
    RunSpec,
    run,
    phase="models",
    folder="results/{preset}/{variant}/runs/{name}",
    modules=lambda spec: ["vsepp.models.released"],
    components=components,
    name=lambda spec, label: spec.seeded_id,
    files=lambda spec: ["model.safetensors", "config.json", "vocabulary.json"],
)
