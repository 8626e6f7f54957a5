"""What a plan costs: pairs, steps, images through the encoders, bytes on disk, and hours at measured rates.

Pure functions of a plan and of rates that were measured before (`vsepp.bench`); nothing is read or measured here.
A quantity that nobody knows is `None`, and never a guess.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from vsepp.config.plan import Plan, Run, SourceFile
from vsepp.errors import VseppError
from vsepp.spec import CorpusSpec, EncoderSpec, RunSpec, StoreSpec

Part = Literal["decode", "forward", "training", "validation", "evaluation"]
Phase = Literal["stores", "features", "tapes", "training", "evaluation"]
PHASES: tuple[Phase, ...] = ("stores", "features", "tapes", "training", "evaluation")

NO_COUNT = "how many images there are"
"""Missing where a data set's entry gives no numbers of images or captions."""

# Words of a vocabulary where a word must be seen four times: COCO and Flickr30K have about 10,000.
ASSUMED_WORDS = 12_000
# Of the compressed tables and of the compressed word ids; Flickr8k's are 33 and 17.
TABLE_BYTES_PER_CAPTION, TOKEN_BYTES_PER_CAPTION = 40, 20
# A generated picture of the mini preset in blocks of 4 kB.
PICTURE_BYTES = 6_000


class Network(NamedTuple):
    """An image encoder cut at its penultimate layer."""

    dim: int
    """D_φ."""
    parameters: int
    """Numbers in its weights, the statistics of batch normalisation included."""


NETWORKS = {
    "mini/vgg_mini": Network(128, 137_040),
    "mini/resnet_mini": Network(128, 309_756),
    "lite/efficientnet_lite0": Network(1280, 3_413_073),
    "lite/efficientnet_lite2": Network(1280, 4_869_232),
    "torchvision/resnet152": Network(2048, 58_295_387),
    "torchvision/vgg19": Network(4096, 139_570_240),
    "torchvision/vit_b_16": Network(768, 85_798_656),
}
"""Sizes of the architectures that the presets name; those of others are known once they were measured."""


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


@dataclass(frozen=True)
class Rates:
    """What a device was measured to do; one record of `benchmarks/rates.json`."""

    device: str
    """`cpu`, or the GPU's name."""
    machine: str
    date: str
    cores: int
    rates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def per_second(self, work: Work) -> float | None:
        """Items a second, on all cores where the rate is of one."""
        value = self.rates.get(work.entry, {}).get(work.rate)
        return value * self.cores if value and work.rate.endswith("_per_core") else value


class Time(NamedTuple):
    """Seconds of work, as far as they are known."""

    seconds: float
    missing: frozenset[str]
    """What is not known, in words; the sum is a lower bound where there is anything."""


@dataclass(frozen=True)
class Item:
    """Something on disk."""

    kind: str
    name: str
    size: int | None
    """Bytes."""
    path: Path
    """Relative to the working folder."""
    group: str = ""
    """Of a tape: corpus and encoder."""


def parse_rates(content: Any, where: str) -> list[Rates]:
    """Records of measured rates.

    Parameters
    ----------
    content
        What `benchmarks/rates.json` holds: a list of `{device, machine, date, cores, rates, …}`.
    where
        The file, for messages.

    Raises
    ------
    VseppError
        On anything else, naming the record and the key.
    """
    if not isinstance(content, list):
        raise VseppError(
            f"{where}: expected a list of records, got {type(content).__name__}; measure it again"
        )
    found = []
    for number, record in enumerate(content):
        values = record if isinstance(record, dict) else {}
        kinds = {"device": str, "machine": str, "date": str, "cores": int, "rates": dict}
        for key, kind in kinds.items():
            if not isinstance(values.get(key), kind):
                raise VseppError(
                    f"{where}: record {number}: {key}: expected {kind.__name__}, got {values.get(key)!r}; "
                    "delete the record and measure again with `vsepp plan --calibrate --save`"
                )
        for entry, rates in values["rates"].items():
            if not isinstance(rates, dict):
                raise VseppError(
                    f"{where}: record {number}: rates.{entry}: expected rates by name, got {rates!r}; "
                    "delete it and measure again"
                )
            wrong = [
                key for key, value in rates.items() if "_per_s" in key and not (_number(value) and value > 0)
            ]
            if wrong:
                raise VseppError(
                    f"{where}: record {number}: rates.{entry}.{wrong[0]}: expected a number above 0, "
                    f"got {rates[wrong[0]]!r}; delete it and measure again"
                )
        found.append(Rates(**{key: values[key] for key in kinds}))
    return found


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def networks(records: Iterable[Rates]) -> dict[str, Network]:
    """Sizes of architectures: the known ones, and those that a measurement met."""
    found = dict(NETWORKS)
    for record in records:
        for entry, rates in record.rates.items():
            if {"dim", "parameters"} <= rates.keys():
                found[entry.rpartition("@")[0]] = Network(rates["dim"], rates["parameters"])
    return found


