"""Pretraining of the mini encoders: what ImageNet is to VGG19 and ResNet152.

Single objects with a coarse label are classified. Their colours have no names in the captions, most of their
shapes are not the captions', their textures are of two hues and their backgrounds are mere gradients, so the
frozen features do not already hold what captions say, and fine-tuning has something to gain.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vsepp.errors import VseppError
from vsepp.models.encoders import ImageEncoder, build_encoder, save_encoder
from vsepp.scenes.backdrops import gradient
from vsepp.scenes.render import SUPERSAMPLING, draw_thing, finish
from vsepp.scenes.world import Thing
from vsepp.spec import EncoderSpec, PretrainingSpec

log = logging.getLogger("vsepp")

FAMILIES = {
    "round": ("ellipse", "ring", "circle"),
    "boxy": ("bar", "square", "pentagon"),
    "pointed": ("spark", "burst", "triangle"),
    "lobed": ("half_disc", "flower", "heart"),
}
SURFACES = {"plain": ("plain",), "patterned": ("striped", "dotted", "checked")}
TONES = {
    "berry": ((150, 34, 62), (190, 70, 110)),
    "salmon": ((236, 122, 100), (232, 160, 140)),
    "ochre": ((214, 168, 62), (170, 140, 50)),
    "olive": ((130, 150, 60), (90, 110, 50)),
    "teal": ((30, 136, 140), (112, 196, 176)),
    "indigo": ((60, 66, 132), (90, 110, 170)),
    "lilac": ((148, 150, 214), (190, 160, 210)),
    "grey": ((92, 96, 104), (150, 150, 156), (204, 204, 200)),
}
"""Tone → RGB, 0–255; none is a colour of `vsepp.scenes.render.PALETTE`."""
LABELS = (tuple(FAMILIES), tuple(SURFACES), tuple(TONES), tuple(TONES), tuple(TONES))
"""Parts of a label, each with a softmax of its own: of the object its shape, surface and tone; the background's
tone above and below."""

_RADII = (0.2, 0.4)
_HELD_OUT = 0.1
_WARM_UP = 0.1


def pretrain(encoder_specs: list[EncoderSpec], spec: PretrainingSpec, out: dict[str, Path]) -> dict[str, Any]:
    """Train every encoder on the same labelled images and save it without its classifier.

    Equal seeds give equal weights, bit for bit, on one CPU with one number of threads; an encoder's weights do
    not depend on which others are trained in the same call.

    Parameters
    ----------
    encoder_specs
        Encoders of the `mini` family.
    spec
        Images, schedule and seed.
    out
        Name of an encoder → folder that it is saved in.

    Returns
    -------
    dict
        Name of an encoder → `train_accuracy` and `held_out_accuracy` (fractions), `classes`, `images`.

    Raises
    ------
    VseppError
        When an encoder has no folder, sees more than there is to see, or its loss is not finite.
    """
    for encoder in encoder_specs:
        if encoder.name not in out:
            raise VseppError(
                f"pretraining: no output folder for encoder {encoder.name!r}; given: {sorted(out)}"
            )
        if encoder.input_size > spec.side:
            raise VseppError(
                f"pretraining.side: encoder {encoder.name!r} sees {encoder.input_size} pixels, expected a side of "
                f"at least that, got {spec.side}"
            )
    images, labels = labelled_scenes(spec)
    facts = {}
    for encoder in encoder_specs:
        facts[encoder.name] = _train(encoder, spec, images, labels, out[encoder.name])
        log.info("pretraining of %s: %s", encoder.name, facts[encoder.name])
    return facts


def labelled_scenes(spec: PretrainingSpec) -> tuple[np.ndarray, np.ndarray]:
    """Render the images to learn from.

    Returns
    -------
    images : np.ndarray
        `(n, side, side, 3)` uint8 RGB.
    labels : np.ndarray
        `(n, 3)` int64, rows of the parts of `LABELS`; each value of a part about equally often.
    """
    rng = np.random.default_rng(spec.seed)
    labels = np.stack([rng.permutation(np.arange(spec.images) % len(part)) for part in LABELS], axis=1)
    images = np.stack([_labelled_scene(label, spec.side, rng) for label in labels.tolist()])
    return images, labels.astype(np.int64)


def _labelled_scene(label: list[int], side: int, rng: np.random.Generator) -> np.ndarray:
    family, surface, tone, above, below = (part[index] for part, index in zip(LABELS, label, strict=True))
    large = side * SUPERSAMPLING
    horizon = int(large * rng.uniform(0.35, 0.65))
    high, low = (rng.choice(TONES[name]) + rng.normal(0.0, 8.0, size=3) for name in (above, below))
    canvas = gradient((large, large), [(0, high), (horizon, high + 20), (horizon, low + 20), (large, low)])
    radius = rng.uniform(*_RADII)
    thing = Thing(
        shape=str(rng.choice(FAMILIES[family])),
        colour=tone,
        texture=str(rng.choice(SURFACES[surface])),
        size="",
        x=float(rng.uniform(0.25, 0.75)),
        y=float(rng.uniform(0.25, 0.75)),
        angle=float(rng.normal(0.0, 0.3)),
    )
    colour = rng.choice(TONES[tone]) + rng.normal(0.0, 8.0, size=3)
    # A texture's second colour can be of any tone.
    partner = rng.choice(TONES[rng.choice(tuple(TONES))]) + rng.normal(0.0, 8.0, size=3)
    draw_thing(canvas, thing, radius * side, colour, partner, rng)
    return finish(canvas, rng, 0.02)


def _train(
    encoder_spec: EncoderSpec, spec: PretrainingSpec, images: np.ndarray, labels: np.ndarray, folder: Path
) -> dict[str, float]:
    held_out = max(1, int(_HELD_OUT * len(images)))
    pixels, targets = torch.from_numpy(images), torch.from_numpy(labels)
    order = np.random.default_rng([spec.seed, 1])
    # Dropout and initial weights come from torch's generator; the caller's is left as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        encoder = build_encoder(encoder_spec)
        head = nn.Linear(encoder.dim, len(CLASSES))
        parameters = [*encoder.parameters(), *head.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=spec.learning_rate)
        steps = spec.epochs * -(-(len(images) - held_out) // spec.batch_size)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, max_lr=spec.learning_rate, total_steps=steps, pct_start=_WARM_UP, cycle_momentum=False
        )
        encoder.train()
        for _ in range(spec.epochs):
            right = 0
            rows = held_out + order.permutation(len(images) - held_out)
            for start in range(0, len(rows), spec.batch_size):
                batch = rows[start : start + spec.batch_size]
                crops = _random_crops(pixels[batch], encoder_spec.input_size, order)
                scores = head(encoder(encoder.normalise(crops)))
                loss = nn.functional.cross_entropy(scores, targets[batch])
                if not torch.isfinite(loss):
                    raise VseppError(
                        f"pretraining of {encoder_spec.name!r}: the loss is {loss.item()}; lower "
                        f"pretraining.learning_rate, now {spec.learning_rate}"
                    )
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
                schedule.step()
                right += int((scores.argmax(1) == targets[batch]).sum())
    encoder.eval()
    save_encoder(encoder, folder)
    return {
        "train_accuracy": right / (len(images) - held_out),
        "held_out_accuracy": _accuracy(encoder, head, pixels[:held_out], targets[:held_out]),
        "classes": len(CLASSES),
        "images": len(images),
    }


@torch.no_grad()
def _accuracy(encoder: ImageEncoder, head: nn.Linear, pixels: torch.Tensor, targets: torch.Tensor) -> float:
    """Fraction of centre crops classified rightly."""
    size = encoder.spec.input_size
    margin = (pixels.shape[1] - size) // 2
    crops = pixels[:, margin : margin + size, margin : margin + size]
    right = [
        (head(encoder(encoder.normalise(part))).argmax(1) == target)
        for part, target in zip(crops.split(256), targets.split(256), strict=True)
    ]
    return float(torch.cat(right).double().mean())


def _random_crops(pixels: torch.Tensor, size: int, rng: np.random.Generator) -> torch.Tensor:
    """One window of each image `(n, side, side, 3)`, half of them mirrored: `(n, size, size, 3)`."""
    room = pixels.shape[1] - size
    offsets = rng.integers(0, room + 1, size=(len(pixels), 2)).tolist()
    mirrored = (rng.random(len(pixels)) < 0.5).tolist()
    crops = [image[y : y + size, x : x + size] for image, (y, x) in zip(pixels, offsets, strict=True)]
    return torch.stack(
        [crop.flip(1) if mirror else crop for crop, mirror in zip(crops, mirrored, strict=True)]
    )
