"""What a plan costs: files, bytes, pairs and steps, and hours at measured rates.

An unknown number is `None`, never a guess.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from vsepp.components import describe
from vsepp.config.plan import KINDS, Plan, SourceFile, seeded
from vsepp.errors import VseppError
from vsepp.provenance.artefacts import Artefact
from vsepp.spec import CorpusSpec, EncoderSpec, ModelSpec, RunSpec

# Words of a vocabulary where a word must be seen four times: COCO and Flickr30K have about 10,000.
ASSUMED_WORDS = 12_000
# Of the compressed tables and of the compressed word ids; Flickr8k's are 33 and 17.
TABLE_BYTES_PER_CAPTION, TOKEN_BYTES_PER_CAPTION = 40, 20
# Of ten words, a column and a weight each; of 384 numbers of 16 bits.
VECTOR_BYTES_PER_CAPTION = {"tfidf": 90, "minilm": 768}
# A generated picture of the mini preset in blocks of 4 kB.
PICTURE_BYTES = 6_000
# Of most photographs; images that keep their aspect ratio are counted with it.
ASPECT = 4 / 3

Rates = Mapping[tuple[str, str, str], float]
"""Items per second by what, variant and precision, as `benchmarks/measure.py` names them."""


class Work(NamedTuple):
    """A number of items of one kind of work, named as in `benchmarks/measure.py`."""

    what: str
    variant: str
    precision: str
    amount: int | None


class Cost(NamedTuple):
    """What an artefact takes."""

    artefact: Artefact
    label: str
    """Of what runs share, its name without digests: `coco vgg RC`; else empty."""
    size: int | None
    """Bytes."""
    work: Sequence[Work]
    """What making it takes, small steps left out: validations, evaluations, tables."""


def report(plan: Plan, rates: Rates, recorded: Mapping[str, Any], free: int) -> dict[str, Any]:
    """The costs of a plan, unrounded.

    Parameters
    ----------
    plan
        The plan.
    rates
        Of the device for which hours are given.
    recorded
        Files whose checksums were recorded at their first download.
    free
        Bytes free in the working folder.
    """
    costs = costs_of(plan)
    read = {path for cost in costs for path in cost.artefact.raw.values()}
    files = [file for file in plan.files.values() if file.path in read]
    weights = {cost.artefact.spec.weights for cost in costs if cost.artefact.kind == "encoder"}
    groups: dict[tuple[str, str], list[Cost]] = {}
    for cost in costs:
        groups.setdefault((cost.artefact.kind, cost.label), []).append(cost)
    return {
        "preset": plan.preset,
        "variant": plan.variant,
        "seeds": plan.seeds,
        "files": [_file(file, recorded) for file in files],
        "from_torchvision": sorted(name for name in weights if name.startswith("torchvision/")),
        "artefacts": [_made(kind, label, alike, rates) for (kind, label), alike in groups.items()],
        "hours": hours_of(costs, rates),
        "disk": _disk(plan, costs, files, free),
        "runs": [
            _run(plan, name, costs, rates)
            for name, model in plan.models.items()
            if model.specs.keys() - model.recorded and not model.released
        ],
    }


def costs_of(plan: Plan) -> list[Cost]:
    """Everything that the chosen models of a plan need, once each, in the order in which it is made."""
    costs = []
    for artefact in needed_artefacts(plan):
        corpus = _corpus_of(plan, artefact)
        size, work = _cost(artefact, corpus.spec if corpus else None)
        costs.append(Cost(artefact, _label(artefact, corpus), size, work))
    return costs


def needed_artefacts(plan: Plan, ends: Iterable[Artefact] = ()) -> list[Artefact]:
    """Some artefacts, by default the evaluations of all chosen models, and all that these are made from."""
    needed: set[Artefact] = set()
    waiting = list(ends) or list(plan.of_kind("evaluation").values())
    while waiting:
        artefact = waiting.pop()
        if artefact not in needed:
            needed.add(artefact)
            owners = (plan.owner(path) for path in artefact.inputs.values())
            waiting += [owner for owner in owners if owner]
    return [artefact for artefact in plan.table.values() if artefact in needed]


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
            kept = "" if artefact.spec.resize == "squash" else ", aspect kept"
            return f"{role} {artefact.spec.side} pixels{kept}"
        case "features" | "tape":
            return f"{role} {artefact.spec.encoder.name} {artefact.spec.crop.kind}"
        case "vectors":
            return f"{role} captions {artefact.spec.encoder}"
        case "published":
            return role
    return ""


def _cost(artefact: Artefact, corpus: CorpusSpec | None) -> tuple[int | None, list[Work]]:
    """Bytes of an artefact, and the work of making it as far as that is measured."""
    spec = artefact.spec
    images, captions = (images_of(corpus), captions_of(corpus)) if corpus else (None, None)
    match artefact.kind:
        case "scenes":
            return PICTURE_BYTES * sum(sum(splits.values()) for splits in spec.images.values()), []
        case "corpus":
            return product(captions, TABLE_BYTES_PER_CAPTION), []
        case "tokens" | "tokens_of":
            return product(captions, TOKEN_BYTES_PER_CAPTION), []
        case "vectors":
            return product(captions, VECTOR_BYTES_PER_CAPTION[spec.encoder]), []
        case "store":
            area = spec.side**2 if spec.resize == "squash" else round(spec.side**2 * ASPECT)
            return product(images, area, 3), [Work("store", str(spec.side), "fp32", images)]
        case "encoder":
            return product(encoder_size(spec)[1], 4), []
        case "pretrained":
            return product(encoder_size(spec.encoder)[1], 4), []
        case "features":
            crops = 10 if spec.crop.kind == "10C" else 1
            passed = _pass(spec.encoder, product(images, crops), spec.encoder.precision)
            return product(images, encoder_size(spec.encoder)[0], 4), [passed]
        case "tape":
            seen = product(captions_of(corpus, spec.splits) if corpus else None, spec.epochs)
            passed = _pass(spec.encoder, seen, spec.encoder.precision)
            return product(seen, encoder_size(spec.encoder)[0], 2), [passed]
        case "run":
            return product(model_numbers(spec), 4), _training(artefact, corpus) if corpus else []
        case "released":
            return product(model_numbers(spec), 4), []
        case "evaluation" if corpus:
            split = [spec.split]
            items = images_of(corpus, split), captions_of(corpus, split)
            return product(None if None in items else sum(items), spec.run.model.joint_dim, 4), []  # type: ignore[arg-type]
    return None, []  # how many published features there are is unknown before they are read


def _training(run: Artefact, corpus: CorpusSpec) -> list[Work]:
    """All steps of a training; where it reads images, with its own passes of the encoder."""
    spec: RunSpec = run.spec
    amount = product(pairs_embedded(spec, captions_of(corpus, spec.train_splits)), spec.schedule.epochs)
    if spec.finetuned:
        # Measured as whole steps, text encoder, loss and optimiser included.
        return [Work("step-finetuned", spec.encoder.variant, spec.precision, amount)]
    # Of the steps on features those of 1C: they do all that those of 10C and RC do, in the same time.
    similarity, dims = spec.model.similarity.name, text_dims(spec.model)
    variant = f"{encoder_size(spec.encoder)[0] or '?'}/{dims[1] if dims else '?'}"
    step = Work("step-1c" if similarity == "dot" else f"step-{similarity}", variant, spec.precision, amount)
    if "train_store" not in run.inputs:
        return [step]
    precision = spec.precision if spec.live_encoder else spec.encoder.precision
    return [_pass(spec.encoder, amount, precision), step]


def _pass(encoder: EncoderSpec, images: int | None, precision: str) -> Work:
    """Images through a frozen encoder."""
    return Work("tape", encoder.variant, precision, images)


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


def encoder_size(encoder: EncoderSpec) -> tuple[int | None, int | None]:
    """D_φ and the numbers in its weights, as its family says of the network; unknown where it does not."""
    family, _, network = encoder.architecture.partition("/")
    return describe("image encoder", family).constants.get("SIZES", {}).get(network, (None, None))


def text_dims(model: ModelSpec) -> tuple[int, int] | None:
    """Sizes of a word and of the state, D_ψ; `None` of a text encoder that has other options."""
    options = describe("text encoder", model.text.name).options(**model.text.options)
    dims = getattr(options, "word_dim", None), getattr(options, "dim", None)
    return None if None in dims else dims  # type: ignore[return-value]


def model_numbers(spec: RunSpec) -> int | None:
    """Numbers in a run's model, a GRU assumed; the vocabulary's size is assumed too."""
    (features, encoder), model, dims = encoder_size(spec.encoder), spec.model, text_dims(spec.model)
    if features is None or encoder is None or dims is None:
        return None
    word_dim, dim = dims
    gru = 3 * dim * (word_dim + dim + 2)
    image_map = model.joint_dim * (features + model.image_bias)
    caption_map = model.joint_dim * dim if model.caption_projection else 0
    head = ASSUMED_WORDS * word_dim + gru + image_map + caption_map
    return head + (encoder if spec.live_encoder else 0)


def _file(file: SourceFile, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A raw file, where it is or comes from, and whether its checksum is known."""
    spec, state = file.spec, "by hand"
    if file.own or file.path.exists():
        state = f"yours, {file.path}" if file.own else "already there"
    elif spec.mirrors:
        state = f"to fetch from {urlsplit(spec.mirrors[0]).hostname}"
    return {
        "name": spec.file,
        "size": file.path.stat().st_size if file.path.is_file() else spec.size,
        "state": state,
        "sha256": "known" if spec.sha256 else "recorded before" if spec.file in recorded else None,
        "instructions": spec.instructions if state == "by hand" else "",
    }


