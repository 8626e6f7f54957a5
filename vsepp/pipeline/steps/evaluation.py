"""A model, test images and captions → embeddings → ranks and recalls."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import EvaluationSpec, seeded
from vsepp.pipeline.making import take_machine
from vsepp.pipeline.step import Artefacts, Facts, Inputs, Job, Role, Step
from vsepp.pipeline.steps import released
from vsepp.pipeline.steps.run import ENCODING


def run(spec: EvaluationSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Embed a split with a trained run, or take the embeddings of two, and compute recalls and ranks.

    Where the run has a matcher, it re-ranks the best.
    """
    from vsepp.evaluation.protocols import LISTS
    from vsepp.evaluation.run import evaluate_ensemble, evaluate_run
    from vsepp.pipeline.fitting import require_fitting

    if spec.ensemble:
        for evaluation in evaluate_ensemble(spec, inputs, out, job.raw):
            print(evaluation)
        return {}
    require_fitting(spec.run, inputs["run"], inputs)
    device, facts = take_machine(job, "evaluation")
    for evaluation in evaluate_run(spec, inputs, out, device, job.raw):
        print(evaluation)
    if spec.run.model.matcher is None:
        (job.output / LISTS).unlink(missing_ok=True)  # left by another model that was evaluated there before
    return facts


def name(spec: EvaluationSpec, inputs: Artefacts, label: str) -> str:
    """The id of the run, or the ensemble's name, and the seed."""
    return seeded(spec.ensemble or spec.run.id, spec.run.init_seed)


STEP = Step(
    "evaluation",
    EvaluationSpec,
    run,
    phase="results",
    folder="results/{preset}/{variant}/evaluations/{name}",
    modules=("vsepp.evaluation.run",),
    components=lambda spec: [*released.components(spec.run), *(("truth", name) for name in spec.truths)],
    name=name,
    reads={
        "run": Role("folder of the trained run; nothing else of its clone is needed"),
        **ENCODING,
        "first": Role("embeddings of an ensemble's first run", "embeddings.npz", optional=True),
        "second": Role("embeddings of its second run", "embeddings.npz", optional=True),
        "second_corpus": Role("folder of the corpus that the second run was evaluated on", optional=True),
        "tokens": Role("folder of the word ids; else they are made with the run's words", optional=True),
    },
    known_raw=lambda spec, raw: raw,
    files=("embeddings.npz", "metrics.json", "ranks.npz"),
    seed=lambda spec: spec.run.init_seed,
    takes=("device", "device_share", "threads"),
)
