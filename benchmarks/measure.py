"""Time what the package does, case by case, with `torch.utils.benchmark`.

    python benchmarks/measure.py --list
    python benchmarks/measure.py --only 'step-1c*' 'rank*' --append benchmarks/results.csv
    python benchmarks/measure.py --only '*vgg19*' --device cuda
    python benchmarks/measure.py --only 'tape*' --checkout ../before     # another checkout, case by case beside this one

A case is `what/variant/precision`. It needs the package, torch, torchvision and Pillow, and no data: artefacts have
random content and real shapes. What a row of the table means stands in README.md.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import made_up
import numpy as np
import reference
import torch
from torch import nn
from torch.utils import benchmark

import vsepp
from vsepp.cli.common import _keep_freed_memory
from vsepp.data.store import build_store, open_store
from vsepp.evaluation.encode import encode_split
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.evaluation.ranks_on_device import ranks_on_device
from vsepp.features.extract import FILE, extract_features
from vsepp.features.frozen import encode_batch
from vsepp.features.tape_writer import CHUNK_CAPTIONS, TapeJob, write_tape
from vsepp.models.encoder import load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.models.precision import fp32_products_in, products_in
from vsepp.provenance.manifest import processor
from vsepp.spec import (
    Component,
    CorpusSpec,
    CropSpec,
    EncoderSpec,
    ModelSpec,
    RunSpec,
    ScheduleSpec,
    StoreSpec,
    VocabularySpec,
)
from vsepp.training.batches import epoch_batches
from vsepp.training.data import TrainingData, load_training_data
from vsepp.training.epoch import step_inputs
from vsepp.training.precision import EmbeddingInBf16, in_bf16
from vsepp.training.prefetch import depth_of, inputs_ahead
from vsepp.training.step import loss_function, make_optimiser, train_step

ROOT = Path(vsepp.__file__).resolve().parents[1]
# Of a network that is trained on a CPU, where a step of 128 would take minutes; mini encoders see fewer pixels.
BATCH_ON_CPU, LARGE_PIXELS = 16, 64
# Steps of a reference epoch: its loader is empty at the start and at the end, so that it works in its own turn alone.
REFERENCE_STEPS, REFERENCE_STEPS_ON_CPU = 8, 2
# Chunks of a tape: on a GPU, what is written after the last one was computed should be little beside them.
TAPE_CHUNKS = {"cpu": 4, "cuda": 8}
SHARING_STEPS = 4
# One in so many queries is ranked by sorting: all of them would take minutes.
SORTED = 500

Call = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    date: str
    commit: str
    machine: str
    device: str
    threads: int
    what: str
    variant: str
    precision: str
    unit: str
    median: float
    low: float
    high: float
    runs: int
    note: str


@dataclass(frozen=True)
class Case:
    """Something that is timed."""

    what: str
    variant: str
    unit: str
    """What a call is counted in, a second; `s` where its seconds are the figure."""
    make: Callable[[Case, Path, torch.device, ExitStack], tuple[Call, int]]
    """Sets it up in an empty folder: what is called, and how many items a call is."""
    run: RunSpec
    """The run whose part is timed."""
    dim: int = 0
    """D_φ, where features are made up; 0 is the encoder's own."""
    images: int = 640
    """Of the made-up corpus, with five captions each."""
    photograph: tuple[int, int] = (640, 480)
    """Width and height of a JPEG, pixels."""
    packed: bool = True
    """Captions packed for the GRU, as the package does; else it runs over the padding too."""
    processes: int = 1
    command: tuple[str, ...] = ()
    beside: str = ""
    """The case, by its `what`, to which its speed is a ratio."""
    note: str = ""

    @property
    def precision(self) -> str:
        """Of the products that are timed: the encoder's own in a frozen pass, else the run's."""
        frozen = self.what in ("forward", "tape", "features")
        return self.run.encoder.precision if frozen else self.run.precision

    @property
    def name(self) -> str:
        return f"{self.what}/{self.variant}/{self.precision}"


