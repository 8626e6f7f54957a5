"""A checkpoint that the authors released, with its vocabulary → the run that it is a training of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vsepp.base.errors import VseppError
from vsepp.base.spec import RunSpec
from vsepp.pipeline.step import Facts, Inputs, Job, Step
from vsepp.pipeline.steps.run import FILES


def run(spec: RunSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Convert a checkpoint that the authors released (--raw checkpoint=FILE vocabulary=FILE)."""
    from vsepp.released.convert import import_released

    for role in ("checkpoint", "vocabulary"):
        if role not in job.raw:
            raise VseppError(f"released: no {role} was given; expected --raw checkpoint=FILE vocabulary=FILE")
    return import_released(job.raw["checkpoint"], job.raw["vocabulary"], spec, out)


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
    modules=("vsepp.released.convert",),
    components=components,
    name=lambda spec, inputs, label: spec.seeded_id,
    known_raw=lambda spec, raw: raw,
    files=FILES,
)
