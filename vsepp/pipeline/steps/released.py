"""A checkpoint that the authors released, with its vocabulary → the run that it is a training of, and its test embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vsepp.base.publish import EMBEDDINGS, MODEL_FILES
from vsepp.base.run_spec import RunSpec
from vsepp.pipeline.making import take_machine
from vsepp.pipeline.step import Facts, Gpu, Inputs, Job, Step
from vsepp.pipeline.steps.run import ENCODING


def run(spec: RunSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Convert a checkpoint that the authors released, and embed the test split with it."""
    from vsepp.evaluation.encode import encode_split, open_run
    from vsepp.models.released import import_released

    placing, facts = take_machine(job, "released")
    facts |= import_released(inputs["checkpoint"], inputs["vocabulary"], spec, out)
    opened = open_run(spec, "test", {**inputs, "run": out}, placing.device)
    encode_split(*opened, device=placing.device).save(out / EMBEDDINGS)
    return facts


def components(spec: RunSpec) -> Sequence[tuple[str, str]]:
    """Components of the model, and the encoder where it is part of the model."""
    family = [spec.encoder.component] if spec.live_encoder else []
    return [*spec.model.components, *family]


def gpu(spec: RunSpec) -> Gpu:
    """An encoder inside the model takes all of it."""
    return "whole" if spec.live_encoder else "part"


STEP = Step(
    "released",
    RunSpec,
    run,
    phase="models",
    folder="results/{preset}/{variant}/runs/{name}",
    modules=lambda spec: ["vsepp.models.released", "vsepp.evaluation.encode"],
    components=components,
    name=lambda spec, label: spec.seeded_id,
    reads=ENCODING,
    files=lambda spec: [*MODEL_FILES, EMBEDDINGS],
    threads="preset",
    gpu=gpu,
)
