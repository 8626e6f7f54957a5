"""What is right on a device: each function computes something there and in float64 on the CPU, or twice, and compares.

A relative error is the length of the difference over that of what it should be; bounds are those of `BOUNDS`. Content is
random, shapes are real.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import made_up
import measure
import numpy as np
import timed
import torch
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pack_padded_sequence

from vsepp.data.store import open_store
from vsepp.errors import VseppError
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.encode import encode_split
from vsepp.evaluation.metrics import retrieval_metrics
from vsepp.evaluation.ranks import Ranks, retrieval_ranks
from vsepp.features.crops import CaptionCrops, gather_crops
from vsepp.features.frozen import encode_crops
from vsepp.features.tape import InlineFeatures, epoch_file
from vsepp.features.tape_writer import write_tape
from vsepp.losses import WHOLE
from vsepp.models.joint import JointEmbedding
from vsepp.models.precision import fp32_products_in
from vsepp.spec import Component, RunSpec, to_json
from vsepp.training.batches import epoch_batches
from vsepp.training.data import load_training_data
from vsepp.training.epoch import step_inputs
from vsepp.training.step import RunLoss, StepInputs, make_optimiser, train_step

CPU = torch.device("cpu")
BOUNDS = {"fp32": 1e-5, "tf32": 1e-2, "bf16": 5e-2}
"""Relative error of a feature by the precision of its products: some ten to hundred times the rounding of one."""
NEAR = 0.25
"""And at most this part of the distance to the nearest feature of another image, which may be near in a network with random
weights."""
STEP_BOUNDS = {"fp32": (1e-5, 1e-4), "bf16": (1e-2, 2e-1)}
"""Relative error of a step's loss and of its gradient, in the middle of the steps. A hardest negative that ties with another
one may be another one in single steps, so the largest is told and not bounded."""
STEPS = 50
_FEW, _CALLS = 2, 3
"""Images whose features are also computed in float64, in so many calls."""
_PATIENCE = 180.0
"""Seconds for a small training."""
_TAPE = 96
SYSTEMS: dict[str, dict[str, Any]] = {
    "VSE0": {"loss": Component("sum_of_hinges"), "model": {"normalise_images": False}},
    "VSE++": {"loss": Component("max_of_hinges")},
    "Order0": {
        "loss": Component("sum_of_hinges", {"margin": 0.05}),
        "model": {"similarity": Component("order"), "absolute": True},
    },
    "Order++": {"loss": Component("max_of_hinges"), "model": {"similarity": Component("order")}},
}
"""How each differs from VSE++ on a dot product; see params/papers/vsepp/runs.yaml."""


@dataclass
class Found:
    """What a check found."""

    right: bool
    said: str
    """In a few words, with the figures."""
    figures: dict[str, float] = field(default_factory=dict)


def error(found: torch.Tensor, right: torch.Tensor) -> float:
    """Relative error, of the worst row where there are several."""
    found, right = found.detach().double().cpu(), right.detach().double().cpu()
    if not torch.isfinite(found).all():
        return float("inf")
    lengths = right.norm(dim=-1)
    return float(((found - right).norm(dim=-1) / lengths.clamp(min=1e-300)).max())


# --- Features ----------------------------------------------------------------------------------------------------


def features(run: RunSpec, device: torch.device) -> Found:
    """Features of a frozen encoder, in the precision and with the compilation of its spec."""
    measure.forget_earlier(device)
    spec = run.encoder
    crops = made_up.crops(run, _FEW * _CALLS)
    right = _exact_features(run, crops)
    boxes = np.tile([0, 0, spec.input_size, spec.input_size], (_FEW, 1))
    encoder, flips = made_up.encoder_of(run).to(device).eval(), np.zeros(_FEW, bool)
    calls = np.arange(_FEW * _CALLS).reshape(_CALLS, _FEW)
    found = torch.cat([encode_crops(crops.numpy(), encoder, rows, boxes, flips, device) for rows in calls])
    return _close(found, right, BOUNDS[spec.precision])


def _exact_features(run: RunSpec, crops: torch.Tensor) -> torch.Tensor:
    """Features in float64 on the CPU."""
    eager = replace(run, encoder=replace(run.encoder, precision="fp32", compile="off"))
    exact = made_up.encoder_of(eager).eval().double()
    with torch.inference_mode():
        return exact(exact.normalise(crops).double())


def _close(found: torch.Tensor, right: torch.Tensor, bound: float) -> Found:
    """Whether features are within a relative bound, and much nearer to what they should be than to another image's."""
    off = error(found, right)
    apart = torch.cdist(right, right).fill_diagonal_(float("inf")).min(dim=1).values
    part = float(((found.double().cpu() - right).norm(dim=1) / apart).max())
    said = f"relative error {off:.1e}, bound {bound:.1e}; {part:.1e} of the distance to another image, bound {NEAR}"
    return Found(off <= bound and part <= NEAR, said, {"error": off, "bound": bound, "of the distance": part})