def base_run(architecture: str, size: int, side: int, word_dim: int, dim: int) -> RunSpec:
    """VSE++ on 1C; the other kinds of runs are made from it."""
    scale = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    encoder = EncoderSpec(architecture.rpartition("/")[2], architecture, "random", size, side, *scale)
    return RunSpec(
        id="benchmark",
        system="VSE++",
        dataset="coco",
        trainset="1C",
        restval=False,
        encoder=encoder,
        finetune_from=None,
        train_store=StoreSpec("squash", side),
        eval_store=StoreSpec("squash", side),
        crop=CropSpec("1C", size),
        vocabulary=VocabularySpec(("train",), 4),
        validation_images=None,
        model=ModelSpec(
            text=Component("gru", {"word_dim": word_dim, "dim": dim}),
            joint_dim=dim,
            caption_projection=False,
            image_bias=True,
            normalise_features=True,
            normalise_images=True,
            absolute=False,
            similarity=Component("dot"),
        ),
        loss=Component("max_of_hinges"),
        schedule=ScheduleSpec(128, 30, 2e-4, 0.5, 0.1, 2.0),
        encoder_mode="eval",
        legacy_steps=500,
        rc_features="tape",
        init_seed=0,
        order_seed=0,
        draw=0,
    )


def cases(device: str, tiny: bool) -> dict[str, Case]:
    """All cases by name; `tiny` ones take no time and say nothing, but do the same."""
    if tiny:
        run = base_run("mini/vgg_mini", 24, 28, 6, 8)
        run = replace(run, schedule=replace(run.schedule, batch_size=8))
        small = {"images": 16, "photograph": (40, 32)}
        found = [
            *heads(run, 12, device, **small),
            *encoders(run, device, **small),
            *rankings(run, 30, device),
        ]
        found += [*sharing(run, 12, (1, 2), **small), *around(run, **small), *starts(run, "mini")]
        return {case.name: case for case in found}
    mini = {"images": 1280, "photograph": (56, 56)}
    vgg_mini, resnet_mini = (
        base_run(f"mini/{name}", 40, 46, 64, 128) for name in ("vgg_mini", "resnet_mini")
    )
    vgg = base_run("torchvision/vgg19", 224, 256, 300, 1024)
    resnet = base_run("torchvision/resnet152", 224, 256, 300, 1024)
    lite = base_run("lite/efficientnet_lite0", 224, 256, 300, 1024)
    lite2 = base_run("lite/efficientnet_lite2", 260, 297, 300, 1024)
    found = [*heads(vgg, 4096, device), *heads(resnet, 2048, device), *heads(lite, 1280, device)]
    found += [
        *heads(vgg_mini, 128, device, **mini),
        *rankings(vgg, 5000, device),
        *rankings(vgg_mini, 2000, device),
    ]
    found += [*sharing(vgg_mini, 128, (1, 2, 4), **mini), *sharing(vgg, 4096, (1, 2, 4))]
    found += [*around(vgg_mini, **mini), *around(vgg, images=160), *around(lite2, images=160)]
    for run in (vgg_mini, resnet_mini):
        found += encoders(run, device, **mini)
    for run in (lite, lite2, vgg, resnet):
        found += encoders(in_batches_for(run, device), device, images=320)
    return {case.name: case for case in [*found, *starts(vgg, "paper")]}


def heads(run: RunSpec, dim: int, device: str, **sizes: object) -> Iterator[Case]:
    """Steps that read features of fixed crops, beside the reference step; and captions embedded."""
    variant = f"{dim}/{run.model.text.options['dim']}"
    order = replace(run, model=replace(run.model, similarity=Component("order"), absolute=True))
    many = replace(run, schedule=replace(run.schedule, negative_set=4 * run.schedule.batch_size))
    yield Case("reference-1c", variant, "pairs/s", reference_epoch, run, dim, **sizes)
    for precision in ("fp32", "tf32", "bf16") if device == "cuda" else ("fp32", "bf16"):
        for what, spec in {
            "step-1c": run,
            "step-10c": replace(run, trainset="10C"),
            "step-order": order,
            "step-negatives": many,
        }.items():
            spec = replace(spec, precision=precision)
            beside = "reference-1c" if what == "step-1c" else ""
            yield Case(what, variant, "pairs/s", step, spec, dim, beside=beside, **sizes)
        spec = replace(run, precision=precision)
        yield Case(
            "step-1c-padded", variant, "pairs/s", step, spec, dim, packed=False, beside="step-1c", **sizes
        )
    for what, spec in (("encode", run), ("encode-order", order)):
        yield Case(what, variant, "captions/s", encode, spec, dim, **sizes)


