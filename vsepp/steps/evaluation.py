"""A model, test images and captions → embeddings → ranks and recalls."""

from __future__ import annotations

from pathlib import Path

from vsepp.provenance.artefacts import Artefacts, Facts, Inputs, Job, Role, Step
from vsepp.spec import CorpusSpec, EvaluationSpec
from vsepp.steps import released
from vsepp.steps.making import take_machine
from vsepp.steps.run import ENCODING
from vsepp.steps.sizes import captions_of, images_of, product


def run(spec: EvaluationSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Embed a split with a trained run, re-rank it where the run has a matcher, and compute recalls and ranks."""
    from vsepp.evaluation.protocols import LISTS
    from vsepp.evaluation.run import evaluate_run
    from vsepp.provenance.compatibility import require_fitting

    require_fitting(spec.run, inputs["run"], inputs)
    device, facts = take_machine(job, "evaluation")
    for evaluation in evaluate_run(spec, inputs, out, device):
        print(evaluation)
    if spec.run.model.matcher is None:
        (job.output / LISTS).unlink(missing_ok=True)  # of another model that was evaluated there before
    return facts


def name(spec: EvaluationSpec, inputs: Artefacts, label: str) -> str:
    """The run's id and its seed."""
    return spec.run.seeded_id


def size(spec: EvaluationSpec, corpus: CorpusSpec | None) -> int | None:
    """Bytes of the embeddings."""
    items = images_of(corpus, [spec.split]), captions_of(corpus, [spec.split])
    return product(None if None in items else sum(items), spec.run.model.joint_dim, 4)  # type: ignore[arg-type]


STEP = Step(
    "evaluation",
    EvaluationSpec,
    run,
    title="embeddings",
    phase="results",
    folder="results/{preset}/{variant}/evaluations/{name}",
    modules=("vsepp.evaluation.run",),
    components=lambda spec: released.components(spec.run),
    name=name,
    reads={
        "run": Role("folder of the trained run; nothing else of its clone is needed"),
        **ENCODING,
        "tokens": Role(
            "folder of the word ids; without it they are made with the run's vocabulary", optional=True
        ),
    },
    files=("embeddings.npz", "metrics.json", "ranks.npz"),
    seed=lambda spec: spec.run.init_seed,
    takes=("device", "device_share", "threads"),
    size=size,
)
