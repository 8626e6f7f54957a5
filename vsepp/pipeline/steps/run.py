"""Features or images, and word ids → a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vsepp.base.spec import RunSpec
from vsepp.pipeline.making import take_machine
from vsepp.pipeline.step import Facts, Inputs, Job, Role, Step

# Inputs that encoding a split reads besides the model.
ENCODING = {
    "corpus": Role("folder of the corpus"),
    "tokens": Role("folder of the word ids"),
    "features": Role("folder of the features under the test crop, for a frozen encoder", optional=True),
    "eval_store": Role("folder of the image store, for an encoder that is fine-tuned", optional=True),
    "encoder": Role("folder of the encoder's weights before training", optional=True),
    "caption_states": Role("folder of the states of all captions, for a frozen text encoder", optional=True),
}
# Not the history: it also holds seconds, which differ between two equal trainings.
FILES = ("model.safetensors", "vocabulary.json")


def run(spec: RunSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Train one run for one seed, or continue a stopped training."""
    from vsepp.data.vocabulary import Vocabulary
    from vsepp.training.data import load_training_data
    from vsepp.training.distributed import join
    from vsepp.training.loop import LOSS_FILE, train

    device, facts = take_machine(job, "run")
    with join(device) as group:
        data = load_training_data(spec, inputs, device, data_on=job.data_on, share=job.device_share)
        trained = train(
            spec,
            data,
            out,
            job.state,
            device,
            {**inputs, **job.raw},
            checkpoint_seconds=job.checkpoint_seconds,
            group=group,
        )
    # With the vocabulary the folder can be used by itself, on captions of one's own.
    Vocabulary.read(inputs["tokens"]).write(out)
    if group.first:
        (job.output / LOSS_FILE).unlink(missing_ok=True)  # left by another loss that was trained there before
    return {**facts, **trained, "data_on": data.data_on}


def components(spec: RunSpec) -> Sequence[tuple[str, str]]:
    """Components of the model and of its training, and the encoder where it runs inside the training."""
    runs_encoder = spec.reads in ("inline", "live")
    return [*spec.components, *([spec.encoder.component] if runs_encoder else [])]


STEP = Step(
    "run",
    RunSpec,
    run,
    phase="models",
    folder="results/{preset}/{variant}/runs/{name}",
    modules=("vsepp.training.loop",),
    components=components,
    name=lambda spec, inputs, label: spec.seeded_id,
    reads={
        **ENCODING,
        "tape": Role("folder of the random-crop features of a frozen encoder", optional=True),
        "train_store": Role("folder of the image store that random crops are taken from", optional=True),
        "caption_vectors": Role("folder of captions' vectors, for a loss that compares them", optional=True),
        "init_from": Role("folder of the frozen run that a fine-tuned run starts from", optional=True),
    },
    known_raw=lambda spec, raw: raw,
    files=FILES,
    seed=lambda spec: spec.init_seed,
    resumes=True,
    takes=("device", "device_share", "threads", "data_on", "checkpoint_seconds"),
)
