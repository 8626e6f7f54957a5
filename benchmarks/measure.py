"""Time what the package does, case by case, with `torch.utils.benchmark`; README.md says
what the columns mean.

A case is `what/variant/precision`. It needs no data: artefacts have random content and real shapes.
"""

from __future__ import annotations

import argparse
import csv
import gc
import itertools
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import made_up
import numpy as np
import reference
import torch
from torch import nn
from torch.utils import benchmark
from torch.utils.data import DataLoader

import vsepp
from vsepp.base.machine import use_cpu
from vsepp.base.placement import Placing, place
from vsepp.base.provenance import git_state, processor
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import Component, CorpusSpec, EncoderSpec
from vsepp.base.words import bytes_text
from vsepp.data.decode import build_store
from vsepp.data.store import open_store
from vsepp.features.crops import CaptionCrops
from vsepp.features.frozen import CHUNK_CAPTIONS, encode_batch, write_tape
from vsepp.models.encoder import load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.models.precision import fp32_products_in
from vsepp.training import step as training_step
from vsepp.training.batches import StepPairs, epoch_batches, load_batch
from vsepp.training.data import load_training_data

ROOT = Path(vsepp.__file__).resolve().parents[1]
NETWORKS = (
    ("lite/efficientnet_lite0", 224, 256, 1280),
    ("lite/efficientnet_lite2", 260, 297, 1280),
    ("torchvision/resnet152", 224, 256, 2048),
    ("torchvision/vgg19", 224, 256, 4096),
)
"""Networks of full size: pixels of their crops and of the images, D_φ."""
PRECISIONS = {"cpu": ("fp32", "bf16"), "cuda": ("fp32", "tf32", "bf16")}
SHARING = (1, 2, 4)
"""Numbers of trainings at once."""
BESIDE = {
    "step-1c": "reference-1c",
    "step-bigru": "reference-bigru",
    "step-bert": "reference-bert",
    "tape": "forward",
    "step-finetuned": "forward-backward",
    "sharing-2": "sharing-1",
    "sharing-4": "sharing-1",
}
"""Case → case of the same variant that its speed is compared with, as a ratio."""
LARGE = 64
"""Pixels of a side above which a network is slow on a CPU: it is trained in batches of 16."""
REFERENCE_STEPS = 8
"""Steps of a reference epoch: its loader is empty at the start and at the end, so it works in
its own turn alone."""
SHARING_STEPS = 4
_TRAINING: list[Training] = []
"""The training of a process that `share` has started."""
Timed = tuple[Callable[[], object], int]
"""The timed call, made over and over, and the number of its items."""


@dataclass(frozen=True)
class Case:
    """Something to time."""

    what: str
    variant: str
    unit: str
    """Unit of the rate, such as pairs/s."""
    set_up: Callable[[Case, Path, torch.device, ExitStack], Timed]
    """Sets the case up in an empty folder."""
    run: RunSpec
    """The run that the timed part belongs to."""
    dim: int = 0
    """D_φ, where features are made up; 0 is the encoder's own."""
    images: int = 640
    """Images of the made-up corpus."""
    vectors: int = 1
    """Vectors of an image, where features are made up."""
    photograph: tuple[int, int] = (640, 480)
    """Width and height of a JPEG, pixels."""

    @property
    def name(self) -> str:
        return f"{self.what}/{self.variant}/{self.run.precision}"

    def artefacts(self, folder: Path) -> dict[str, Path]:
        """Write all that the run reads."""
        return made_up.write_artefacts(self.run, self.images, self.dim, folder, vectors=self.vectors)


def cases(device: str, tiny: bool) -> dict[str, Case]:
    """All cases by name; `tiny` ones do the same with sizes that take no time and say nothing."""
    if tiny:
        sizes = {"images": 16, "photograph": (40, 32)}
        settings = [(made_up.base_run("mini/vgg_mini", 24, 28, 6, 8, 8), 12, sizes)]
    else:
        sizes = {"images": 1280, "photograph": (56, 56)}
        mini = [made_up.base_run(f"mini/{name}", 40, 46, 64, 128) for name in ("vgg_mini", "resnet_mini")]
        settings = [(run, 128, sizes) for run in mini]
        full = [(made_up.base_run(*network[:3], 300, 1024), network[3]) for network in NETWORKS]
        settings += [(run, dim, {"images": 320}) for run, dim in full]
    all_cases = []
    for run, dim, sizes in settings:
        all_cases += [*on_features(run, dim, device, **sizes), *with_encoder(run, device, **sizes)]
        all_cases += on_regions(run, dim, tiny, **sizes) if dim in (12, 2048) else ()
        all_cases.append(Case("store", str(run.train_store.side), "images/s", store, run, **sizes))
    return {case.name: case for case in all_cases}


