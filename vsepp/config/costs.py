"""What a plan costs: images and pairs, bytes of all that is read and written, and hours at measured rates.

Pure functions of specs and counts. A number that nobody knows is `None`, and never a guess.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vsepp.components import describe
from vsepp.config.plan import Plan, Run, SourceFile
from vsepp.errors import VseppError
from vsepp.evaluation.protocols import protocol_folds
from vsepp.spec import CorpusSpec, EncoderSpec, ModelSpec, RunSpec

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
"""Sizes of the architectures that the presets name."""


def product(*factors: int | None) -> int | None:
    """The product, which is unknown where a factor is."""
    known = [factor for factor in factors if factor is not None]
    return math.prod(known) if len(known) == len(factors) else None


def images_of(corpus: CorpusSpec, splits: Iterable[str] | None = None) -> int | None:
    """Images of some splits, all by default; `None` where the data set's entry does not say."""
    if not corpus.expected_images:
        return None
    wanted = corpus.expected_images if splits is None else splits
    counts = {split: corpus.expected_images.get(split, 0) for split in wanted}
    return sum(min(count, corpus.first_images.get(split, count)) for split, count in counts.items())


def captions_of(corpus: CorpusSpec, splits: Iterable[str] | None = None) -> int | None:
    """Captions of some splits, all by default."""
    return product(images_of(corpus, splits), corpus.captions_per_image)


def steps_of(spec: RunSpec, pairs: int | None) -> int | None:
    """Steps of an epoch; the last one may be smaller."""
    return None if pairs is None else math.ceil(pairs / spec.schedule.batch_size)


def pairs_embedded(spec: RunSpec, pairs: int | None) -> int | None:
    """Pairs that go through the model in an epoch: more than there are where negatives are added to each batch."""
    size = spec.schedule.negative_set or 0
    if pairs is None or size <= spec.schedule.batch_size:
        return pairs
    return product(steps_of(spec, pairs), min(size, pairs))


def feature_dim(encoder: EncoderSpec) -> int | None:
    """D_φ."""
    network = NETWORKS.get(encoder.architecture)
    return network.dim if network else None


def store_bytes(side: int, images: int | None) -> int | None:
    """Of decoded images."""
    return product(images, side**2, 3)


def features_bytes(encoder: EncoderSpec, images: int | None) -> int | None:
    """Of float32 features of fixed crops."""
    return product(images, feature_dim(encoder), 4)


def tape_bytes(encoder: EncoderSpec, captions: int | None, epochs: int) -> int | None:
    """Of 16-bit random-crop features of every caption and epoch."""
    return product(captions, epochs, feature_dim(encoder), 2)


def encoder_bytes(encoder: EncoderSpec) -> int | None:
    """Of an encoder's weights."""
    network = NETWORKS.get(encoder.architecture)
    return 4 * network.parameters if network else None


def text_dims(model: ModelSpec) -> tuple[int, int] | None:
    """Sizes of a word and of the state, D_ψ; `None` of a text encoder that has other options."""
    options = describe("text encoder", model.text.name).options(**model.text.options)
    dims = getattr(options, "word_dim", None), getattr(options, "dim", None)
    return None if None in dims else dims  # type: ignore[return-value]


def model_numbers(spec: RunSpec) -> tuple[int, int] | None:
    """Numbers in a run's model, a GRU assumed, and those that are trained; the vocabulary's size is assumed."""
    network, model, dims = NETWORKS.get(spec.encoder.architecture), spec.model, text_dims(spec.model)
    if network is None or dims is None:
        return None
    word_dim, dim = dims
    gru = 3 * dim * (word_dim + dim + 2)
    image_map = model.joint_dim * (network.dim + model.image_bias)
    caption_map = model.joint_dim * dim if model.caption_projection else 0
    head = ASSUMED_WORDS * word_dim + gru + image_map + caption_map
    whole = head + (network.parameters if spec.live_encoder else 0)
    return whole, whole if spec.finetuned else head


def checkpoint_bytes(spec: RunSpec) -> int | None:
    """States of a training, each the model, its best snapshot and Adam's two moments: two are kept, one is written."""
    numbers = model_numbers(spec)
    return None if numbers is None else 3 * 4 * (2 * numbers[0] + 2 * numbers[1])


class Work(NamedTuple):
    """So many items of what `benchmarks/measure.py` measures under this name."""

    what: str
    variant: str
    precision: str
    amount: int | None


def pass_work(encoder: EncoderSpec, images: int | None, precision: str | None = None) -> Work:
    """Images through a frozen encoder, in its own precision or in that of the model which holds it."""
    return Work("tape", encoder_variant(encoder), precision or encoder.precision, images)


def encoder_variant(encoder: EncoderSpec) -> str:
    """Name of an encoder among the benchmarks: `torchvision/vgg19@224`, and how it is run if not by default."""
    ways = [] if encoder.memory_format == "channels_last" else [encoder.memory_format]
    ways += [] if encoder.compile == "off" else [f"compile-{encoder.compile}"]
    return " ".join([f"{encoder.architecture}@{encoder.input_size}", *ways])


