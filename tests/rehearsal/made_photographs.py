"""JPEGs that decode like photographs: smooth gradients, a few shapes and grain, drawn fast."""

from __future__ import annotations

import io
from functools import cache

import numpy as np
from PIL import Image, ImageChops, ImageDraw

_LONG, _SHORT = 640, 480
_GRAIN = 18
"""Deviation of the grain, of 255."""


def size_of(number: int) -> tuple[int, int]:
    """Width and height of a photograph in pixels: one in four is upright."""
    return (_SHORT, _LONG) if number % 4 == 3 else (_LONG, _SHORT)


def _draw(seed: int, number: int) -> Image.Image:
    """Photograph of a number; one in 50 is greyscale."""
    rng = np.random.default_rng([seed, number])
    width, height = size_of(number)
    corners = rng.integers(0, 256, (5, 6, 3), dtype=np.uint8)
    image = Image.fromarray(corners).resize((width, height), Image.Resampling.BICUBIC)
    pencil = ImageDraw.Draw(image)
    for kind, x, y, a, b, *colour in rng.integers(0, 256, (rng.integers(3, 9), 8)).tolist():
        left, top = x * width // 256, y * height // 256
        box = (left, top, left + 10 + a, top + 10 + b)
        shape = pencil.ellipse if kind < 128 else pencil.rectangle
        shape(box, fill=tuple(colour))
    left, top = rng.integers(0, 128, 2).tolist()
    grain = _grain(seed).crop((left, top, left + width, top + height))
    image = ImageChops.add(image, grain, scale=1, offset=-128)
    return image.convert("L") if number % 50 == 7 else image


@cache
def _grain(seed: int) -> Image.Image:
    """Grey noise around 128, softened as a lens does, larger than a photograph."""
    rng = np.random.default_rng([seed, 0, 1])
    side = _LONG + 128
    noise = rng.normal(128, _GRAIN, (side // 2, side // 2)).clip(0, 255).astype(np.uint8)
    return Image.fromarray(noise).resize((side, side), Image.Resampling.BILINEAR).convert("RGB")


def draw_all(seed: int, count: int) -> list[bytes]:
    """The first `count` photographs as JPEGs of about 24 kB."""
    jpegs = []
    for number in range(count):
        stream = io.BytesIO()
        _draw(seed, number).save(stream, "JPEG", quality=23)
        jpegs.append(stream.getvalue())
    return jpegs
