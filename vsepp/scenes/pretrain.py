"""Pretraining of the mini encoders, whose weights come with the package: what ImageNet is
to VGG19 and ResNet152.

    python -m vsepp.scenes.pretrain vsepp/shipped/encoders

writes them again, in two minutes on a core; on another CPU with other last digits.

Single objects on two-coloured backgrounds are classified coarsely: by family of shapes, by surface and by
tones. Captions name none of these colours and only half of these shapes; the textures have two hues, and the
backgrounds are neither grass nor storm. So the frozen features do not already hold what captions say, and
fine-tuning has something to gain.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from vsepp.base.machine import use_cpu
from vsepp.base.spec import CropSpec, EncoderSpec
from vsepp.features.crops import crop_boxes, fixed_boxes, gather_crops, sizes_of
from vsepp.models.encoder import ImageEncoder, build_encoder
from vsepp.scenes.render import SUPERSAMPLING, draw_thing, finish, gradient
from vsepp.scenes.world import Thing

ARCHITECTURES = ("mini/resnet_mini", "mini/vgg_mini", "vit/vit_mini")
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
LABELS = {
    "shape": tuple(FAMILIES),
    "surface": tuple(SURFACES),
    "tone": tuple(TONES),
    "above": tuple(TONES),
    "below": tuple(TONES),
}
"""Part of a label → its values, with a softmax for each part; the last two are the background's tones."""

_RADII = (0.2, 0.4)
_HELD_OUT = 0.1
_WARM_UP = 0.1


@dataclass(frozen=True)
class Pretraining:
    """Supervised training on labelled single-object scenes; sides in pixels."""

    seed: int = 1
    images: int = 4000
    side: int = 46
    input_size: int = 40
    epochs: int = 6
    batch_size: int = 32
    learning_rate: float = 0.002


def main(folder: Path) -> None:
    """Write the weights of all encoders into a folder, and print their accuracies."""
    from safetensors.torch import save_file

    use_cpu(1)
    for architecture in ARCHITECTURES:
        encoder, accuracy = pretrain(architecture, Pretraining())
        path = folder / f"{architecture}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {key: value.contiguous() for key, value in encoder.network.state_dict().items()}
        save_file(state, path, {"settings": json.dumps(asdict(Pretraining()))})
        print(path, accuracy)


def pretrain(architecture: str, settings: Pretraining) -> tuple[ImageEncoder, dict[str, float]]:
    """Train an encoder on labelled images.

    Equal seeds give equal weights, bit for bit, on one CPU with one number of threads.

    Returns
    -------
    encoder : ImageEncoder
        Without its classifier.
    accuracy : dict
        Part of the label → fraction of held-out images.
    """
    images, labels = labelled_scenes(settings)
    targets = torch.from_numpy(labels)
    held_out = max(1, int(_HELD_OUT * len(images)))
    torch.manual_seed(settings.seed)  # initial weights, and dropout
    encoder = build_encoder(encoder_spec(architecture, settings))
    head = nn.Linear(encoder.dim, sum(len(values) for values in LABELS.values()))
    _fit(encoder, head, images[held_out:], targets[held_out:], settings)
    encoder.eval()
    return encoder, _accuracy(encoder, head, images[:held_out], targets[:held_out])


def encoder_spec(architecture: str, settings: Pretraining) -> EncoderSpec:
    """An encoder before it is trained."""
    return EncoderSpec(
        name=architecture,
        architecture=architecture,
        weights="random",
        input_size=settings.input_size,
        store_side=settings.side,
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
    )


def labelled_scenes(settings: Pretraining) -> tuple[np.ndarray, np.ndarray]:
    """Render the images to learn from.

    Returns
    -------
    images : np.ndarray
        `(n, side, side, 3)` uint8 RGB.
    labels : np.ndarray
        `(n, 5)` int64, rows of the parts of `LABELS`; each value of a part about equally often.
    """
    rng = np.random.default_rng(settings.seed)
    labels = np.stack(
        [rng.permutation(np.arange(settings.images) % len(part)) for part in LABELS.values()], axis=1
    )
    images = np.stack([_labelled_scene(label, settings.side, rng) for label in labels.tolist()])
    return images, labels.astype(np.int64)


def _labelled_scene(label: list[int], side: int, rng: np.random.Generator) -> np.ndarray:
    family, surface, tone, above, below = (
        part[index] for part, index in zip(LABELS.values(), label, strict=True)
    )
    large = side * SUPERSAMPLING
    horizon = int(large * rng.uniform(0.35, 0.65))
    high, low = _shade(above, rng), _shade(below, rng)
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
    colour = _shade(tone, rng)
    # A texture's second colour can be of any tone.
    partner = _shade(rng.choice(tuple(TONES)), rng)
    draw_thing(canvas, thing, radius * side, colour, partner, rng)
    return finish(canvas, rng, 0.02)


def _shade(tone: str, rng: np.random.Generator) -> np.ndarray:
    """A colour of a tone, RGB."""
    return rng.choice(TONES[tone]) + rng.normal(0.0, 8.0, size=3)


def _fit(
    encoder: ImageEncoder, head: nn.Linear, images: np.ndarray, targets: torch.Tensor, settings: Pretraining
) -> None:
    """Minimise the cross entropy on random crops."""
    rng = np.random.default_rng([settings.seed, 1])
    optimiser = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser,
        max_lr=settings.learning_rate,
        total_steps=settings.epochs * -(-len(images) // settings.batch_size),
        pct_start=_WARM_UP,
        cycle_momentum=False,
    )
    encoder.train()
    crop = CropSpec(kind="RC", size=encoder.spec.input_size, flip=True)
    for epoch in range(settings.epochs):
        for batch in torch.from_numpy(rng.permutation(len(images))).split(settings.batch_size):
            rows = batch.numpy()
            boxes, flips = crop_boxes(rows, settings.seed, epoch, crop, sizes_of(images, rows))
            crops = gather_crops(images, rows, boxes, flips, crop.size)
            parts = _parts(head(encoder(encoder.normalise(crops))))
            loss: torch.Tensor = sum(  # type: ignore[assignment]  # there are parts, so it is no 0
                nn.functional.cross_entropy(scores, truth)
                for scores, truth in zip(parts, targets[batch].T, strict=True)
            )
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()


@torch.no_grad()
def _accuracy(
    encoder: ImageEncoder, head: nn.Linear, images: np.ndarray, targets: torch.Tensor
) -> dict[str, float]:
    """Fraction of centre crops for which each part of the label is predicted correctly."""
    crop, rows = CropSpec(kind="1C", size=encoder.spec.input_size), np.arange(len(images))
    boxes, flips = fixed_boxes(crop, sizes_of(images, rows))
    crops = gather_crops(images, rows, boxes[:, 0], flips[:, 0], crop.size)
    parts = _parts(head(encoder(encoder.normalise(crops))))
    predicted = torch.stack([scores.argmax(1) for scores in parts], dim=1)
    right = (predicted == targets).double().mean(dim=0)
    return dict(zip(LABELS, right.tolist(), strict=True))


def _parts(scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Scores `(n, values of all parts)` to one `(n, values)` for each part of the label."""
    return scores.split([len(values) for values in LABELS.values()], dim=1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