WAYS = {
    "cpu": ({}, {"memory_format": "contiguous"}, {"precision": "bf16"}),
    "cuda": (
        {},
        {"precision": "tf32"},
        {"precision": "bf16"},
        {"precision": "bf16", "compile": "default"},
        {"precision": "bf16", "compile": "cuda_graphs"},
    ),
}
"""How an encoder is run, by kind of device."""


def encoders(run: RunSpec, device: str, **sizes: object) -> Iterator[Case]:
    """An encoder's own passes, and the tape, inline and fine-tuning steps that cannot be faster than these."""
    crops = replace(run, trainset="RC", crop=replace(run.crop, kind="RC"))
    tuned = replace(crops, finetune_from="benchmark")
    net = f"{run.encoder.architecture}@{run.encoder.input_size}"
    yield Case("reference-rc", net, "pairs/s", reference_epoch, crops, **sizes)
    yield Case("reference-finetuned", net, "pairs/s", reference_epoch, tuned, **sizes)
    for way in WAYS[device]:
        spec = replace(run.encoder, **way)
        ways = [way[key] for key in ("memory_format",) if key in way]
        ways += [f"compile-{way['compile']}"] if "compile" in way else []
        variant = " ".join([net, *ways])
        precision = way.get("precision", "fp32")
        frozen, trained = (replace(each, encoder=spec, precision=precision) for each in (crops, tuned))
        inline = replace(frozen, rc_features="inline")
        yield Case("forward", variant, "images/s", forward, frozen, **sizes)
        yield Case("tape", variant, "images/s", tape, inline, beside="forward", **sizes)
        yield Case("step-rc-inline", variant, "pairs/s", step, inline, beside="forward", **sizes)
        yield Case("step-rc-tape", variant, "pairs/s", step, frozen, beside="reference-rc", **sizes)
        yield Case("forward-backward", variant, "images/s", forward_backward, trained, **sizes)
        yield Case("step-finetuned", variant, "pairs/s", step, trained, beside="forward-backward", **sizes)