def images_of(corpus: CorpusSpec, splits: Iterable[str] | None = None) -> int | None:
    """Images of some splits, all by default; `None` where the data set's entry does not say."""
    if not corpus.expected_images:
        return None
    wanted = corpus.expected_images if splits is None else splits
    counts = {split: corpus.expected_images.get(split, 0) for split in wanted}
    return sum(min(count, corpus.first_images.get(split, count)) for split, count in counts.items())


def captions_of(corpus: CorpusSpec, splits: Iterable[str] | None = None) -> int | None:
    """Captions of some splits, all by default."""
    return _times(images_of(corpus, splits), corpus.captions_per_image)


def training_pairs(plan: Plan, run: Run) -> int | None:
    """Pairs that an epoch uses once each as a query: the captions of the training splits."""
    return captions_of(plan.corpora[run.corpus], run.spec.train_splits)


def steps_per_epoch(pairs: int | None, batch_size: int) -> int | None:
    """Steps of an epoch; the last batch may be smaller and is kept."""
    return None if pairs is None else math.ceil(pairs / batch_size)


def pairs_embedded(spec: RunSpec, pairs: int | None) -> int | None:
    """Pairs that go through the model in an epoch: more than there are where negatives are added to each batch."""
    size = spec.loss.negative_set or 0
    if pairs is None or size <= spec.schedule.batch_size:
        return pairs
    return math.ceil(pairs / spec.schedule.batch_size) * min(size, pairs)


def _times(*factors: int | None) -> int | None:
    known = [factor for factor in factors if factor is not None]
    return math.prod(known) if len(known) == len(factors) else None


def network_entry(encoder: EncoderSpec) -> str:
    """Name of an encoder's rates."""
    return f"{encoder.architecture}@{encoder.input_size}"


def head_entry(spec: RunSpec, known: Mapping[str, Network]) -> str:
    """Name of the rates of all that is not the encoder: size of its features, and of the text encoder."""
    network = known.get(spec.encoder.architecture)
    order = "" if spec.model.similarity == "dot" else f"/{spec.model.similarity}"
    return f"head@{network.dim if network else '?'}/{spec.model.text_dim}{order}"


def decode_entry(store: StoreSpec) -> str:
    """Name of the rate at which photographs are decoded into a store."""
    return f"decode@{store.side}"


def rank_entry(spec: RunSpec) -> str:
    """Name of the rate at which scores are made and ranked."""
    return f"ranks@{spec.model.joint_dim}/{spec.model.similarity}"


def jobs(plan: Plan, known: Mapping[str, Network] = NETWORKS) -> dict[str, Job]:
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
            "features", name, (_forward(plan, job.encoder, _times(images, crops)),), (job.store,)
        )
    for name in tapes:
        tape = plan.tapes[name]
        crops_seen = _times(captions_of(plan.corpora[tape.corpus], tape.splits), tape.epochs)
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
    pairs = _times(pairs_embedded(spec, training_pairs(plan, run)), epochs)
    work = []
    if spec.finetuned:
        # Measured as whole steps, text encoder, loss and optimiser included.
        work.append(Work("training", network_entry(spec.encoder), "train_pairs_per_s", pairs))
    else:
        if spec.live_encoder or (spec.trainset == "RC" and spec.rc_features == "inline"):
            work.append(Work("forward", network_entry(spec.encoder), "forward_images_per_s", pairs))
        work.append(Work("training", head_entry(spec, known), "pairs_per_s", pairs))
    images = images_of(corpus, ["val"])
    if images is not None and spec.validation_images is not None:
        images = min(images, spec.validation_images)
    captions = _times(images, corpus.captions_per_image)
    work += _embedding_work("validation", spec, _times(images, epochs), _times(captions, epochs), known)
    return (*work, Work("validation", rank_entry(spec), "scores_per_s", _times(images, captions, epochs)))


def _evaluation_work(plan: Plan, run: Run, known: Mapping[str, Network]) -> tuple[Work, ...]:
    """The test set once through the model, and its ranks under each protocol."""
    spec, corpus = run.spec, plan.corpora[run.corpus]
    images, captions = images_of(corpus, ["test"]), captions_of(corpus, ["test"])
    work = _embedding_work("evaluation", spec, images, captions, known)
    fold = plan.parameters.preset.evaluation.fold_size
    scores: int | None = 0
    for protocol in run.protocols:
        folds, size = {"1K": (1, fold), "5x1K": (5, fold)}.get(protocol, (1, images))
        asked = _times(folds, size, size, corpus.captions_per_image)
        scores = None if scores is None or asked is None else scores + asked
    return (*work, Work("evaluation", rank_entry(spec), "scores_per_s", scores))