def training_work(spec: RunSpec, pairs: int | None, images: int | None, captions: int | None) -> list[Work]:
    """A whole training with its validations.

    Parameters
    ----------
    spec
        The run.
    pairs
        Of an epoch.
    images, captions
        Of a validation.
    """
    epochs = spec.schedule.epochs
    embedded = product(pairs_embedded(spec, pairs), epochs)
    work = []
    if spec.finetuned:
        # Measured as whole steps, text encoder, loss and optimiser included.
        work.append(Work("step-finetuned", encoder_variant(spec.encoder), spec.precision, embedded))
    else:
        if spec.live_encoder or (spec.trainset == "RC" and spec.rc_features == "inline"):
            work.append(pass_work(spec.encoder, embedded, spec.precision if spec.live_encoder else None))
        # Of the steps on features those of 1C: they do all that those of 10C and RC do, in the same time.
        work.append(Work(_named("step-1c", spec), _head_variant(spec), spec.precision, embedded))
    work += embedding_work(spec, product(images, epochs), product(captions, epochs))
    return [*work, rank_work(spec, product(images, captions, epochs))]


def embedding_work(spec: RunSpec, images: int | None, captions: int | None) -> list[Work]:
    """Images and captions embedded, in fp32."""
    live = [pass_work(spec.encoder, images, "fp32")] if spec.live_encoder else []
    return [*live, Work(_named("encode", spec), _head_variant(spec), "fp32", captions)]


def rank_work(spec: RunSpec, scores: int | None) -> Work:
    """Scores made and ranked, both ways."""
    return Work(f"rank-{spec.model.similarity.name}", str(spec.model.joint_dim), "fp32", scores)


def _named(what: str, spec: RunSpec) -> str:
    similarity = spec.model.similarity.name
    return what if similarity == "dot" else f"{what}-{similarity}"


def _head_variant(spec: RunSpec) -> str:
    dims = text_dims(spec.model)
    return f"{feature_dim(spec.encoder) or '?'}/{dims[1] if dims else '?'}"


class Time(NamedTuple):
    """Hours of work, as far as they are known."""

    hours: float
    missing: tuple[str, ...]
    """Rates that were not measured; the sum lacks them."""
    uncounted: bool
    """Whether the data set's entry does not say how many images there are."""


Rates = Mapping[tuple[str, str, str], float]
"""Items a second by what, variant and precision."""


def time_of(work: Iterable[Work], rates: Rates) -> Time:
    """Hours of some work at measured rates."""
    seconds, missing, uncounted = 0.0, [], False
    for what, variant, precision, amount in work:
        rate = rates.get((what, variant, precision))
        uncounted |= amount is None
        if rate is None:
            missing.append(f"{what} {variant} {precision}")
        elif amount is not None:
            seconds += amount / rate
    return Time(seconds / 3600, tuple(dict.fromkeys(missing)), uncounted)


def read_rates(path: Path) -> dict[str, dict[tuple[str, str, str], float]]:
    """Rates that `benchmarks/measure.py` recorded, by `device, machine`; of what was measured again the newest counts.

    Raises
    ------
    VseppError
        Where the file is no such table, naming the row.
    """
    found: dict[str, dict[tuple[str, str, str], float]] = {}
    if not path.is_file():
        return found
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for number, row in sorted(enumerate(rows, start=2), key=lambda item: item[1].get("date") or ""):
        try:
            place, key = f"{row['device']}, {row['machine']}", (row["what"], row["variant"], row["precision"])
            value = float(row["median"])
        except (KeyError, TypeError, ValueError) as error:
            raise VseppError(
                f"{path}, line {number}: not a row of the benchmarks ({error}); expected what benchmarks/measure.py writes"
            ) from error
        if row["unit"].endswith("/s") and value > 0:
            found.setdefault(place, {})[key] = value
    return found


class Item(NamedTuple):
    """Something that a plan makes or fetches."""

    kind: str
    label: str
    size: int | None
    """Bytes."""
    path: Path
    """Relative to the working folder."""
    work: Sequence[Work] = ()
    """What making it takes, downloads and small steps left out."""
    group: str = ""
    """Of a tape: corpus and encoder."""


def files_read(plan: Plan) -> dict[str, SourceFile]:
    """Raw files that the models of the plan read, by name: those of their corpora and of their encoders."""
    models = plan.models.values()
    paths = {path for run in models for path in plan.corpora[run.corpus].files.values()}
    paths |= {str(plan.encoder_files[run.encoder]) for run in models if run.encoder in plan.encoder_files}
    return {name: file for name, file in plan.files.items() if str(file.path) in paths}


def items_of(plan: Plan) -> Iterator[Item]:
    """All that the models of a plan need, each shared one once; a user's own files are not among them."""
    for name, file in files_read(plan).items():
        if not file.own:
            yield Item("downloads", name, file.spec.size, file.path)
    if plan.scenes and plan.scenes_folder:
        pictures = sum(sum(splits.values()) for splits in plan.scenes.images.values())
        yield Item("generated pictures", "scenes", pictures * PICTURE_BYTES, plan.scenes_folder)
    yield from _shared(plan)
    for name, run in plan.models.items():
        for seed in plan.seeds_of(name):
            yield from _of_model(plan, name, run, seed)


