"""What is right on a device: each check computes something there and on the CPU, or twice, and compares.

A relative error is the length of the difference over that of the expected vector. Content is random, shapes are real.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import made_up
import numpy as np
import torch
from measure import ROOT, forget_earlier
from safetensors.torch import load_file

from vsepp.errors import VseppError
from vsepp.features.frozen import encode_crops
from vsepp.models.joint import JointEmbedding
from vsepp.models.precision import fp32_products_in
from vsepp.spec import Component, RunSpec, to_json
from vsepp.training.batches import StepPairs, epoch_batches
from vsepp.training.data import load_training_data
from vsepp.training.epoch import step_inputs
from vsepp.training.step import RunLoss, make_optimiser, train_step

CPU = torch.device("cpu")
FEATURE_BOUNDS = {"fp32": 1e-5, "tf32": 1e-2, "bf16": 5e-2}
"""Relative error of a feature by the precision of its products: some ten to hundred times the rounding of one."""
NEAR = 0.25
"""And at most this part of the distance to the nearest feature of another image: they are near in a random network."""
STEP_BOUNDS = {"fp32": (1e-5, 1e-4), "bf16": (1e-2, 2e-1)}
"""Relative error of a step's loss and of its gradient, in the median of the steps: in single steps, a hardest negative
that ties with another one may be another one."""
STEPS = 50
SYSTEMS: dict[str, dict[str, Any]] = {
    "VSE0": {"loss": Component("sum_of_hinges"), "model": {"normalise_images": False}},
    "VSE++": {"loss": Component("max_of_hinges"), "model": {}},
    "Order0": {
        "loss": Component("sum_of_hinges", {"margin": 0.05}),
        "model": {"similarity": Component("order"), "absolute": True},
    },
    "Order++": {"loss": Component("max_of_hinges"), "model": {"similarity": Component("order")}},
}
"""How each differs from VSE++ on a dot product; see params/papers/vsepp/runs.yaml."""


@dataclass
class Finding:
    """What came out of a check or a measurement."""

    right: bool
    message: str
    figures: dict[str, Any] = field(default_factory=dict)


def relative_error(values: torch.Tensor, expected: torch.Tensor) -> float:
    """Of the worst row; infinite where a value is not finite."""
    values, expected = values.detach().double().cpu(), expected.detach().double().cpu()
    if not torch.isfinite(values).all():
        return float("inf")
    return float(((values - expected).norm(dim=-1) / expected.norm(dim=-1).clamp(min=1e-300)).max())


def features(run: RunSpec, device: torch.device) -> Finding:
    """Features of a frozen encoder, run as its spec says, beside float64 on the CPU."""
    forget_earlier(device)
    spec, crops = run.encoder, made_up.pixels(6, run.encoder.input_size)
    exact = made_up.encoder_of(replace(run, encoder=replace(spec, precision="fp32", compile="off"))).double()
    with torch.inference_mode():
        expected = exact(exact.normalise(crops).double())
    encoder = made_up.encoder_of(run).to(device)
    boxes, flips = np.tile([0, 0, spec.input_size, spec.input_size], (2, 1)), np.zeros(2, bool)
    calls = [(0, 1), (2, 3), (4, 5)]
    found = [encode_crops(crops.numpy(), encoder, np.array(rows), boxes, flips, device) for rows in calls]
    return near(torch.cat(found), expected, FEATURE_BOUNDS[spec.precision])


def near(values: torch.Tensor, expected: torch.Tensor, bound: float) -> Finding:
    """Whether features are within a relative bound, and much nearer to what they should be than to another image's."""
    error = relative_error(values, expected)
    apart = torch.cdist(expected, expected).fill_diagonal_(float("inf")).min(dim=1).values
    part = float(((values.double().cpu() - expected).norm(dim=1) / apart).max())
    message = f"relative error {error:.1e}, bound {bound:.1e}; {part:.1e} of the distance to another image, bound {NEAR}"
    return Finding(error <= bound and part <= NEAR, message, {"error": error, "of the distance": part})


class Training:
    """A training on a device, step by step."""

    def __init__(self, run: RunSpec, artefacts: dict[str, Path], device: torch.device) -> None:
        self.run, self.device = run, device
        self.data = load_training_data(run, artefacts, device)
        torch.manual_seed(run.init_seed)
        self.model = JointEmbedding(run.model, self.data.feature_dim, self.data.vocabulary_size).to(device)
        self.loss = RunLoss.of(run, {}, device)
        self.optimiser = make_optimiser(self.model, run.schedule.learning_rate, self.loss)

    def step(self, drawn: StepPairs, epoch: int) -> tuple[float, torch.Tensor]:
        """Take a step; gives its loss and its clipped gradient `(1, n)`."""
        inputs = step_inputs(self.run, self.data, self.loss, drawn, epoch, self.device)
        clip_norm, bf16 = self.run.schedule.clip_norm, self.run.precision == "bf16"
        with fp32_products_in(self.run.precision, self.device):
            value = train_step(self.model, self.optimiser, self.loss, inputs, clip_norm, bf16=bf16)
        gradient = torch.cat([parameter.grad.flatten() for parameter in self.optimiser.parameters])
        return float(value), gradient[None]


