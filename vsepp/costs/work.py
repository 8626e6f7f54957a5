"""The jobs of a plan, what they wait for, and how much of which work each of them is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from vsepp.bench.measurement import decode_entry, head_entry, network_entry, rank_entry
from vsepp.config.plan import Plan, Run
from vsepp.costs.counts import captions_of, images_of, pairs_embedded, times, training_pairs
from vsepp.costs.rates import NETWORKS, Network
from vsepp.spec import RunSpec

Part = Literal["decode", "forward", "training", "validation", "evaluation"]
Phase = Literal["stores", "features", "tapes", "training", "evaluation"]
PHASES: tuple[Phase, ...] = ("stores", "features", "tapes", "training", "evaluation")


@dataclass(frozen=True)
class Work:
    """So many items at a rate that is measured: what a device is busy with."""

    part: Part
    entry: str
    """What works, as the record of rates calls it: `torchvision/vgg19@224`."""
    rate: str
    """Which of its rates: `forward_images_per_s`."""
    amount: int | None
    """Images, pairs, captions or scores."""


@dataclass(frozen=True)
class Job:
    """One job of the workflow that takes time."""

    phase: Phase
    what: str
    """The artefact or run."""
    work: tuple[Work, ...]
    needs: tuple[str, ...] = ()
    """Names of the jobs that come before."""
    seed: int | None = None

    @property
    def on_cores(self) -> bool:
        """Whether it takes all cores of the machine and no GPU."""
        return self.phase == "stores"


def _head(spec: RunSpec, known: Mapping[str, Network], precision: str = "fp32") -> str:
    network = known.get(spec.encoder.architecture)
    return head_entry(spec.model, network.dim if network else "?", precision)


def jobs_of(plan: Plan, known: Mapping[str, Network] = NETWORKS) -> dict[str, Job]:
    """Every job of the plan that takes time, from nothing: name → job, each after those that it needs.

    Not among them: downloads, generated scenes and their encoders, tables, word ids, the report. They take no
    device and, but for the downloads, minutes.
    """
    models = plan.models.values()
    features = sorted({run.eval_features for run in models if run.eval_features in plan.features})
    tapes = sorted({run.tape for run in models if run.tape})
    stores = {store for run in models for store in _own_stores(run)}
    stores |= {plan.features[name].store for name in features} | {plan.tapes[name].store for name in tapes}
    found: dict[str, Job] = {}
    for name in sorted(stores):
        store = plan.stores[name]
        work = Work(
            "decode",
            decode_entry(store.spec),
            "images_per_s_per_core",
            images_of(plan.corpora[store.corpus]),
        )
        found[name] = Job("stores", name, (work,))
    for name in features:
        job = plan.features[name]
        crops = 10 if job.crop.kind == "10C" else 1
        images = images_of(plan.corpora[plan.stores[job.store].corpus])
        found[name] = Job(
            "features", name, (_forward(plan, job.encoder, times(images, crops)),), (job.store,)
        )
    for name in tapes:
        tape = plan.tapes[name]
        crops_seen = times(captions_of(plan.corpora[tape.corpus], tape.splits), tape.epochs)
        found[name] = Job("tapes", name, (_forward(plan, tape.encoder, crops_seen),), (tape.store,))
    # Frozen runs first: fine-tuned ones start from them.
    for name, run in sorted(plan.runs.items(), key=lambda item: item[1].spec.finetuned):
        for seed in plan.seeds:
            reads = [run.tape, run.features, run.eval_features, *_own_stores(run)]
            start = run.spec.finetune_from
            needs = {read for read in reads if read in found} | ({_train(start, seed)} if start else set())
            found[_train(name, seed)] = Job(
                "training", name, _training_work(plan, run, known), tuple(sorted(needs)), seed
            )
    for name, run in plan.models.items():
        for seed in plan.seeds_of(name):
            needs = {_train(name, seed), run.eval_features, run.eval_store} & found.keys()
            found[f"evaluation of {name}, seed {seed}"] = Job(
                "evaluation", name, _evaluation_work(plan, run, known), tuple(sorted(needs)), seed
            )
    return found


def _train(run: str, seed: int) -> str:
    return f"training of {run}, seed {seed}"


def _own_stores(run: Run) -> set[str]:
    """Stores that a run reads itself, and not through features or a tape."""
    train = run.train_store if not run.tape else None
    return {store for store in (train, run.eval_store) if store}


def _forward(plan: Plan, encoder: str, images: int | None) -> Work:
    return Work("forward", network_entry(plan.encoders[encoder]), "forward_images_per_s", images)


def _training_work(plan: Plan, run: Run, known: Mapping[str, Network]) -> tuple[Work, ...]:
    """All epochs of a training with their validations."""
    spec, corpus = run.spec, plan.corpora[run.corpus]
    epochs = spec.schedule.epochs
    pairs = times(pairs_embedded(spec, training_pairs(plan, run)), epochs)
    work = []
    if spec.finetuned:
        # Measured as whole steps, text encoder, loss and optimiser included.
        work.append(Work("training", network_entry(spec.encoder, spec.precision), "train_pairs_per_s", pairs))
    else:
        if spec.live_encoder or (spec.trainset == "RC" and spec.rc_features == "inline"):
            precision = spec.precision if spec.live_encoder else None
            entry = network_entry(spec.encoder, precision)
            work.append(Work("forward", entry, "forward_images_per_s", pairs))
        work.append(Work("training", _head(spec, known, spec.precision), "pairs_per_s", pairs))
    images = images_of(corpus, ["val"])
    if images is not None and spec.validation_images is not None:
        images = min(images, spec.validation_images)
    captions = times(images, corpus.captions_per_image)
    work += _embedding_work("validation", spec, times(images, epochs), times(captions, epochs), known)
    return (
        *work,
        Work("validation", rank_entry(spec.model), "scores_per_s", times(images, captions, epochs)),
    )


def _evaluation_work(plan: Plan, run: Run, known: Mapping[str, Network]) -> tuple[Work, ...]:
    """The test set once through the model, and its ranks under each protocol."""
    spec, corpus = run.spec, plan.corpora[run.corpus]
    images, captions = images_of(corpus, ["test"]), captions_of(corpus, ["test"])
    work = _embedding_work("evaluation", spec, images, captions, known)
    fold = plan.parameters.preset.evaluation.fold_size
    scores: int | None = 0
    for protocol in run.protocols:
        folds, size = {"1K": (1, fold), "5x1K": (5, fold)}.get(protocol, (1, images))
        asked = times(folds, size, size, corpus.captions_per_image)
        scores = None if scores is None or asked is None else scores + asked
    return (*work, Work("evaluation", rank_entry(spec.model), "scores_per_s", scores))


def _embedding_work(
    part: Part, spec: RunSpec, images: int | None, captions: int | None, known: Mapping[str, Network]
) -> list[Work]:
    live = [Work(part, network_entry(spec.encoder, "fp32"), "forward_images_per_s", images)]
    return [
        *(live if spec.live_encoder else []),
        Work(part, _head(spec, known), "captions_per_s", captions),
    ]


def short_names(plan: Plan, jobs: Mapping[str, Job]) -> dict[str, str]:
    """Names of shared passes that fit into a line; equal ones are numbered."""
    short: dict[str, str] = {}
    for name, job in jobs.items():
        if job.seed is not None:
            continue
        if job.phase == "stores":
            store = plan.stores[name]
            said = f"store {store.corpus.rpartition('-')[0]}/{store.spec.resize}{store.spec.side}"
        else:
            shared = plan.features[name] if job.phase == "features" else plan.tapes[name]
            kind = "tape" if job.phase == "tapes" else shared.crop.kind
            corpus = plan.stores[shared.store].corpus.rpartition("-")[0]
            said = f"{kind} {corpus}/{plan.encoders[shared.encoder].name}"
        alike = sum(other.partition("#")[0] == said for other in short.values())
        short[name] = f"{said}#{alike + 1}" if alike else said
    return short | {
        name: f"published {corpus.rpartition('-')[0]}" for name, corpus in plan.precomputed.items()
    }


def readers(plan: Plan, name: str) -> list[str]:
    """Runs that read a store, features or a tape."""
    return [
        run
        for run, model in plan.models.items()
        if name in (model.tape, model.features, model.eval_features, model.eval_store)
        or (name == model.train_store and not model.tape)
    ]
