"""A model, test images and captions → embeddings → ranks and recalls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vsepp.base.spec import EvaluationSpec, seeded
from vsepp.pipeline.making import take_machine
from vsepp.pipeline.step import Facts, Gpu, Inputs, Job, Step
from vsepp.pipeline.steps import released
from vsepp.pipeline.steps.run import ENCODING


def run(spec: EvaluationSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Embed a split with a trained run, or take the embeddings of two, and compute recalls and ranks.

    Where the run has a matcher, it re-ranks the best.
    """
    from vsepp.evaluation.run import evaluate_ensemble, evaluate_run
    from vsepp.pipeline.fitting import require_fitting

    if spec.ensemble:
        print(*evaluate_ensemble(spec, inputs, out), sep="\n\n")
        return {}
    require_fitting(spec.run, inputs["run"], inputs)
    placing, facts = take_machine(job, "evaluation")
    print(*evaluate_run(spec, inputs, out, placing.device), sep="\n\n")
    return facts


def components(spec: EvaluationSpec) -> Sequence[tuple[str, str]]:
    """Components of the model, and the truths."""
    return [*released.components(spec.run), *(("truth", truth) for truth in spec.truths)]


def gpu(spec: EvaluationSpec) -> Gpu:
    """An ensemble averages scores, and a frozen encoder does not run here."""
    if spec.ensemble:
        return "none"
    return "whole" if spec.run.live_encoder else "part"


def name(spec: EvaluationSpec, label: str) -> str:
    """The name of the run, or of the ensemble and the seed."""
    return seeded(spec.ensemble, spec.run.init_seed) if spec.ensemble else spec.run.seeded_id


STEP = Step(
    "evaluation",
    EvaluationSpec,
    run,
    phase="results",
    folder="results/{preset}/{variant}/evaluations/{name}",
    modules=lambda spec: ["vsepp.evaluation.run"],
    components=components,
    name=name,
    reads={**ENCODING, "run": "", "first": "embeddings.npz", "second": "embeddings.npz", "second_corpus": ""},
    files=lambda spec: ["embeddings.npz", "metrics.json", "ranks.npz"],
    sometimes=["best.npz"],
    seed=lambda spec: spec.run.init_seed,
    threads="preset",
    gpu=gpu,
)