def on_features(run: RunSpec, dim: int, device: str, **sizes: Any) -> Iterator[Case]:
    """Steps that read features of fixed crops, the reference step, and trainings that share the machine."""
    variant = f"{dim}/{run.model.joint_dim}"
    yield Case("reference-1c", variant, "pairs/s", reference_epoch, run, dim, **sizes)
    for precision in PRECISIONS[device]:
        yield Case("step-1c", variant, "pairs/s", step, replace(run, precision=precision), dim, **sizes)
    shared = replace(run, precision="fp32" if device == "cpu" else "bf16")
    for count in SHARING:
        set_up = partial(share, processes=count)
        yield Case(f"sharing-{count}", variant, "pairs/s", set_up, shared, dim, **sizes)


def on_regions(run: RunSpec, dim: int, tiny: bool, **sizes: Any) -> Iterator[Case]:
    """Steps of VSE∞ on 36 regions an image, and the same steps made of torch's modules."""
    size, gpo = run.model.joint_dim, Component("gpo")
    small = {"layers": 1, "hidden": 8, "heads": 2, "intermediate": 8} if tiny else {}
    texts = {"bigru": {"word_dim": 300, "dim": size}, "bert": {"dim": size, **small}}
    for name, options in texts.items():
        model = replace(
            run.model,
            text=Component(name, options),
            image_head=Component("regions"),
            image_pooling=gpo,
            caption_pooling=gpo,
            normalise_features=False,
        )
        towers = replace(run, model=model, optimiser=Component("adamw"))
        for what, set_up in ((f"reference-{name}", reference_towers), (f"step-{name}", step)):
            yield Case(what, f"36x{dim}/{size}", "pairs/s", set_up, towers, dim, vectors=36, **sizes)


def with_encoder(run: RunSpec, device: str, **sizes: Any) -> Iterator[Case]:
    """An encoder's own passes, and the tape and fine-tuning steps that cannot be faster than these."""
    if device == "cpu" and run.encoder.input_size > LARGE:
        run = replace(run, schedule=replace(run.schedule, batch_size=16))
    crops = replace(run, trainset="RC", crop=replace(run.crop, kind="RC"), rc_features="inline")
    tuned = replace(crops, finetune_from="benchmark")
    for precision in PRECISIONS[device]:
        encoder = replace(run.encoder, precision=precision)
        frozen, trained = (replace(spec, encoder=encoder, precision=precision) for spec in (crops, tuned))
        yield Case("forward", variant_of(encoder), "images/s", encoder_pass, frozen, **sizes)
        yield Case("tape", variant_of(encoder), "images/s", tape, frozen, **sizes)
        yield Case("forward-backward", variant_of(encoder), "images/s", encoder_pass, trained, **sizes)
        yield Case("step-finetuned", variant_of(encoder), "pairs/s", step, trained, **sizes)


def variant_of(encoder: EncoderSpec) -> str:
    """An encoder's name among the cases: `torchvision/vgg19@224`."""
    return f"{encoder.architecture}@{encoder.input_size}"


