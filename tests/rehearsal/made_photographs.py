"""JPEGs that decode like photographs: smooth gradients, a few shapes and grain, drawn fast."""

from __future__ import annotations

import io
from functools import cache

import numpy as np
from PIL import Image, ImageChops, ImageDraw

_LONG, _SHORT = 640, 480
_GRAIN = 18
"""Deviation of the grain, of 255: enough for JPEGs of COCO's mean size, 160 kB, at a quality of 98."""


def size_of(number: int) -> tuple[int, int]:
    """Width and height of a photograph in pixels: one in four is upright."""
    return (_SHORT, _LONG) if number % 4 == 3 else (_LONG, _SHORT)


def is_grey(number: int) -> bool:
    """Whether a photograph has one channel only; one in 50 has."""
    return number % 50 == 7


def draw(seed: int, number: int) -> Image.Image:
    """Photograph of a number, RGB or greyscale."""
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
    return image.convert("L") if is_grey(number) else image


@cache
def _grain(seed: int) -> Image.Image:
    """Grey noise around 128, softened as a lens does, larger than a photograph."""
    rng = np.random.default_rng([seed, 0, 1])
    side = _LONG + 128
    noise = rng.normal(128, _GRAIN, (side // 2, side // 2)).clip(0, 255).astype(np.uint8)
    return Image.fromarray(noise).resize((side, side), Image.Resampling.BILINEAR).convert("RGB")


def encoded(image: Image.Image, quality: int) -> bytes:
    """JPEG of a photograph."""
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=quality)
    return stream.getvalue()


def quality_for(seed: int, jpeg_bytes: int) -> int:
    """JPEG quality, 5 to 98, at which the mean photograph comes nearest to a size in bytes."""
    sample = [draw(seed, number) for number in range(12)]
    low, high = 5, 98
    while low < high:
        middle = (low + high) // 2
        if sum(len(encoded(image, middle)) for image in sample) < jpeg_bytes * len(sample):
            low = middle + 1
        else:
            high = middle
    return low


def draw_all(seed: int, count: int, jpeg_bytes: int) -> list[bytes]:
    """The first `count` photographs as JPEGs of `jpeg_bytes` in the mean."""
    quality = quality_for(seed, jpeg_bytes)
    return [encoded(draw(seed, number), quality) for number in range(count)]