def _embedding_work(
    part: Part, spec: RunSpec, images: int | None, captions: int | None, known: Mapping[str, Network]
) -> list[Work]:
    live = [Work(part, network_entry(spec.encoder), "forward_images_per_s", images)]
    return [
        *(live if spec.live_encoder else []),
        Work(part, head_entry(spec, known), "captions_per_s", captions),
    ]


def time_of(work: Iterable[Work], rates: Rates | None, parts: Iterable[Part] | None = None) -> Time:
    """Time of some work on a device, or of those of its parts that are named."""
    seconds, missing = 0.0, set()
    for item in work:
        if parts is not None and item.part not in parts:
            continue
        speed = rates.per_second(item) if rates else None
        if item.amount is None:
            missing.add(NO_COUNT)
        elif speed is None:
            missing.add(f"{item.rate} of {item.entry}")
        else:
            seconds += item.amount / speed
    return Time(seconds, frozenset(missing))


def longest_chain(found: Mapping[str, Job], seconds: Mapping[str, float]) -> tuple[float, list[str]]:
    """Seconds and jobs of the chain that bounds the time however many devices there are."""
    ends: dict[str, float] = {}
    before: dict[str, str | None] = {}
    for name, job in found.items():  # each comes after what it needs
        before[name] = max(job.needs, key=ends.__getitem__, default=None)
        ends[name] = seconds[name] + (ends[before[name]] if before[name] else 0.0)
    last: str | None = max(ends, key=ends.__getitem__, default=None)
    total, chain = ends.get(last or "", 0.0), []
    while last is not None:
        chain.append(last)
        last = before[last]
    return total, chain[::-1]


def wall_seconds(
    found: Mapping[str, Job], seconds: Mapping[str, float], devices: int, *, cores_apart: bool = True
) -> float:
    """Time from the first job to the last on so many devices, one job on each at a time.

    List scheduling: whatever is free takes the job that is ready and has the longest way to the end.

    Parameters
    ----------
    found
        The jobs.
    seconds
        Of each of them.
    devices
        At least 1.
    cores_apart
        Whether jobs of the cores, which take all of them, run beside those of the devices; false on a machine
        without a GPU, whose device its cores are.
    """
    way = _ways_to_the_end(found, seconds)
    waits = {name: len(job.needs) for name, job in found.items()}
    readers: dict[str, list[str]] = {name: [] for name in found}
    for name, job in found.items():
        for need in job.needs:
            readers[need].append(name)
    free = [devices, 1]
    ready: list[list[tuple[float, str]]] = [[], []]

    def place(name: str) -> int:
        return int(cores_apart and found[name].on_cores)

    for name, count in waits.items():
        if not count:
            heapq.heappush(ready[place(name)], (-way[name], name))
    now, running = 0.0, []
    while running or any(ready):
        for kind in (0, 1):
            while free[kind] and ready[kind]:
                free[kind] -= 1
                name = heapq.heappop(ready[kind])[1]
                heapq.heappush(running, (now + seconds[name], name))
        now, name = heapq.heappop(running)
        free[place(name)] += 1
        for reader in readers[name]:
            waits[reader] -= 1
            if not waits[reader]:
                heapq.heappush(ready[place(reader)], (-way[reader], reader))
    return now


