"""Features or images, and word ids → a trained model, and its test embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vsepp.base.publish import CONFIG, EMBEDDINGS, MODEL_FILE, VOCABULARY
from vsepp.base.run_spec import RunSpec
from vsepp.pipeline.making import take_machine
from vsepp.pipeline.step import Facts, Inputs, Job, Step

ENCODING = {"corpus": "", "tokens": "", "features": "", "eval_store": "", "encoder": "", "caption_states": ""}
"""Inputs that encoding a split reads besides the model, each a folder."""


def run(spec: RunSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Train one run for one seed, or continue a stopped training."""
    from vsepp.training.loop import train_run

    placing, facts = take_machine(job, "run")
    return {**facts, **train_run(spec, inputs, out, job.state, placing, job.checkpoint_seconds)}


def components(spec: RunSpec) -> Sequence[tuple[str, str]]:
    """Components of the model and of its training, and the encoder where it runs inside the training."""
    return [*spec.components, *([spec.encoder.component] if spec.runs_encoder else [])]


STEP = Step(
    "run",
    RunSpec,
    run,
    phase="models",
    folder="results/{preset}/{variant}/runs/{name}",
    modules=lambda spec: ["vsepp.training.loop"],
    components=components,
    name=lambda spec, label: spec.seeded_id,
    reads={**ENCODING, "tape": "", "train_store": "", "caption_vectors": "", "init_from": ""},
    files=lambda spec: [MODEL_FILE, CONFIG, "history.csv", VOCABULARY, EMBEDDINGS],
    sometimes=["loss.safetensors"],
    seed=lambda spec: spec.init_seed,
    threads="preset",
    gpu=lambda spec: "whole" if spec.runs_encoder else "part",
    resumes=True,
)
