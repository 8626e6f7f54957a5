"""What is timed: each function sets a case up and gives what is called over and over, and the items of a call."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import made_up
import numpy as np
import reference
import torch
from torch import nn

import vsepp
from vsepp.data.store import build_store, open_store
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.encode import encode_split
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.features.crops import CaptionCrops
from vsepp.features.extract import FILE
from vsepp.features.frozen import encode_batch
from vsepp.features.tape_writer import CHUNK_CAPTIONS, write_tape
from vsepp.models.encoder import load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.models.precision import fp32_products_in, products_in
from vsepp.runtime.placement import Placing, place
from vsepp.spec import Component, CorpusSpec, RunSpec
from vsepp.training.batches import epoch_batches
from vsepp.training.data import TrainingData, load_training_data
from vsepp.training.epoch import step_inputs
from vsepp.training.step import RunLoss, make_optimiser, train_step

ROOT = Path(vsepp.__file__).resolve().parents[1]
# Pixels of a side above which a network is slow on a CPU.
LARGE = 64
# Steps of a reference epoch: its loader is empty at the start and at the end, so that it works in its own turn alone.
REFERENCE_STEPS, REFERENCE_STEPS_IF_SLOW = 8, 2
# Chunks of a tape: on a GPU, what is written after the last one was computed should be little beside them.
TAPE_CHUNKS = {"cpu": 4, "cuda": 8}
SHARING_STEPS = 4
# One in so many queries is ranked by sorting: all of them would take minutes.
SORTED = 500

Call = Callable[[], object]
Made = tuple[Call, int]
"""What is called, and how many items that is."""


@dataclass(frozen=True)
class Case:
    """Something that is timed."""

    what: str
    variant: str
    unit: str
    """What a call is counted in, a second; `s` where its seconds are the figure."""
    make: Callable[[Case, Path, torch.device, ExitStack], Made]
    """Sets it up in an empty folder."""
    run: RunSpec
    """The run whose part is timed."""
    dim: int = 0
    """D_φ, where features are made up; 0 is the encoder's own."""
    images: int = 640
    """Of the made-up corpus, with five captions each."""
    photograph: tuple[int, int] = (640, 480)
    """Width and height of a JPEG, pixels."""
    beside: tuple[tuple[str, str], ...] = ()
    """What and variant of the cases to which its speed is a ratio."""
    note: str = ""

    @property
    def precision(self) -> str:
        """Of the run, which an encoder in it shares."""
        return self.run.precision

    @property
    def key(self) -> tuple[str, str, str]:
        return self.what, self.variant, self.precision

    @property
    def name(self) -> str:
        return "/".join(self.key)

    def slow_on(self, device: torch.device) -> bool:
        """Whether a step of a network of this size takes many seconds."""
        return device.type == "cpu" and self.run.trainset == "RC" and self.run.encoder.input_size > LARGE

    def artefacts(self, folder: Path) -> dict[str, Path]:
        """All that the run reads."""
        return made_up.write_artefacts(self.run, self.images, self.dim, folder)