def encoder_pass(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Timed:
    """Batches through the encoder and nothing else; where it is fine-tuned, back too, its
    gradients included."""
    run, tuned, bf16 = case.run, case.run.finetuned, case.run.precision == "bf16"
    encoder = made_up.encoder_of(run).to(device).requires_grad_(tuned)
    count = run.schedule.batch_size if tuned else encode_batch(run.encoder.input_size, device)
    pixels = encoder.normalise(made_up.pixels(count, run.encoder.input_size).to(device))
    stack.enter_context(fp32_products_in(run.precision, device))
    stack.enter_context(torch.inference_mode(not tuned))
    if bf16 and not tuned:  # the weights of a frozen encoder are cast before, not in each call
        for module in encoder.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                module.to(torch.bfloat16)

    def call() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            features = encoder(pixels)
        if tuned:
            encoder.zero_grad()
            features.backward(torch.ones_like(features))

    return call, count


def tape(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Timed:
    """An epoch of a tape, computed, written and removed; of a network that is slow here, a batch."""
    run, artefacts = case.run, case.artefacts(folder)
    encoder = load_encoder(run.encoder, artefacts["encoder"])
    images = place(open_store(artefacts["train_store"]), "image store", Placing(device))
    # So many chunks that the writing after the last one was computed takes little time beside them.
    batch = encode_batch(run.encoder.input_size, device)
    rows = np.arange(min(8 * CHUNK_CAPTIONS, 64 * case.images) if batch > 16 else batch)
    crops = CaptionCrops(run.crop, rows // made_up.CAPTIONS_PER_IMAGE % len(images), rows, run.draw)
    out, state = folder / "written", folder / "written-state"

    def call() -> None:
        write_tape(images, encoder, crops, rows, 1, out, state, device=device)
        shutil.rmtree(out)
        shutil.rmtree(state)

    return call, len(rows)


def step(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Timed:
    """A training step, from the artefacts' files to the changed weights, its inputs made as in training."""
    return Training(case.run, case.artefacts(folder), device).repeated, case.run.schedule.batch_size


class Training:
    """A training on a device, step by step, on artefacts that are there."""

    def __init__(self, run: RunSpec, artefacts: dict[str, Path], device: torch.device) -> None:
        self.run, self.device = run, device
        self.data = load_training_data(run, artefacts, Placing(device))
        encoder = None
        if run.live_encoder:
            encoder = load_encoder(run.encoder, artefacts["encoder"])
            encoder = encoder.requires_grad_(run.finetuned).eval()
        torch.manual_seed(run.init_seed)
        model = JointEmbedding(run.model, self.data.images.dim, len(self.data.vocabulary), encoder)
        loss = training_step.RunLoss.from_run(run, {}, device)
        optimiser = training_step.make_optimiser(run, model.to(device), loss)
        self.training = training_step.Training(run, model, loss, optimiser, device)
        self.again = itertools.cycle(self.batches(epoch=0))

    def batches(self, epoch: int) -> list[StepPairs]:
        """The whole batches of an epoch."""
        schedule = self.run.schedule
        batches = epoch_batches(len(self.data.pairs), schedule, self.run.order_seed, epoch)
        return [batch for batch in batches if batch.queries == schedule.batch_size]

    def step(self, batch: StepPairs, epoch: int) -> torch.Tensor:
        """Take a step; gives its loss."""
        run = self.run
        inputs = load_batch(self.training, self.data, batch, epoch)
        with fp32_products_in(run.precision, self.device):
            return training_step.take_step(self.training, inputs, run.schedule.learning_rate)

    def repeated(self) -> torch.Tensor:
        """Take the next step of the first epoch, which begins again after its last one."""
        return self.step(next(self.again), 0)


def reference_epoch(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Timed:
    """An epoch of reference steps, data loading included."""
    run = case.run
    count = REFERENCE_STEPS * run.schedule.batch_size
    torch.manual_seed(run.init_seed)
    model = reference.ReferenceModel(JointEmbedding(run.model, case.dim, made_up.VOCABULARY)).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=run.schedule.learning_rate)
    features = np.random.default_rng(0).standard_normal((count, case.dim), np.float32).clip(0)
    tokens = made_up.captions_of(count)
    captions = np.split(tokens.ids, np.cumsum(tokens.lengths)[:-1])
    loader = DataLoader(
        reference.Pairs(features, captions, np.arange(count) // made_up.CAPTIONS_PER_IMAGE),
        batch_size=run.schedule.batch_size,
        shuffle=True,
        num_workers=min(10, os.cpu_count() or 1),  # ten is the released code's default
        persistent_workers=True,
        pin_memory=device.type == "cuda",
        collate_fn=reference.collate,
    )

    def call() -> None:
        for batch in loader:
            reference.reference_step(model, optimiser, batch, run.schedule.clip_norm)

    return call, count


def reference_towers(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Timed:
    """Steps of VSE∞ made of torch's modules, on batches that are in memory."""
    run, generator = case.run, np.random.default_rng(0)
    torch.manual_seed(run.init_seed)
    model = reference.Towers(run.model, case.dim, made_up.VOCABULARY).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=run.schedule.learning_rate, fused=True)
    size = run.schedule.batch_size
    features = generator.standard_normal((size, case.vectors, case.dim), np.float32).clip(0)
    ids, lengths = made_up.captions_of(size).eval(np.arange(size))
    batch = torch.from_numpy(features), torch.from_numpy(ids), lengths.tolist()
    return partial(reference.reference_step, model, optimiser, batch, run.schedule.clip_norm), size


def store(case: Case, folder: Path, device: torch.device, stack: ExitStack) -> Timed:
    """Photographs decoded, resized and written on one core."""
    made_up.write_photographs(folder / "photographs", case.photograph)
    images, _ = made_up.tables(case.images)
    files = {"images": folder / "photographs"}
    spec = CorpusSpec(name="made-up", reader=Component("coco"))
    numbers = itertools.count()

    def call() -> None:
        out = folder / f"store-{next(numbers)}"
        build_store(images, spec, files, case.run.train_store, out, folder / f"{out.name}-state", workers=1)

    return call, len(images)


def share(case: Case, folder: Path, device: torch.device, stack: ExitStack, *, processes: int) -> Timed:
    """Steps of some trainings at once, each in a process with its share of the threads, at least one."""
    threads = max(1, torch.get_num_threads() // processes)
    training = case.run, case.artefacts(folder), device, threads
    context = multiprocessing.get_context("spawn")
    pools = [
        stack.enter_context(ProcessPoolExecutor(1, context, initializer=begin_training, initargs=training))
        for _ in range(processes)
    ]

    def call() -> None:
        for steps in [pool.submit(take_steps) for pool in pools]:
            steps.result()

    call()  # until the processes have begun
    return call, processes * SHARING_STEPS * case.run.schedule.batch_size


def begin_training(run: RunSpec, artefacts: dict[str, Path], device: torch.device, threads: int) -> None:
    """Set up, in a process of its own, the training that takes the steps."""
    torch.set_num_threads(threads)
    _TRAINING.append(Training(run, artefacts, device))


def take_steps() -> None:
    """Take some steps of this process's training."""
    for _ in range(SHARING_STEPS):
        loss = _TRAINING[0].repeated()
    float(loss)  # waits until a GPU has computed it


def measure(
    case: Case, device: torch.device, threads: int, seconds: float, earlier: list[dict[str, Any]]
) -> dict[str, Any]:
    """Time a case; gives a row of the table, with the ratios to the cases of earlier rows in `BESIDE`."""
    forget_earlier(device)
    with tempfile.TemporaryDirectory(prefix="vsepp-measure-") as folder, ExitStack() as stack:
        call, items = case.set_up(case, Path(folder), device, stack)
        if device.type == "cuda":  # compiles, chooses algorithms
            for _ in range(3):
                call()
        timer = benchmark.Timer("call()", globals={"call": call}, num_threads=threads)
        taken = timer.blocked_autorange(min_run_time=seconds)
    # The slowest run is the lowest rate.
    times = {"median": taken.median, "low": max(taken.times), "high": min(taken.times)}
    rates = {name: float(f"{items / time:.4g}") for name, time in times.items()}
    precision = case.run.precision
    notes = [
        f"{rates['median'] / row['median']:.2f} × {row['what']} {row['precision']}"
        for row in earlier
        if row["what"] == BESIDE.get(case.what)
        and row["variant"] == case.variant
        and row["precision"] in (precision, "fp32")
    ]
    if device.type == "cuda" and not case.what.startswith("sharing"):  # its processes have their own memory
        notes.append(f"{bytes_text(torch.cuda.max_memory_allocated(device))} of its memory")
    code = git_state()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": code["commit"][:7] + ("-dirty" if code["dirty"] else ""),
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": threads,
        "what": case.what,
        "variant": case.variant,
        "precision": precision,
        "unit": case.unit,
        **rates,
        "runs": len(taken.times),
        "note": "; ".join(notes),
    }


def forget_earlier(device: torch.device) -> None:
    """Free what earlier cases cached."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def append(row: dict[str, Any], path: Path) -> None:
    """Add a row to a table, which is begun where there is none."""
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def main(arguments: list[str] | None = None) -> int:
    """Time the chosen cases; 1 where one of them failed, which costs only its own figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=["*"], metavar="CASE", help="names or patterns: 'step*'")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and time nothing")
    parser.add_argument("--tiny", action="store_true", help="sizes that take no time and say nothing")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=5.0, help="for each case at least, set-up apart")
    parser.add_argument("--append", type=Path, metavar="CSV", help="add the figures to this table")
    options = parser.parse_args(arguments)
    device, rows = torch.device(options.device), []
    all_cases = cases(device.type, options.tiny)
    chosen = [case for name, case in all_cases.items() if matches(name, options.only)]
    if options.list or not chosen:
        print("\n".join(all_cases))
        return 0 if options.list else 2
    use_cpu(options.threads)  # as the package's steps do
    for case in chosen:
        try:
            row = measure(case, device, options.threads, options.seconds, rows)
        except Exception as error:  # other cases may fit into memory, or have their packages
            print(f"{case.name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        rows.append(row)
        print(case.name, summary(row), flush=True)
        if options.append:
            append(row, options.append)
    return int(len(rows) < len(chosen))


def summary(row: dict[str, Any]) -> str:
    """The figures of a row."""
    return "{median:,g} {unit} ({low:,g} to {high:,g}, {runs} runs) {note}".format(**row)


if __name__ == "__main__":
    sys.exit(main())
