"""What a plan costs: images and pairs, bytes of all that is read and written, and hours at measured rates.

Pure functions of specs and counts. A number that nobody knows is `None`, and never a guess.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vsepp.components import describe
from vsepp.config.plan import Plan, SourceFile
from vsepp.errors import VseppError
from vsepp.evaluation.folds import protocol_folds
from vsepp.provenance.artefacts import Artefact
from vsepp.spec import CorpusSpec, EncoderSpec, EvaluationSpec, ModelSpec, RunSpec

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


def training_work(spec: RunSpec, corpus: CorpusSpec) -> list[Work]:
    """A whole training with its validations."""
    epochs = spec.schedule.epochs
    embedded = product(pairs_embedded(spec, captions_of(corpus, spec.train_splits)), epochs)
    work = []
    if spec.finetuned:
        # Measured as whole steps, text encoder, loss and optimiser included.
        work.append(Work("step-finetuned", encoder_variant(spec.encoder), spec.precision, embedded))
    else:
        if spec.reads in ("inline", "live"):
            work.append(pass_work(spec.encoder, embedded, spec.precision if spec.live_encoder else None))
        # Of the steps on features those of 1C: they do all that those of 10C and RC do, in the same time.
        work.append(Work(_named("step-1c", spec), _head_variant(spec), spec.precision, embedded))
    images = images_of(corpus, ["val"])
    if images is not None and spec.validation_images is not None:
        images = min(images, spec.validation_images)
    captions = product(images, corpus.captions_per_image)
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
    return what if similarity == "dot" else f"{what.removesuffix('-1c')}-{similarity}"


def _head_variant(spec: RunSpec) -> str:
    dims = text_dims(spec.model)
    return f"{feature_dim(spec.encoder) or '?'}/{dims[1] if dims else '?'}"


Rates = Mapping[tuple[str, str, str], float]
"""Items a second by what, variant and precision."""


def hours_of(work: Iterable[Work], rates: Rates) -> tuple[float, list[str]]:
    """Hours of some work at measured rates, and what is missing in them: rates, or a count of images."""
    seconds, missing = 0.0, []
    for what, variant, precision, amount in work:
        rate = rates.get((what, variant, precision))
        if amount is None:
            missing.append("the number of images")
        elif not rate:
            missing.append(f"{what} {variant} {precision}")
        else:
            seconds += amount / rate
    return seconds / 3600, list(dict.fromkeys(missing))


def read_rates(path: Path) -> dict[str, dict[tuple[str, str, str], float]]:
    """Rates that `benchmarks/measure.py` recorded, by `device, machine`; of what was measured again the newest counts.

    Raises
    ------
    VseppError
        Where the file is no such table, naming the row.
    """
    found: dict[str, dict[tuple[str, str, str], float]] = {}
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    for number, row in sorted(enumerate(rows, start=2), key=lambda item: item[1].get("date") or ""):
        try:
            key, value = (row["what"], row["variant"], row["precision"]), float(row["median"])
            if row["unit"].endswith("/s"):
                found.setdefault(f"{row['device']}, {row['machine']}", {})[key] = value
        except (KeyError, TypeError, ValueError) as error:
            raise VseppError(
                f"{path}, line {number}: not a row of the benchmarks ({error}); expected what benchmarks/measure.py writes"
            ) from error
    return found


class Item(NamedTuple):
    """An artefact that is made, or a file that is fetched."""

    kind: str
    """As in the plan's table; `download` for a file."""
    name: str
    label: str
    """Its name where it is shown: without digests."""
    size: int | None
    """Bytes."""
    path: Path
    """Relative to the working folder."""
    work: Sequence[Work]
    """What making it takes, small steps left out."""


def items_of(plan: Plan) -> list[Item]:
    """All that the chosen models of a plan need, each once, in the order in which it is made."""
    needed = needed_artefacts(plan)
    items = [
        Item("download", name, name, file.spec.size, file.path, ())
        for name, file in files_read(plan, needed).items()
        if not file.own
    ]
    for artefact in needed:
        corpus = _corpus_of(plan, artefact)
        size, work = cost_of(artefact, corpus.spec if corpus else None)
        label = _label(artefact, corpus)
        items.append(Item(artefact.kind, artefact.name, label, size, artefact.folder, work))
    return items