def forward(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Made:
    """Batches through the encoder and nothing else; in bf16 the weights are cast before, not in each call."""
    encoder = made_up.encoder_of(case.run).to(device).eval()
    if encoder.spec.precision == "bf16":
        for module in encoder.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                module.to(torch.bfloat16)
    count = encode_batch(case.run.encoder.input_size, device)
    pixels = encoder.normalise(made_up.crops(case.run, count).to(device))
    stack.enter_context(torch.inference_mode())
    stack.enter_context(products_in(encoder.spec.precision, device))
    return lambda: encoder(pixels), count


def forward_backward(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Made:
    """Batches through the encoder and back, the gradients of its weights included."""
    run, count = case.run, case.run.schedule.batch_size
    encoder = made_up.encoder_of(run).to(device).eval().requires_grad_(True)
    pixels = encoder.normalise(made_up.crops(run, count).to(device))
    stack.enter_context(fp32_products_in(run.precision, device))

    def call() -> None:
        encoder.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=run.precision == "bf16"):
            found = encoder(pixels)
        found.backward(torch.ones_like(found))

    return call, count


def tape(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Made:
    """An epoch of a tape, computed and written as the tape step does it, and removed; where that is slow, a batch."""
    run, artefacts = case.run, case.artefacts(folder)
    encoder = load_encoder(run.encoder, artefacts["encoder"])
    images = place(open_store(artefacts["train_store"]), "image store", Placing(device))
    chunks = min(TAPE_CHUNKS[device.type] * CHUNK_CAPTIONS, 64 * case.images)
    rows = np.arange(encode_batch(run.encoder.input_size, device) if case.slow_on(device) else chunks)
    crops = CaptionCrops(run.crop, rows // made_up.CAPTIONS_PER_IMAGE % len(images), rows, run.draw)
    out, state = folder / "written", folder / "written-state"

    def call() -> None:
        write_tape(images, encoder, crops, rows, 1, out, state, device=device)
        shutil.rmtree(out)
        shutil.rmtree(state)

    return call, len(rows)


def step(case: Case, folder: Path, device: torch.device, stack: ExitStack, *, packed: bool = True) -> Made:
    """A training step, from the artefacts' files to the changed weights, its inputs made as in training."""
    return _step(case, case.artefacts(folder), device, stack, packed=packed)


def head(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Made:
    """The same step on the same inputs over and over, which lie where they are needed: its own limit."""
    return _step(case, case.artefacts(folder), device, stack, repeated=True)


def _step(
    case: Case,
    artefacts: dict[str, Path],
    device: torch.device,
    stack: ExitStack,
    *,
    packed: bool = True,
    repeated: bool = False,
) -> Made:
    run, size = case.run, case.run.schedule.batch_size
    data = load_training_data(run, artefacts, device)
    model, loss = _model(run, data).to(device), RunLoss.of(run, {}, device)
    if not packed:
        model.text = OverPadding(model.text)
    optimiser = make_optimiser(model, run.schedule.learning_rate, loss)
    negatives = run.schedule.negative_set
    batches = epoch_batches(len(data.pairs), size, order_seed=0, epoch=0, negative_set=negatives)
    whole = [drawn for drawn in batches if drawn.queries == size]
    made = (step_inputs(run, data, loss, drawn, 0, device) for drawn in itertools.cycle(whole))
    stack.enter_context(fp32_products_in(run.precision, device))
    if repeated:
        made = itertools.repeat(next(made))
    bf16, clip_norm = run.precision == "bf16", run.schedule.clip_norm
    return lambda: train_step(model, optimiser, loss, next(made), clip_norm, bf16=bf16), size


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
        with torch.autocast("cuda", enabled=False):  # as the package's
            states, _ = self.gru(self.words(ids.T))
        return states[(lengths - 1).to(ids.device), torch.arange(len(ids), device=ids.device)]


def reference_epoch(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Made:
    """An epoch of reference steps, data loading included."""
    run, size = case.run, case.run.schedule.batch_size
    count = size * (REFERENCE_STEPS_IF_SLOW if case.slow_on(device) else REFERENCE_STEPS)
    tokens, image_of = made_up.captions_of(count), np.arange(count) // made_up.CAPTIONS_PER_IMAGE
    if run.trainset == "RC":
        encoder = made_up.encoder_of(run).requires_grad_(run.finetuned).eval()
        images, dim = made_up.write_photographs(folder / "photographs", case.photograph), encoder.dim
    else:
        encoder, dim = None, case.dim
        images = np.load(made_up.write_features(folder / "features", count, dim) / FILE)[:, 0]
    torch.manual_seed(run.init_seed)
    model = reference.ReferenceModel(JointEmbedding(run.model, dim, made_up.VOCABULARY), encoder).to(device)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(trained, lr=run.schedule.learning_rate)
    pairs = reference.Pairs(images, [tokens[row] for row in range(count)], image_of, run)
    workers = min(10, os.cpu_count() or 1)  # ten is the released code's default
    loader = reference.make_loader(pairs, size, workers, device)

    def call() -> None:
        for batch in loader:
            reference.reference_step(model, optimiser, batch, run.schedule.clip_norm)

    return call, count


def store(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Made:
    """Photographs decoded, resized and written on one core."""
    made_up.write_photographs(folder / "photographs", case.photograph)
    images, _ = made_up.tables(case.images)
    spec = CorpusSpec(name="made-up", reader=Component("coco"), files={"images": str(folder / "photographs")})
    turn = itertools.count()

    def call() -> None:
        out = folder / f"store-{next(turn)}"
        build_store(images, spec, case.run.train_store, out, folder / f"{out.name}-state", workers=1)

    return call, len(images)


def encode(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Made:
    """A split's captions, and its images from features that are there."""
    data = load_training_data(case.run, case.artefacts(folder), device)
    model, rows = _model(case.run, data).to(device), data.validation
    return lambda: encode_split(model, data.eval_inputs, data.tokens, rows, device=device), len(rows.captions)


def rank(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Made:
    """On a CPU by NumPy; on a device the embeddings' way there and the ranks' way back included."""
    images, captions, owner = made_up.embeddings(case.images, case.run.model.joint_dim)
    split = Embeddings(images, captions, owner, case.run.model.similarity)
    there = device if case.what.startswith("rank-device") else None
    return lambda: retrieval_ranks(split, there), len(images) * len(captions)


def argsort(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Made:
    """One in so many queries, both ways; a score is counted as in `rank`, whose ranks need each of them twice."""
    images, captions, owner = made_up.embeddings(case.images, case.run.model.joint_dim)
    image_rows, caption_rows = (range(0, len(some), min(SORTED, len(some))) for some in (images, captions))
    scores = (len(image_rows) * len(captions) + len(caption_rows) * len(images)) // 2
    return lambda: reference.argsort_ranks(images, captions, owner, image_rows, caption_rows), scores


def share(case: Case, folder: Path, device: torch.device, stack: ExitStack, *, processes: int) -> Made:
    """Steps of some trainings at once, each in a process with its share of the threads, at least one."""
    context = multiprocessing.get_context("spawn")
    threads, barrier = max(1, torch.get_num_threads() // processes), context.Barrier(processes)
    given = (case, case.artefacts(folder), device, threads, barrier)
    pool = stack.enter_context(ProcessPoolExecutor(processes, context, _begin_sharing, given))

    def call() -> None:
        for taken in [pool.submit(_take_steps) for _ in range(processes)]:
            taken.result()

    return call, processes * SHARING_STEPS * case.run.schedule.batch_size


_shared: dict[str, Any] = {}
"""What a sharing process steps with."""


def _begin_sharing(
    case: Case, artefacts: dict[str, Path], device: torch.device, threads: int, barrier: Any
) -> None:
    torch.set_num_threads(threads)
    _shared.update(barrier=barrier, device=device, stack=ExitStack())
    try:
        _shared["call"], _ = _step(case, artefacts, device, _shared["stack"])
    except Exception as error:  # a pool's initialiser could not tell it
        _shared["error"] = f"{type(error).__name__}: {error}"


def _take_steps() -> None:
    _shared["barrier"].wait()  # so that no process takes the steps of another
    if "error" in _shared:
        raise RuntimeError(_shared["error"])
    for _ in range(SHARING_STEPS):
        _shared["call"]()
    if _shared["device"].type == "cuda":
        torch.cuda.synchronize()


def command(
    case: Case, folder: Path, device: torch.device, stack: ExitStack, *, arguments: Sequence[str]
) -> Made:
    """A command of Python from its start to its end."""
    given = [sys.executable, *arguments]
    return lambda: subprocess.run(given, cwd=ROOT, check=True, capture_output=True), 1