def rankings(run: RunSpec, images: int, device: str) -> Iterator[Case]:
    """Ranks by an argsort a query, and by counting, both similarities."""
    order = replace(run, model=replace(run.model, similarity=Component("order")))
    kinds = [
        ("argsort", argsort, run, images),
        ("rank-dot", rank, run, images),
        ("rank-order", rank, order, images // 5),
    ]
    if device == "cuda":
        kinds.append(("rank-device-dot", rank_on_device, run, images))
    for what, make, spec, count in kinds:
        note = f"{count} images × {made_up.CAPTIONS_PER_IMAGE * count} captions"
        beside = "argsort" if what.endswith("-dot") else ""
        dim = str(run.model.joint_dim)
        yield Case(what, dim, "scores/s", make, spec, images=count, beside=beside, note=note)


def sharing(run: RunSpec, dim: int, counts: Iterable[int], **sizes: object) -> Iterator[Case]:
    """Trainings that share the machine, all together: what `resources.runs_per_gpu` is chosen by."""
    for count in counts:
        variant = f"{dim}/{run.model.text.options['dim']}"
        note = f"{count} trainings"
        yield Case(
            f"sharing-{count}", variant, "pairs/s", share, run, dim, processes=count, note=note, **sizes
        )


def around(run: RunSpec, **sizes: object) -> Iterator[Case]:
    """The steps before training: images decoded into the store, features of fixed crops."""
    variant = str(run.train_store.side)
    yield Case("store", variant, "images/s", store, run, note="one core", **sizes)
    net = f"{run.encoder.architecture}@{run.encoder.input_size}"
    yield Case("features", net, "images/s", features, replace(run, rc_features="inline"), **sizes)


def starts(run: RunSpec, preset: str) -> Iterator[Case]:
    """Seconds until a command has looked at everything and made nothing."""
    plan = (sys.executable, "-m", "vsepp.cli", "plan", "--preset", preset)
    yield Case("start", f"vsepp plan, {preset}", "s", start, run, command=plan)
    if snakemake := shutil.which("snakemake"):
        dry = (snakemake, "--dry-run", "--quiet", "all", "--config", f"preset={preset}")
        yield Case(
            "start", f"snakemake --dry-run, {preset}", "s", start, run, command=(*dry, "--", "all_corpus")
        )


def in_batches_for(run: RunSpec, device: str) -> RunSpec:
    """The run, in batches of 16 where its encoder is of full size and the device a CPU."""
    if device != "cpu" or run.encoder.input_size <= LARGE_PIXELS:
        return run
    return replace(run, schedule=replace(run.schedule, batch_size=BATCH_ON_CPU))


def forward(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    """Batches through the encoder and nothing else; in bf16 the weights are cast before, not in each call."""
    encoder = made_up.encoder_of(case.run).to(device).eval()
    if encoder.spec.precision == "bf16":
        for module in encoder.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                module.to(torch.bfloat16)
    count = encode_batch(case.run.encoder.input_size, device)
    pixels = encoder.normalise(_crops(case.run, count, device))
    stack.enter_context(torch.inference_mode())
    stack.enter_context(products_in(encoder.spec.precision, device))
    return lambda: encoder(pixels), count


def _crops(run: RunSpec, count: int, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(made_up.pixels(count, run.encoder.input_size)).to(device)


def forward_backward(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    """Batches through the encoder and back, the gradients of its weights included."""
    run, count = case.run, case.run.schedule.batch_size
    encoder = made_up.encoder_of(run).to(device).eval().requires_grad_(True)
    pixels = encoder.normalise(_crops(run, count, device))
    stack.enter_context(fp32_products_in(run.precision, device))

    def call() -> None:
        encoder.zero_grad()
        with in_bf16(device, run.precision == "bf16"):
            found = encoder(pixels)
        found.backward(torch.ones_like(found))

    return call, count


def tape(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    """An epoch of a tape, computed and written as the tape step does it, and removed; on a slow CPU one batch of it."""
    run, artefacts = case.run, _artefacts(case, folder)
    encoder, images = load_encoder(run.encoder, artefacts.encoder), _store_on(artefacts.train_store, device)
    slow = device.type == "cpu" and run.encoder.input_size > LARGE_PIXELS
    batch = encode_batch(run.encoder.input_size, device)
    rows = np.arange(batch if slow else min(TAPE_CHUNKS[device.type] * CHUNK_CAPTIONS, 64 * case.images))
    job = TapeJob(
        crop=run.crop,
        caption_rows=rows,
        image_rows=rows // made_up.CAPTIONS_PER_IMAGE % len(images),
        caption_ids=rows,
        dim=encoder.dim,
        draw=run.draw,
        epochs=range(1),
        out=folder / "written",
        state=folder / "written-state",
    )

    def call() -> None:
        write_tape(job, images, encoder, device=device)
        shutil.rmtree(job.out)
        shutil.rmtree(job.state)

    return call, len(rows)


def features(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    """Features of centre crops of all images, as their step makes them."""
    run, artefacts, turn = case.run, _artefacts(case, folder), itertools.count()
    run = replace(run, trainset="RC")
    encoder, images = load_encoder(run.encoder, artefacts.encoder), _store_on(artefacts.train_store, device)

    def call() -> None:
        out = folder / f"features-{next(turn)}"
        extract_features(
            images, encoder, case.run.eval_crop, out, folder / f"{out.name}-state", device=device
        )

    return call, len(images)


def _artefacts(case: Case, folder: Path) -> made_up.Artefacts:
    return made_up.write_artefacts(case.run, case.images, case.dim, folder)


def _store_on(folder: Path, device: torch.device) -> np.ndarray | torch.Tensor:
    """Images where the steps that run an encoder over them have them: on a GPU, or in their file."""
    images = open_store(folder)
    return torch.from_numpy(np.array(images)).to(device) if device.type == "cuda" else images


def step(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    """A training step, from the artefacts' files to the changed weights, its inputs made as in training."""
    return step_on(case, _artefacts(case, folder), device, stack)


def step_on(
    case: Case, artefacts: made_up.Artefacts, device: torch.device, stack: ExitStack
) -> tuple[Call, int]:
    run = case.run
    data = load_training_data(run, artefacts, device)
    model = _model(run, data).to(device)
    if not case.packed:
        model.text = OverPadding(model.text)
    optimiser, loss = make_optimiser(model, run.schedule.learning_rate), loss_function(run.loss)
    embedding = EmbeddingInBf16(model, device) if run.precision == "bf16" else model
    size = run.schedule.batch_size
    batches = epoch_batches(
        len(data.pairs), size, order_seed=0, epoch=0, negative_set=run.schedule.negative_set
    )
    whole = itertools.cycle([batch for batch in batches if batch.queries == size])
    made = (step_inputs(data, batch, 0, device) for batch in whole)
    stack.enter_context(fp32_products_in(run.precision, device))
    ahead = stack.enter_context(inputs_ahead(made, device, depth_of(run, device)))
    return lambda: train_step(embedding, optimiser, loss, next(ahead), run.schedule.clip_norm), size


def _model(run: RunSpec, data: TrainingData) -> JointEmbedding:
    """The run's model, with its encoder where that lives in the step."""
    encoder = None
    if run.live_encoder:
        encoder = load_encoder(run.encoder, data.encoder_folder).requires_grad_(run.finetuned).eval()
    torch.manual_seed(run.init_seed)
    return JointEmbedding(run.model, data.feature_dim, data.vocabulary_size, encoder)


class OverPadding(nn.Module):
    """The GRU of a text encoder, its weights included, run over padding too: equal states, other work."""

    def __init__(self, text: nn.Module) -> None:
        super().__init__()
        self.words, self.gru = text.words, text.gru

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        # As in the package's, not in fp16 under autocast.
        with torch.autocast("cuda", enabled=False):
            states, _ = self.gru(self.words(ids.T))
        return states[(lengths - 1).to(ids.device), torch.arange(len(ids), device=ids.device)]


def reference_epoch(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    """An epoch of reference steps, data loading included."""
    run, size = case.run, case.run.schedule.batch_size
    slow = device.type == "cpu" and run.trainset == "RC" and run.encoder.input_size > LARGE_PIXELS
    pairs = (REFERENCE_STEPS_ON_CPU if slow else REFERENCE_STEPS) * size
    tokens, image_of = made_up.captions_of(pairs), np.arange(pairs) // made_up.CAPTIONS_PER_IMAGE
    captions = [tokens[row] for row in range(pairs)]
    if run.trainset == "RC":
        files = made_up.write_photographs(folder / "photographs", case.photograph)
        encoder = made_up.encoder_of(run).requires_grad_(run.finetuned).eval()
        rows, dim = reference.PhotographPairs(files, captions, image_of, run), encoder.dim
    else:
        encoder, dim = None, case.dim
        written = made_up.write_features(folder / "features", int(image_of[-1]) + 1, dim)
        rows = reference.FeaturePairs(np.load(written / FILE)[:, 0], captions, image_of)
    torch.manual_seed(run.init_seed)
    model = reference.ReferenceModel(JointEmbedding(run.model, dim, made_up.VOCABULARY), encoder).to(device)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(trained, lr=run.schedule.learning_rate)
    workers = min(10, os.cpu_count() or 1)  # ten is the released code's default
    loader = reference.make_loader(rows, size, workers, device)

    def call() -> None:
        for batch in loader:
            reference.reference_step(model, optimiser, batch, run.schedule.clip_norm)

    return call, pairs


def store(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    """Photographs decoded, resized and written on one core."""
    made_up.write_photographs(folder / "photographs", case.photograph)
    images, _ = made_up.tables(case.images)
    spec = CorpusSpec("made-up", Component("coco"), {"images": str(folder / "photographs")})
    turn = itertools.count()

    def call() -> None:
        out = folder / f"store-{next(turn)}"
        build_store(images, spec, case.run.train_store, out, folder / f"{out.name}-state", workers=1)

    return call, len(images)


def encode(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    """A split's captions, and its images from features that are there."""
    data = load_training_data(case.run, _artefacts(case, folder), device)
    model, rows = _model(case.run, data).to(device), data.validation
    return lambda: encode_split(model, data.eval_inputs, data.tokens, rows, device=device), len(rows.captions)


def rank(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    images, captions, owner = embeddings(case)
    similarity = case.run.model.similarity.name
    return lambda: retrieval_ranks(images, captions, owner, similarity), len(images) * len(captions)


def rank_on_device(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    """As `rank`, the embeddings' way to the device and the ranks' way back included."""
    images, captions, owner = embeddings(case)
    similarity = case.run.model.similarity.name
    return lambda: ranks_on_device(images, captions, owner, similarity, device), len(images) * len(captions)


def argsort(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    """One in so many queries, both ways; a score is counted as in `rank`, whose ranks need each of them twice."""
    images, captions, owner = embeddings(case)
    image_rows, caption_rows = (range(0, len(some), min(SORTED, len(some))) for some in (images, captions))
    scores = (len(image_rows) * len(captions) + len(caption_rows) * len(images)) // 2
    return lambda: reference.argsort_ranks(images, captions, owner, image_rows, caption_rows), scores


def embeddings(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit vectors of images and captions, each caption somewhat nearer to its own image than to others."""
    generator, dim = np.random.default_rng(0), case.run.model.joint_dim
    owner = np.repeat(np.arange(case.images), made_up.CAPTIONS_PER_IMAGE)
    images = generator.standard_normal((case.images, dim), np.float32)
    captions = 8 * generator.standard_normal((len(owner), dim), np.float32) + images[owner]
    for vectors in (images, captions):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return images, captions, owner


def share(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    """Steps of some trainings at once, each in a process with its share of the threads, at least one."""
    count, artefacts = case.processes, _artefacts(case, folder)
    context = multiprocessing.get_context("spawn")
    threads, barrier = max(1, torch.get_num_threads() // count), context.Barrier(count)
    given = (case, artefacts, device, threads, barrier)
    pool = stack.enter_context(
        ProcessPoolExecutor(count, context, initializer=_begin_sharing, initargs=given)
    )

    def call() -> None:
        for taken in [pool.submit(_take_steps) for _ in range(count)]:
            taken.result()

    call()  # each process has set itself up
    return call, count * SHARING_STEPS * case.run.schedule.batch_size


_shared: dict[str, object] = {}
"""What a sharing process steps with."""


def _begin_sharing(
    case: Case, artefacts: made_up.Artefacts, device: torch.device, threads: int, barrier: object
) -> None:
    torch.set_num_threads(threads)
    call, _ = step_on(case, artefacts, device, ExitStack())
    _shared.update(call=call, barrier=barrier, device=device)


def _take_steps() -> None:
    _shared["barrier"].wait()  # so that no process takes the steps of another
    for _ in range(SHARING_STEPS):
        _shared["call"]()
    if _shared["device"].type == "cuda":
        torch.cuda.synchronize()


def start(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> tuple[Call, int]:
    def call() -> None:
        subprocess.run(case.command, cwd=ROOT, check=True, capture_output=True)

    return call, 1


def measure(case: Case, device: torch.device, threads: int, seconds: float) -> benchmark.Measurement:
    """Seconds an item of a case."""
    with tempfile.TemporaryDirectory(prefix="vsepp-measure-") as folder, ExitStack() as stack:
        call, items = case.make(case, Path(folder), device, stack)
        if device.type == "cuda":  # compiles, records CUDA graphs, chooses algorithms
            for _ in range(3):
                call()
        timer = benchmark.Timer(
            "call()",
            globals={"call": call},
            num_threads=threads,
            label=case.what,
            sub_label=case.variant,
            description=case.precision,
        )
        taken = timer.blocked_autorange(min_run_time=seconds)
    taken.raw_times = [time / items for time in taken.raw_times]
    return taken


def row_of(case: Case, taken: benchmark.Measurement, device: torch.device, earlier: Iterable[Row]) -> Row:
    """What the table says of a case, with its ratio to the one that it stands beside if that was timed before."""
    # The slowest run is the lowest rate, and the highest number of seconds.
    ends = max(taken.times), min(taken.times)
    figures = (
        (taken.median, *ends[::-1]) if case.unit == "s" else [1 / each for each in (taken.median, *ends)]
    )
    median, low, high = (float(f"{figure:.4g}") for figure in figures)
    ratios = [
        f"{median / other.median:.2f} × {other.what} {other.precision}"
        for other in earlier
        if (other.what, other.variant) == (case.beside, case.variant)
        and other.precision in (case.precision, "fp32")
    ]
    return Row(
        date=datetime.now(UTC).date().isoformat(),
        commit=_commit(),
        machine=f"{processor()}, {os.cpu_count()} cores",
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        threads=taken.task_spec.num_threads,
        what=case.what,
        variant=case.variant,
        precision=case.precision,
        unit=case.unit,
        median=median,
        low=low,
        high=high,
        runs=len(taken.times),
        note="; ".join([*([case.note] if case.note else []), *ratios[-1:]]),
    )


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def append(row: Row, path: Path) -> None:
    """Add a row to a table, which is begun where there is none."""
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(Row)], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(asdict(row))


def measured_in(checkout: Path, case: Case, given: argparse.Namespace) -> None:
    """Time a case of another checkout, by this script and with this machine's environment."""
    command = [sys.executable, __file__, "--only", case.name, "--device", given.device, "--quiet"]
    command += [
        f"--threads={given.threads}",
        f"--seconds={given.seconds}",
        *(["--tiny"] if given.tiny else []),
    ]
    command += ["--append", str(given.append.resolve())] if given.append else []
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(checkout.resolve())})


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", nargs="+", default=["*"], metavar="CASE", help="names or patterns: 'step*'")
    made.add_argument("--list", action="store_true", help="print the names of the cases and time nothing")
    made.add_argument("--tiny", action="store_true", help="sizes that take no time and say nothing")
    made.add_argument("--device", default="cpu", help="cpu, or cuda")
    made.add_argument("--threads", type=int, default=torch.get_num_threads())
    made.add_argument("--seconds", type=float, default=5.0, help="for each case at least, set-up apart")
    made.add_argument("--append", type=Path, metavar="CSV", help="add the figures to this table")
    made.add_argument("--checkout", type=Path, metavar="FOLDER", help="time each case of this checkout too")
    made.add_argument("--quiet", action="store_true", help="no table at the end")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Time the chosen cases; 1 where one of them failed, which costs only its own figures."""
    given = parser().parse_args(arguments)
    found = cases(torch.device(given.device).type, given.tiny)
    chosen = [case for name, case in found.items() if any(fnmatchcase(name, only) for only in given.only)]
    if given.list or not chosen:
        print("\n".join(found))
        return 0 if given.list else 2
    _keep_freed_memory()  # as the package's steps do
    device, rows, taken = torch.device(given.device), [], []
    for case in chosen:
        try:
            taken.append(measure(case, device, given.threads, given.seconds))
            rows.append(row := row_of(case, taken[-1], device, rows))
            print(
                f"{row.commit}  {case.name}: {row.median:,g} {row.unit} ({row.low:,g}–{row.high:,g}, {row.runs} runs)",
                row.note,
            )
            if given.append:
                append(row, given.append)
            if given.checkout:
                measured_in(given.checkout, case, given)
        except Exception as error:  # others may fit into memory, or be there
            print(f"{case.name}: {type(error).__name__}: {error}", file=sys.stderr)
    if not given.quiet and taken:
        benchmark.Compare(taken).print()
    return int(len(rows) < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