def needed_artefacts(plan: Plan) -> list[Artefact]:
    """Artefacts of the chosen models and all that these are made from."""
    needed: set[Artefact] = set()
    waiting = [artefact for artefact in plan.table.values() if artefact.kind == "evaluation"]
    while waiting:
        artefact = waiting.pop()
        if artefact not in needed:
            needed.add(artefact)
            owners = (plan.owner(path) for path in artefact.inputs.values())
            waiting += [owner for owner in owners if owner]
    return [artefact for artefact in plan.table.values() if artefact in needed]


def files_read(plan: Plan, needed: Iterable[Artefact]) -> dict[str, SourceFile]:
    """Raw files that some artefacts are made from, by name."""
    paths = {path for artefact in needed for path in artefact.raw.values()}
    return {name: file for name, file in plan.files.items() if file.path in paths}


def _corpus_of(plan: Plan, artefact: Artefact) -> Artefact | None:
    """The corpus that an artefact belongs to."""
    if artefact.kind == "corpus":
        return artefact
    owners = (plan.owner(path) for path in artefact.inputs.values())
    return next((corpus for owner in owners if owner and (corpus := _corpus_of(plan, owner))), None)


def _label(artefact: Artefact, corpus: Artefact | None) -> str:
    role = corpus.name.rpartition("-")[0] if corpus else ""
    match artefact.kind:
        case "store":
            return f"{role} {artefact.spec.side} pixels"
        case "features" | "tape":
            return f"{role} {artefact.spec.encoder.name} {artefact.spec.crop.kind}"
        case "corpus" | "published":
            return role
    return artefact.name


def cost_of(artefact: Artefact, corpus: CorpusSpec | None) -> tuple[int | None, list[Work]]:
    """Bytes of an artefact, and the work of making it as far as that is measured.

    Parameters
    ----------
    artefact
        One of the plan's table.
    corpus
        That it belongs to.
    """
    spec = artefact.spec
    images, captions = (images_of(corpus), captions_of(corpus)) if corpus else (None, None)
    match artefact.kind:
        case "scenes":
            return PICTURE_BYTES * sum(sum(splits.values()) for splits in spec.images.values()), []
        case "corpus":
            return product(captions, TABLE_BYTES_PER_CAPTION), []
        case "tokens" | "tokens_of":
            return product(captions, TOKEN_BYTES_PER_CAPTION), []
        case "store":
            return product(images, spec.side**2, 3), [Work("store", str(spec.side), "fp32", images)]
        case "encoder" | "pretrained":
            network = NETWORKS.get((spec.encoder if artefact.kind == "pretrained" else spec).architecture)
            return 4 * network.parameters if network else None, []
        case "features":
            crops = 10 if spec.crop.kind == "10C" else 1
            size = product(images, feature_dim(spec.encoder), 4)
            return size, [pass_work(spec.encoder, product(images, crops))]
        case "published":  # nobody says how many there are before they are read
            return None, []
        case "tape":
            seen = product(captions_of(corpus, spec.splits) if corpus else None, spec.epochs)
            return product(seen, feature_dim(spec.encoder), 2), [pass_work(spec.encoder, seen)]
        case "run" | "released":
            numbers = model_numbers(spec)
            work = training_work(spec, corpus) if artefact.kind == "run" and corpus else []
            return 4 * numbers[0] if numbers else None, work
        case "evaluation":
            return _evaluation(spec, corpus) if corpus else (None, [])
    return 0, []


def _evaluation(spec: EvaluationSpec, corpus: CorpusSpec) -> tuple[int | None, list[Work]]:
    """The test set's embeddings, and their ranks under each protocol."""
    images, captions = images_of(corpus, [spec.split]), captions_of(corpus, [spec.split])
    size = scores = None
    if images and captions:
        folds = [fold for name in spec.protocols for fold in protocol_folds(name, images, spec.fold_size)]
        scores = sum((fold.stop - fold.start) ** 2 for fold in folds) * captions // images
        size = (images + captions) * spec.run.model.joint_dim * 4
    return size, [*embedding_work(spec.run, images, captions), rank_work(spec.run, scores)]
