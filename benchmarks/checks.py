"""What is right on a device: each check computes something there and on the CPU, or twice, and compares.

A relative error is the length of the difference, divided by the length of the expected vector. Content is
random, shapes are real.
"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import made_up
import numpy as np
import torch
from measure import Training, forget_earlier

from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import Component
from vsepp.features.frozen import encode_crops

CPU = torch.device("cpu")
FEATURE_BOUNDS = {"fp32": 1e-5, "tf32": 1e-2, "bf16": 5e-2}
"""Relative error of a feature by the precision of its products: some ten to hundred times
the rounding of one."""
NEAR = 0.25
"""And at most this part of the distance to the nearest feature of another image: features are near
in a random network."""
STEP_BOUNDS = {"fp32": (1e-5, 1e-4), "bf16": (1e-2, 2e-1)}
"""Relative error of a step's loss and of its gradient, in the median of the steps: in single steps, a tie
between hardest negatives may fall to another negative."""
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
    """Result of a check or a measurement."""

    right: bool
    message: str
    figures: dict[str, Any] = field(default_factory=dict)


def relative_error(values: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative error of the worst row; infinite where a value is not finite."""
    values, expected = values.detach().double().cpu(), expected.detach().double().cpu()
    if not torch.isfinite(values).all():
        return float("inf")
    return float(((values - expected).norm(dim=-1) / expected.norm(dim=-1).clamp(min=1e-300)).max())


def features(run: RunSpec, device: torch.device) -> Finding:
    """Features of a frozen encoder, run as its spec says, beside float64 on the CPU."""
    forget_earlier(device)
    spec, crops = run.encoder, made_up.pixels(6, run.encoder.input_size)
    exact = made_up.encoder_of(replace(run, encoder=replace(spec, precision="fp32"))).double()
    with torch.inference_mode():
        expected = exact(exact.normalise(crops).double())
    encoder = made_up.encoder_of(run).to(device)
    boxes, flips = np.tile([0, 0, spec.input_size, spec.input_size], (2, 1)), np.zeros(2, bool)
    calls = [(0, 1), (2, 3), (4, 5)]
    values = [encode_crops(crops.numpy(), encoder, np.array(rows), boxes, flips, device) for rows in calls]
    return near(torch.cat(values), expected, FEATURE_BOUNDS[spec.precision])


def near(values: torch.Tensor, expected: torch.Tensor, bound: float) -> Finding:
    """Whether features are within a relative bound, and much nearer to the expected ones than
    to another image's."""
    error = relative_error(values, expected)
    apart = torch.cdist(expected, expected).fill_diagonal_(float("inf")).min(dim=1).values
    part = float(((values.double().cpu() - expected).norm(dim=1) / apart).max())
    message = (
        f"relative error {error:.1e}, bound {bound:.1e}; "
        f"{part:.1e} of the distance to another image, bound {NEAR}"
    )
    return Finding(error <= bound and part <= NEAR, message, {"error": error, "of the distance": part})


def steps(run: RunSpec, dim: int, images: int, device: torch.device) -> Finding:
    """Losses and gradients of a training's first steps, each beside fp32 on the CPU from the same weights."""
    with tempfile.TemporaryDirectory(prefix="vsepp-first-light-") as folder:
        artefacts = made_up.write_artefacts(run, images, dim, Path(folder))
        training = Training(run, artefacts, device)
        expected = Training(replace(run, precision="fp32"), artefacts, CPU)
    errors: list[tuple[float, float]] = []
    batches = ((epoch, batch) for epoch in range(STEPS) for batch in training.batches(epoch))
    for epoch, batch in itertools.islice(batches, STEPS):
        expected.training.model.load_state_dict(training.training.model.state_dict())
        loss, right_loss = (float(side.step(batch, epoch)) for side in (training, expected))
        gradient, right_gradient = (
            torch.cat([parameter.grad.flatten() for parameter in side.training.optimiser.parameters])[None]
            for side in (training, expected)
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