def _made(kind: str, label: str, alike: Sequence[Cost], rates: Rates) -> dict[str, Any]:
    """What is made: each artefact that runs share, and the number of each other kind."""
    return {
        "kind": kind,
        "title": KINDS[kind].title,
        "name": label,
        "items": len(alike),
        "images": alike[0].work[0].amount if label and alike[0].work else None,
        "bytes": sum(cost.size or 0 for cost in alike),
        "unknown": any(cost.size is None for cost in alike),
        "hours": hours_of(alike, rates),
    }


def hours_of(costs: Iterable[Cost], rates: Rates) -> dict[str, Any]:
    """Hours of some work at measured rates, and what is unknown: rates, or a number of images."""
    seconds, missing = 0.0, []
    for what, variant, precision, amount in (work for cost in costs for work in cost.work):
        rate = rates.get((what, variant, precision))
        if amount is None:
            missing.append("the number of images")
        elif not rate:
            missing.append(f"{what} {variant} {precision}")
        else:
            seconds += amount / rate
    return {"hours": seconds / 3600, "missing": list(dict.fromkeys(missing))}


def _disk(plan: Plan, costs: Sequence[Cost], files: Sequence[SourceFile], free: int) -> dict[str, Any]:
    """Bytes kept at the end, the largest number at any time, and those still to be written."""
    tapes = [cost.size or 0 for cost in costs if cost.artefact.kind == "tape"]
    keep = plan.parameters.preset.resources.keep_tapes
    takes = [(cost.artefact.folder, cost.size) for cost in costs]
    takes += [(file.path, file.spec.size) for file in files if not file.own]
    lasting = sum(size or 0 for _, size in takes) - sum(tapes)
    peak = lasting + (sum(tapes) if keep else max(tapes, default=0))
    return {
        "lasting": lasting,
        "tapes": sum(tapes),
        "keep_tapes": keep,
        "peak": peak,
        "to_write": max(peak - sum(_bytes_there(path, size) for path, size in takes), 0),
        "free": free,
    }