def _shared(plan: Plan) -> Iterator[Item]:
    models, results = plan.models.values(), plan.results
    for name in dict.fromkeys(run.corpus for run in models):
        size = product(captions_of(plan.corpora[name]), TABLE_BYTES_PER_CAPTION)
        yield Item("tables and word ids", name, size, results / "corpora" / name)
    for name in dict.fromkeys(run.tokens for run in models):
        tokens = plan.tokens[name]
        size = product(captions_of(plan.corpora[tokens.corpus]), TOKEN_BYTES_PER_CAPTION)
        yield Item("tables and word ids", name, size, tokens.folder)
    for name in dict.fromkeys(run.encoder for run in models if run.encoder):
        size = encoder_bytes(plan.encoders[name])
        yield Item("encoders", plan.encoders[name].name, size, results / "encoders" / name)
    for name in _stores(plan):
        store = plan.stores[name]
        images = images_of(plan.corpora[store.corpus])
        work = [Work("store", str(store.spec.side), "fp32", images)]
        label = f"{_role(store.corpus)}, {store.spec.side} pixels"
        yield Item("stores", label, store_bytes(store.spec.side, images), results / "stores" / name, work)
    for name in dict.fromkeys(run.eval_features for run in models if run.eval_features in plan.features):
        features = plan.features[name]
        corpus, encoder = plan.stores[features.store].corpus, plan.encoders[features.encoder]
        images = images_of(plan.corpora[corpus])
        work = [pass_work(encoder, product(images, 10 if features.crop.kind == "10C" else 1))]
        label = f"{features.crop.kind} {_role(corpus)}/{encoder.name}"
        yield Item("features", label, features_bytes(encoder, images), results / "features" / name, work)
    for name, run in {run.features: run for run in models if run.features in plan.precomputed}.items():
        size = features_bytes(run.spec.encoder, images_of(plan.corpora[plan.precomputed[name]]))
        yield Item("features", f"published {_role(run.corpus)}", size, results / "features" / name)
    for name in dict.fromkeys(run.tape for run in models if run.tape):
        tape = plan.tapes[name]
        encoder, captions = plan.encoders[tape.encoder], captions_of(plan.corpora[tape.corpus], tape.splits)
        work = [pass_work(encoder, product(captions, tape.epochs))]
        label, size = f"{_role(tape.corpus)}/{encoder.name}", tape_bytes(encoder, captions, tape.epochs)
        yield Item("tapes", label, size, results / "tapes" / name, work, f"{tape.corpus} × {tape.encoder}")


def _of_model(plan: Plan, name: str, run: Run, seed: int) -> Iterator[Item]:
    """Training and embeddings of a model for a seed; a released one is trained already."""
    spec, corpus = run.spec, plan.corpora[run.corpus]
    folder, work = Path(name) / f"seed-{seed}", []
    if name in plan.runs:
        images = images_of(corpus, ["val"])
        if images is not None and spec.validation_images is not None:
            images = min(images, spec.validation_images)
        pairs = captions_of(corpus, spec.train_splits)
        work = training_work(spec, pairs, images, product(images, corpus.captions_per_image))
    numbers = model_numbers(spec)
    size = None if numbers is None else 4 * numbers[0]
    yield Item("models", name, size, plan.variant_results / "runs" / folder, work)
    images, captions = images_of(corpus, ["test"]), captions_of(corpus, ["test"])
    rows = None if images is None or captions is None else images + captions
    fold = plan.parameters.preset.evaluation.fold_size
    folds = [] if images is None else [f for p in run.protocols for f in protocol_folds(p, images, fold)]
    scores = sum((f.stop - f.start) ** 2 for f in folds) if folds else None
    work = embedding_work(spec, images, captions)
    work.append(rank_work(spec, product(scores, corpus.captions_per_image)))
    size = product(rows, spec.model.joint_dim, 4)
    yield Item("embeddings", name, size, plan.variant_results / "embeddings" / folder, work)


def _stores(plan: Plan) -> list[str]:
    """Stores that models read themselves, and those that their features and tapes are made from."""
    models = plan.models.values()
    found = {plan.features[run.eval_features].store for run in models if run.eval_features in plan.features}
    found |= {plan.tapes[run.tape].store for run in models if run.tape}
    found |= {run.train_store for run in models if run.train_store and not run.tape}
    return sorted(found | {run.eval_store for run in models if run.eval_store})


def _role(corpus: str) -> str:
    """The role of a corpus in its name."""
    return corpus.rpartition("-")[0]


def tapes_at_once(items: Iterable[Item]) -> tuple[int, int]:
    """Bytes of the largest tapes of one corpus and encoder, and of all tapes together."""
    groups: dict[str, int] = {}
    for item in items:
        if item.kind == "tapes":
            groups[item.group] = groups.get(item.group, 0) + (item.size or 0)
    return max(groups.values(), default=0), sum(groups.values())