def random_crops(run: RunSpec, device: torch.device, folder: Path) -> Found:
    """Random crops are the CPU's; their features are equal in a file and in the step, and close to the CPU's."""
    images = _TAPE // made_up.CAPTIONS_PER_IMAGE + 1
    store = open_store(made_up.write_artefacts(run, images, 0, folder / "made")["train_store"])
    rows = np.arange(_TAPE)
    crops = CaptionCrops(run.crop, rows // made_up.CAPTIONS_PER_IMAGE, rows, run.draw)
    there = torch.from_numpy(np.array(store)).to(device)
    size = run.encoder.input_size
    cut = gather_crops(there, *crops.of(0, rows, there), size)
    same_crops = torch.equal(cut.cpu(), gather_crops(store, *crops.of(0, rows, store), size))
    encoder = made_up.encoder_of(run)
    write_tape(there, encoder, crops, rows, 1, folder / "tape", folder / "state", device=device)
    written = torch.from_numpy(np.load(folder / "tape" / epoch_file(0)))
    order = np.random.default_rng(0).permutation(rows)  # other neighbours in a batch
    same = torch.equal(written[order], InlineFeatures(there, encoder, crops, device).rows(0, order).cpu())
    some = rows[:: made_up.CAPTIONS_PER_IMAGE][: _FEW * _CALLS]  # of different images
    bound = BOUNDS[run.encoder.precision] + 2**-10  # kept in 16 bits
    close = _close(written[some], _exact_features(run, cut[some].cpu()), bound)
    told = [
        f"crops {'equal' if same_crops else 'DIFFER FROM'} the CPU's",
        f"in the step {'equal' if same else 'NOT EQUAL'} to those in files",
        close.said,
    ]
    return Found(same_crops and same and close.right, "; ".join(told), close.figures)


# --- Training ----------------------------------------------------------------------------------------------------


def steps(run: RunSpec, dim: int, device: torch.device, folder: Path, images: int) -> Found:
    """Losses and gradients of a training's first steps, each beside float64 on the CPU from the same weights."""
    data = load_training_data(run, made_up.write_artefacts(run, images, dim, folder), device)
    torch.manual_seed(run.init_seed)
    model = JointEmbedding(run.model, data.feature_dim, data.vocabulary_size).to(device)
    exact = JointEmbedding(run.model, data.feature_dim, data.vocabulary_size).double()
    loss, exact_loss = RunLoss.of(run, {}, device), RunLoss.of(run, {}, CPU)
    optimiser = make_optimiser(model, run.schedule.learning_rate, loss)
    offs = []
    with fp32_products_in(run.precision, device):
        for inputs in _inputs(run, data, loss, device):
            exact.load_state_dict(model.state_dict())
            right, gradient = _exactly(exact, exact_loss, inputs, run.schedule.clip_norm)
            value = train_step(
                model, optimiser, loss, inputs, run.schedule.clip_norm, bf16=run.precision == "bf16"
            )
            found = torch.cat([parameter.grad.flatten().cpu() for parameter in optimiser.parameters])
            offs.append((abs(float(value) / right - 1), error(found[None], gradient[None])))
    losses, gradients = np.array(offs).T
    figures = {
        "loss": float(np.median(losses)),
        "gradient": float(np.median(gradients)),
        "largest loss": float(losses.max()),
        "largest gradient": float(gradients.max()),
    }
    bounds = STEP_BOUNDS[run.precision]
    said = (
        f"{len(offs)} steps: loss {figures['loss']:.1e} (largest {figures['largest loss']:.1e}, bound {bounds[0]:g}), "
        f"gradient {figures['gradient']:.1e} (largest {figures['largest gradient']:.1e}, bound {bounds[1]:g})"
    )
    return Found(figures["loss"] <= bounds[0] and figures["gradient"] <= bounds[1], said, figures)


def _inputs(run: RunSpec, data: Any, loss: RunLoss, device: torch.device) -> Iterator[StepInputs]:
    size, taken = run.schedule.batch_size, 0
    for epoch in range(STEPS):
        for drawn in epoch_batches(len(data.pairs), size, order_seed=run.order_seed, epoch=epoch):
            if taken < STEPS and drawn.queries == size:
                yield step_inputs(run, data, loss, drawn, epoch, device)
                taken += 1


def _exactly(
    model: JointEmbedding, loss: RunLoss, inputs: StepInputs, clip_norm: float
) -> tuple[float, torch.Tensor]:
    """Loss and clipped gradient of a step in float64, by Eqs. 1 to 3 in torch's own operations."""
    model.zero_grad()
    images = model.image_map(normalize(inputs.images.values.cpu().double()))
    images = normalize(images) if model.spec.normalise_images else images
    packed = pack_padded_sequence(model.text.words(inputs.ids.cpu().T), inputs.lengths, enforce_sorted=False)
    captions = normalize(model.text.gru(packed)[1][0])
    if model.spec.absolute:
        images, captions = images.abs(), captions.abs()
    if model.spec.similarity.name == "dot":
        scores = images @ captions.T
    else:
        scores = -(captions[None] - images[:, None]).clamp(min=0).square().sum(-1)
    value = loss.function(scores, loss.options, WHOLE)
    value.backward()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    torch.nn.utils.clip_grad_norm_(trained, clip_norm)
    return float(value.detach()), torch.cat([parameter.grad.flatten() for parameter in trained])


def resumed(run: RunSpec, dim: int, device: torch.device, folder: Path, images: int) -> Found:
    """A training that is killed with SIGKILL and called again, beside two that were left alone."""
    places = made_up.write_artefacts(run, images, dim, folder / "made")
    given = [f"--{role.replace('_', '-')}={path}" for role, path in places.items()]
    command = [sys.executable, "-m", "vsepp.cli", "make", "run", "--spec", to_json(run), *given]
    command += ["--device", device.type, "--threads", str(torch.get_num_threads())]
    kills, weights = 0, []
    for name in ("one", "two", "killed"):
        out = [*command, "--output", str(folder / name)]
        if name == "killed":
            out += ["--checkpoint-seconds", "0"]
            kills = _kill_once(out, folder / ".state")
        call(out, _PATIENCE)
        from safetensors.torch import load_file

        state = load_file(folder / name / "model.safetensors")
        weights.append(torch.cat([state[key].flatten() for key in sorted(state)])[None])
    again, after_kill = error(weights[1], weights[0]), error(weights[2], weights[0])
    right = kills == 1 and after_kill <= (10 * again if device.type != "cpu" else 0)
    said = f"killed {kills} time; weights beside an undisturbed training: {after_kill:.1e}; a second undisturbed one: {again:.1e}"
    return Found(right, said, {"after a kill": after_kill, "undisturbed": again})


def _kill_once(command: list[str], state: Path) -> int:
    """Start a training and kill it once it has written a checkpoint and gone on; gives the number of kills."""
    ends = time.monotonic() + _PATIENCE
    with started(command) as process:
        while process.poll() is None and time.monotonic() < ends and not any(state.rglob("checkpoint*")):
            time.sleep(0.02)
        time.sleep(0.05)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        return int(process.wait() == -signal.SIGKILL)


# --- Ranks and recalls -------------------------------------------------------------------------------------------


def ranks(similarity: str, images: int, dim: int, device: torch.device) -> Found:
    """Ranks of the same embeddings on the device and by NumPy."""
    pictures, captions, owner = made_up.embeddings(images, dim)
    if similarity == "order":
        pictures, captions = abs(pictures), abs(captions)
    split = Embeddings(pictures, captions, owner, Component(similarity))
    differing = _differing(retrieval_ranks(split, device), retrieval_ranks(split))
    total = len(pictures) + len(captions)
    # Inner products are exact; of another similarity the last digit may differ, and with it a place among equals.
    allowed = 0 if similarity == "dot" else total // 1000
    said = f"{differing:,} of {total:,} ranks differ, allowed {allowed:,}"
    return Found(differing <= allowed, said, {"differing": differing})


def validation(run: RunSpec, dim: int, device: torch.device, folder: Path, images: int) -> Found:
    """Recalls on validation of one model that is embedded and ranked on the device and on the CPU."""
    artefacts = made_up.write_artefacts(run, images, dim, folder)
    found = []
    for place in (device, CPU):
        data = load_training_data(run, artefacts, place)
        torch.manual_seed(run.init_seed)
        model = JointEmbedding(run.model, data.feature_dim, data.vocabulary_size).to(place)
        split = encode_split(model, data.eval_inputs, data.tokens, data.validation, device=place)
        found.append((split, retrieval_ranks(split, None if place == CPU else place)))
    (there, ours), (here, theirs) = found
    off = max(
        error(torch.from_numpy(getattr(there, name)), torch.from_numpy(getattr(here, name)))
        for name in ("image_embeddings", "caption_embeddings")
    )
    same = retrieval_metrics(ours) == retrieval_metrics(theirs)
    differing = _differing(ours, theirs)
    said = (
        f"recalls {'identical' if same else 'DIFFER'}; {differing} of {len(ours.i2t) + len(ours.t2i):,} ranks differ; "
        f"relative error of an embedding {off:.1e}, bound {BOUNDS['fp32']:g}"
    )
    return Found(same and off <= BOUNDS["fp32"], said, {"error": off, "differing": differing})


def _differing(one: Ranks, other: Ranks) -> int:
    return int((one.i2t != other.i2t).sum() + (one.t2i != other.t2i).sum())


# --- Tests -------------------------------------------------------------------------------------------------------

_MARK = "mark.gpu"


def marked_tests(seconds: float) -> Found:
    """The tests that need a GPU, as far as what they import is installed."""
    for name in ("pytest", "xdist", "hypothesis"):
        importlib.import_module(name)
    tests = sorted((timed.ROOT / "tests/unit").rglob("test_*.py"))
    files = [file for file in tests if _MARK in file.read_text(encoding="utf-8")]
    left_out = []
    if importlib.util.find_spec("nltk") is None:
        left_out = [file for file in files if file.parent.name == "training"]
    chosen = [str(file) for file in files if file not in left_out]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-m",
        "gpu",
        "-p",
        "no:cacheprovider",
        *chosen,
    ]
    done = subprocess.run(command, cwd=timed.ROOT, capture_output=True, text=True, timeout=seconds)
    lines = done.stdout.strip().splitlines() or ["no output"]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    said = [lines[-1].strip("= "), *failed]
    if left_out:
        said.append(f"without {', '.join(file.name for file in left_out)}, which need nltk")
    return Found(done.returncode == 0, "; ".join(said))


# --- Processes -----------------------------------------------------------------------------------------------------


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that finds this package, and that ends with its caller, however that ends."""
    paths = [str(timed.ROOT), os.environ.get("PYTHONPATH")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
    process = subprocess.Popen(
        command, env=environment, text=True, start_new_session=True, preexec_fn=_end_with_parent, **options
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _end_with_parent() -> None:
    prctl, parent_death_signal = getattr(ctypes.CDLL(None), "prctl", None), 1  # of Linux
    if prctl:
        prctl(parent_death_signal, signal.SIGKILL)


def call(command: Sequence[str], seconds: float, **options: Any) -> None:
    """Wait for a process.

    Raises
    ------
    subprocess.TimeoutExpired
        If it did not end in so many seconds.
    VseppError
        If it failed, with its last lines.
    """
    with started(command, stderr=subprocess.PIPE, **options) as process:
        _, said = process.communicate(timeout=seconds)
    if process.returncode:
        raise VseppError(f"status {process.returncode}: " + "\n".join(said.strip().splitlines()[-20:]))