def steps(run: RunSpec, dim: int, images: int, device: torch.device, folder: Path) -> Finding:
    """Losses and gradients of a training's first steps, each beside fp32 on the CPU from the same weights."""
    artefacts = made_up.write_artefacts(run, images, dim, folder)
    training = Training(run, artefacts, device)
    expected = Training(replace(run, precision="fp32"), artefacts, CPU)
    errors: list[tuple[float, float]] = []
    for epoch in range(STEPS):
        size, pairs = run.schedule.batch_size, len(training.data.pairs)
        for drawn in epoch_batches(pairs, size, order_seed=run.order_seed, epoch=epoch):
            if len(errors) < STEPS and drawn.queries == size:
                expected.model.load_state_dict(training.model.state_dict())
                (loss, gradient), (right_loss, right_gradient) = (
                    side.step(drawn, epoch) for side in (training, expected)
                )
                errors.append((abs(loss / right_loss - 1), relative_error(gradient, right_gradient)))
    (loss_error, gradient_error), largest = np.median(errors, axis=0).tolist(), np.max(errors, axis=0)
    bounds = STEP_BOUNDS[run.precision]
    message = (
        f"{len(errors)} steps: loss {loss_error:.1e} (largest {largest[0]:.1e}, bound {bounds[0]:g}), "
        f"gradient {gradient_error:.1e} (largest {largest[1]:.1e}, bound {bounds[1]:g})"
    )
    right = loss_error <= bounds[0] and gradient_error <= bounds[1]
    return Finding(right, message, {"loss": loss_error, "gradient": gradient_error})


def resumed(run: RunSpec, dim: int, images: int, device: torch.device, folder: Path) -> Finding:
    """A training that is killed with SIGKILL and called again, beside two that were left alone."""
    artefacts = made_up.write_artefacts(run, images, dim, folder / "made")
    command = [sys.executable, "-m", "vsepp.cli", "make", "run", "--spec", to_json(run)]
    command += [f"--{role.replace('_', '-')}={path}" for role, path in artefacts.items()]
    command += ["--device", device.type, "--threads", str(torch.get_num_threads())]
    killed, weights = False, []
    for name in ("one", "two", "killed"):
        training = [*command, "--output", str(folder / name)]
        if name == "killed":
            training += ["--checkpoint-seconds", "0"]
            killed = kill_after_checkpoint(training, folder / ".state")
        call(training, 180)
        state = load_file(folder / name / "model.safetensors")
        weights.append(torch.cat([state[key].flatten() for key in sorted(state)])[None])
    again, after_kill = relative_error(weights[1], weights[0]), relative_error(weights[2], weights[0])
    right = killed and after_kill <= (10 * again if device.type != "cpu" else 0)
    message = (
        f"{'killed' if killed else 'NOT KILLED'}; weights beside an undisturbed training: {after_kill:.1e}"
    )
    message += f"; a second undisturbed one: {again:.1e}"
    return Finding(right, message, {"after a kill": after_kill, "undisturbed": again})


def kill_after_checkpoint(command: Sequence[str], state: Path) -> bool:
    """Start a training and kill it once it has written a checkpoint; says whether it was killed before its end."""
    process = subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while process.poll() is None and not any(state.rglob("checkpoint*")):
            time.sleep(0.02)
    finally:
        process.kill()
    return process.wait() < 0


def gpu_tests() -> Finding:
    """The tests that need a GPU; those of training need nltk."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "gpu", "tests/unit"]
    if importlib.util.find_spec("nltk") is None:
        command.append("--ignore=tests/unit/training")
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300)
    lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return Finding(done.returncode == 0, "; ".join([lines[-1].strip("= "), *failed]))


def call(command: Sequence[str], seconds: float | None, folder: Path | None = None) -> None:
    """Wait for a process, which finds this package and is killed if it takes longer.

    Raises
    ------
    subprocess.TimeoutExpired
        If it does.
    VseppError
        If it failed, with its last lines.
    """
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=seconds
    )
    if done.returncode:
        raise VseppError(f"status {done.returncode}: " + "\n".join(done.stderr.strip().splitlines()[-20:]))


def environment() -> dict[str, str]:
    """In which a process finds this package, and what this process finds."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
