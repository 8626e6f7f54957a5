"""Bytes of what a plan reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vsepp.config.plan import Plan, SourceFile
from vsepp.costs.counts import captions_of, images_of, times
from vsepp.costs.rates import NETWORKS, Network
from vsepp.costs.work import Job
from vsepp.spec import EncoderSpec, RunSpec

# Words of a vocabulary where a word must be seen four times: COCO and Flickr30K have about 10,000.
ASSUMED_WORDS = 12_000
# Of the compressed tables and of the compressed word ids; Flickr8k's are 33 and 17.
TABLE_BYTES_PER_CAPTION, TOKEN_BYTES_PER_CAPTION = 40, 20
# A generated picture of the mini preset in blocks of 4 kB.
PICTURE_BYTES = 6_000


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
        size = times(captions_of(corpus), TABLE_BYTES_PER_CAPTION)
        items.append(Item("tables and word ids", name, size, results / "corpora" / name))
    for name in sorted({run.tokens for run in models.values()}):
        size = times(captions_of(plan.corpora[plan.tokens[name].corpus]), TOKEN_BYTES_PER_CAPTION)
        items.append(Item("tables and word ids", name, size, results / "tokens" / name))
    for name in sorted({run.encoder for run in models.values() if run.encoder}):
        network = known.get(plan.encoders[name].architecture)
        size = 4 * network.parameters if network else None
        items.append(Item("encoders", name, size, results / "encoders" / name))
    items += [_shared_item(plan, name, job, known) for name, job in found.items() if job.seed is None]
    for name in sorted({run.features for run in models.values() if run.features in plan.precomputed}):
        spec = next(run.spec for run in models.values() if run.features == name)
        size = times(images_of(plan.corpora[plan.precomputed[name]]), _dim(spec.encoder, known), 4)
        items.append(Item("features", name, size, results / "features" / name))
    for name, run in models.items():
        weights = model_numbers(run.spec, known)
        rows = [
            images_of(plan.corpora[run.corpus], ["test"]),
            captions_of(plan.corpora[run.corpus], ["test"]),
        ]
        for seed in plan.seeds_of(name):
            folder = results / plan.variant / "{}" / name / f"seed-{seed}"
            size = None if weights is None else 4 * weights[0]
            items.append(Item("models", name, size, Path(str(folder).format("runs"))))
            size = None if None in rows else sum(rows) * run.spec.model.joint_dim * 4  # type: ignore[arg-type]
            items.append(Item("embeddings", name, size, Path(str(folder).format("embeddings"))))
    return items


def _dim(encoder: EncoderSpec, known: Mapping[str, Network]) -> int | None:
    network = known.get(encoder.architecture)
    return network.dim if network else None


def _shared_item(plan: Plan, name: str, job: Job, known: Mapping[str, Network]) -> Item:
    path = Path("results") / plan.preset / job.phase / name
    if job.phase == "stores":
        store = plan.stores[name]
        return Item("stores", name, times(job.work[0].amount, store.spec.side**2, 3), path)
    if job.phase == "features":
        features = plan.features[name]
        images = images_of(plan.corpora[plan.stores[features.store].corpus])
        return Item("features", name, times(images, _dim(plan.encoders[features.encoder], known), 4), path)
    tape = plan.tapes[name]
    size = times(job.work[0].amount, _dim(plan.encoders[tape.encoder], known), 2)
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
    """States of a training, each the model, its best snapshot and Adam's two moments: two are kept, one is written."""
    numbers = model_numbers(spec, known)
    return None if numbers is None else 3 * 4 * (2 * numbers[0] + 2 * numbers[1])


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