def _ways_to_the_end(found: Mapping[str, Job], seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds from each job's start to the end of the longest chain that it begins."""
    way = dict(seconds)
    for name in reversed(found):  # type: ignore[call-overload]
        for need in found[name].needs:
            way[need] = max(way[need], seconds[need] + way[name])
    return way


def files_read(plan: Plan) -> dict[str, SourceFile]:
    """Raw files that the models of the plan read, by name: those of their corpora and of their encoders."""
    models = plan.models.values()
    paths = {path for run in models for path in plan.corpora[run.corpus].files.values()}
    paths |= {str(plan.encoder_files[run.encoder]) for run in models if run.encoder in plan.encoder_files}
    return {name: file for name, file in plan.files.items() if str(file.path) in paths}


def disk_items(plan: Plan, found: Mapping[str, Job], known: Mapping[str, Network] = NETWORKS) -> list[Item]:
    """Everything that the plan writes, with its size and where it lies; a user's own files are not written."""
    results, models = Path("results") / plan.preset, plan.models
    items = [
        Item("downloads", name, file.spec.size, file.path)
        for name, file in files_read(plan).items()
        if not file.own
    ]
    corpora = {run.corpus: plan.corpora[run.corpus] for run in models.values()}
    if plan.scenes and plan.scenes_folder:
        pictures = sum(sum(splits.values()) for splits in plan.scenes.images.values())
        items.append(Item("generated pictures", "scenes", pictures * PICTURE_BYTES, plan.scenes_folder))
    for name, corpus in corpora.items():
        size = _times(captions_of(corpus), TABLE_BYTES_PER_CAPTION)
        items.append(Item("tables and word ids", name, size, results / "corpora" / name))
    for name in sorted({run.tokens for run in models.values()}):
        size = _times(captions_of(plan.corpora[plan.tokens[name].corpus]), TOKEN_BYTES_PER_CAPTION)
        items.append(Item("tables and word ids", name, size, results / "tokens" / name))
    for name in sorted({run.encoder for run in models.values() if run.encoder}):
        network = known.get(plan.encoders[name].architecture)
        size = 4 * network.parameters if network else None
        items.append(Item("encoders", name, size, results / "encoders" / name))
    items += [_shared_item(plan, name, job, known) for name, job in found.items() if job.seed is None]
    for name in sorted({run.features for run in models.values() if run.features in plan.precomputed}):
        spec = next(run.spec for run in models.values() if run.features == name)
        size = _times(images_of(plan.corpora[plan.precomputed[name]]), _dim(spec.encoder, known), 4)
        items.append(Item("features", name, size, results / "features" / name))
    for name, run in models.items():
        weights = model_numbers(run.spec, known)
        rows = [_count(plan.corpora[run.corpus], "test"), captions_of(plan.corpora[run.corpus], ["test"])]
        for seed in plan.seeds_of(name):
            folder = results / plan.variant / "{}" / name / f"seed-{seed}"
            size = None if weights is None else 4 * weights[0]
            items.append(Item("models", name, size, Path(str(folder).format("runs"))))
            size = None if None in rows else sum(rows) * run.spec.model.joint_dim * 4  # type: ignore[arg-type]
            items.append(Item("embeddings", name, size, Path(str(folder).format("embeddings"))))
    return items


def _count(corpus: CorpusSpec, split: str) -> int | None:
    return images_of(corpus, [split])


def _dim(encoder: EncoderSpec, known: Mapping[str, Network]) -> int | None:
    network = known.get(encoder.architecture)
    return network.dim if network else None


def _shared_item(plan: Plan, name: str, job: Job, known: Mapping[str, Network]) -> Item:
    path = Path("results") / plan.preset / job.phase / name
    if job.phase == "stores":
        store = plan.stores[name]
        return Item("stores", name, _times(job.work[0].amount, store.spec.side**2, 3), path)
    if job.phase == "features":
        features = plan.features[name]
        images = images_of(plan.corpora[plan.stores[features.store].corpus])
        return Item("features", name, _times(images, _dim(plan.encoders[features.encoder], known), 4), path)
    tape = plan.tapes[name]
    size = _times(job.work[0].amount, _dim(plan.encoders[tape.encoder], known), 2)
    return Item("tapes", name, size, path, f"{tape.corpus} × {tape.encoder}")


def model_numbers(spec: RunSpec, known: Mapping[str, Network]) -> tuple[int, int] | None:
    """Numbers in a run's model, and those that are trained; the vocabulary's size is assumed."""
    network, model = known.get(spec.encoder.architecture), spec.model
    if network is None:
        return None
    gru = 3 * model.text_dim * (model.word_dim + model.text_dim + 2)
    image_map = model.joint_dim * (network.dim + model.image_bias)
    caption_map = model.joint_dim * model.text_dim if model.caption_projection else 0
    head = ASSUMED_WORDS * model.word_dim + gru + image_map + caption_map
    whole = head + (network.parameters if spec.live_encoder else 0)
    return whole, whole if spec.finetuned else head


def checkpoint_bytes(spec: RunSpec, known: Mapping[str, Network]) -> int | None:
    """State of a training: the model, its best snapshot and Adam's two moments, twice while one replaces another."""
    numbers = model_numbers(spec, known)
    return None if numbers is None else 2 * 4 * (2 * numbers[0] + 2 * numbers[1])


def checkpoints_at_once(plan: Plan, trainings: int, known: Mapping[str, Network] = NETWORKS) -> int:
    """Bytes of the largest states of as many trainings as run at once."""
    sizes = [checkpoint_bytes(run.spec, known) or 0 for run in plan.runs.values() for _ in plan.seeds]
    return sum(sorted(sizes, reverse=True)[:trainings])


def tape_bytes(items: Iterable[Item]) -> tuple[int, int]:
    """Bytes of the largest tapes of one corpus and encoder, and of all tapes together."""
    groups: dict[str, int] = {}
    for item in items:
        if item.kind == "tapes":
            groups[item.group] = groups.get(item.group, 0) + (item.size or 0)
    return max(groups.values(), default=0), sum(groups.values())