def _bytes_there(path: Path, size: int | None) -> int:
    """Bytes of a file or folder that exist already, at most its expected size."""
    files = [path] if path.is_file() else path.rglob("*")
    there = sum(file.stat().st_size for file in files if file.is_file())
    return there if size is None else min(there, size)


def _run(plan: Plan, name: str, costs: Iterable[Cost], rates: Rates) -> dict[str, Any]:
    """A run's first seed."""
    model = plan.models[name]
    spec = next(spec for seed, spec in model.specs.items() if seed not in model.recorded)
    by_folder = {cost.artefact.folder: cost for cost in costs}
    run = by_folder[plan.table["run", seeded(name, spec.init_seed)].folder]
    inputs = run.artefact.inputs
    pairs = captions_of(by_folder[inputs["corpus"]].artefact.spec, spec.train_splits)
    steps = steps_of(spec, pairs)
    reads = next(inputs[role] for role in ("tape", "train_store", "features") if role in inputs)
    return {
        "id": name,
        "pairs": pairs,
        "steps_per_epoch": steps,
        "epochs": spec.schedule.epochs,
        "steps": product(steps, spec.schedule.epochs),
        "hours": hours_of([run], rates),
        "reads": by_folder[reads].label,
        "from": spec.finetune_from,
    }


def read_rates(path: Path) -> dict[str, dict[tuple[str, str, str], float]]:
    """Rates that `benchmarks/measure.py` recorded, by `device, machine`; of repeated measurements the newest counts.

    Raises
    ------
    VseppError
        If the file is not such a table, naming the row.
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
                f"{path}, line {number}: not a row of the benchmarks ({error}); expected a file that benchmarks/measure.py wrote"
            ) from error
    return found
