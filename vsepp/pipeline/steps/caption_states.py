"""Token ids → the states of every token under a frozen text encoder: one pass over all captions."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import CaptionStatesSpec
from vsepp.pipeline.making import take_machine
from vsepp.pipeline.step import Facts, Inputs, Job, Step


def run(spec: CaptionStatesSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Encode every caption with the weights that a training would start from."""
    from vsepp.features.captions import make_caption_states

    placing, facts = take_machine(job, "caption_states")
    weights = inputs.get("text_weights")
    return {**facts, **make_caption_states(spec, inputs["tokens"], weights, out, job.state, placing.device)}


STEP = Step(
    "caption_states",
    CaptionStatesSpec,
    run,
    phase="features",
    folder="results/{preset}/features/{name}",
    modules=lambda spec: ["vsepp.features.captions"],
    components=lambda spec: [("text encoder", spec.text.name)],
    name=lambda spec, label: f"{label}-states-{spec.text.name}",
    reads={"tokens": ""},
    files=lambda spec: ["states.npy"],
    threads="preset",
    gpu=lambda spec: "whole",
    resumes=True,
)
