"""The embeddings of a model → ranks and recalls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vsepp.base.manifest import require_input
from vsepp.base.publish import EMBEDDINGS
from vsepp.base.run_spec import EvaluationSpec, seeded
from vsepp.pipeline.making import take_machine
from vsepp.pipeline.step import Facts, Gpu, Inputs, Job, Step
from vsepp.pipeline.steps import released
from vsepp.pipeline.steps.run import ENCODING


def run(spec: EvaluationSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Compute recalls and ranks from the embeddings of a run, or of two.

    Where the run has a matcher, it re-ranks the best.
    """
    from vsepp.evaluation.evaluate_run import evaluate_run
    from vsepp.pipeline.fitting import require_fitting, require_run

    for trained, role, corpus in ((spec.run, "run", "corpus"), (spec.second, "second", "second_corpus")):
        if trained:
            require_run(trained, inputs[role], EMBEDDINGS)
            if corpus in inputs:
                require_input(inputs[role], "corpus", inputs[corpus])
    facts: Facts = {}
    rerank = None
    if has_matcher(spec):
        from vsepp.evaluation.encode import open_run
        from vsepp.evaluation.rerank import Reranker

        require_fitting(spec.run, inputs["run"], inputs)
        placing, facts = take_machine(job, "evaluation")
        opened = open_run(spec.run, spec.split, inputs, placing.device)
        rerank = Reranker.from_split(*opened, device=placing.device).best
    print(*evaluate_run(spec, inputs, out, rerank), sep="\n\n")
    return facts


def has_matcher(spec: EvaluationSpec) -> bool:
    """Whether a matcher scores the best again, which needs the model and all that it reads."""
    return spec.run.model.matcher is not None


def modules(spec: EvaluationSpec) -> Sequence[str]:
    """Ranking and, with a matcher, the model."""
    return ["vsepp.evaluation.evaluate_run", *(["vsepp.evaluation.rerank"] if has_matcher(spec) else [])]


def components(spec: EvaluationSpec) -> Sequence[tuple[str, str]]:
    """The similarity, or with a matcher all components of the model; and the truths."""
    scored = [("similarity", spec.run.model.similarity.name)]
    of_model = released.components(spec.run) if has_matcher(spec) else scored
    return [*of_model, *(("truth", truth) for truth in spec.truths)]


def gpu(spec: EvaluationSpec) -> Gpu:
    """Only a matcher computes on it."""
    return released.gpu(spec.run) if has_matcher(spec) else "none"


def name(spec: EvaluationSpec, label: str) -> str:
    """The name of the run, or of the ensemble and the seed."""
    return seeded(spec.ensemble, spec.run.init_seed) if spec.ensemble else spec.run.seeded_id


STEP = Step(
    "evaluation",
    EvaluationSpec,
    run,
    phase="results",
    folder="results/{preset}/{variant}/evaluations/{name}",
    modules=modules,
    components=components,
    name=name,
    reads={**ENCODING, "run": "", "second": "", "second_corpus": ""},
    files=lambda spec: ["metrics.json", "ranks.npz"],
    sometimes=["best.npz", EMBEDDINGS],
    seed=lambda spec: spec.run.init_seed,
    threads="preset",
    gpu=gpu,
)
