"""A model, test images and captions → embeddings, of a corpus in shards: other jobs rank them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vsepp.provenance.artefacts import Facts, Inputs, Job
from vsepp.spec import EvaluationSpec
from vsepp.steps import evaluation
from vsepp.steps.making import take_machine
from vsepp.steps.run import ENCODING


def run(spec: EvaluationSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Embed a split with a trained run."""
    from vsepp.evaluation.run import encode_run
    from vsepp.provenance.compatibility import require_fitting

    require_fitting(spec.run, inputs["run"], inputs)
    device, facts = take_machine(job, "embeddings")
    encode_run(spec.run, spec.split, inputs, device).save(out / "embeddings.npz")
    return facts


STEP = replace(
    evaluation.STEP,
    kind="embeddings",
    run=run,
    folder="results/{preset}/{variant}/embeddings/{name}",
    reads={role: read for role, read in evaluation.STEP.reads.items() if role in ("run", *ENCODING)},
    files=("embeddings.npz",),
    versioned=False,
)
