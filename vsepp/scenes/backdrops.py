"""Backgrounds: a gradient or two, and what makes a meadow a meadow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]

# Sky at the top, sky at the horizon, ground at the horizon, ground at the bottom; height of the horizon.
_LANDSCAPES: dict[str, tuple[Colour, Colour, Colour, Colour, float]] = {
    "meadow": ((104, 168, 232), (190, 222, 246), (126, 186, 86), (66, 134, 52), 0.45),
    "beach": ((92, 176, 236), (176, 220, 246), (242, 222, 168), (222, 190, 126), 0.5),
    "night": ((10, 12, 44), (40, 42, 92), (34, 38, 58), (16, 18, 32), 0.8),
    "snow": ((168, 186, 206), (214, 224, 234), (246, 248, 252), (220, 230, 242), 0.38),
    "desert": ((236, 200, 148), (250, 226, 178), (226, 160, 92), (196, 120, 62), 0.42),
    "sunset": ((112, 60, 124), (252, 150, 72), (96, 56, 70), (52, 30, 48), 0.72),
    "sea": ((150, 200, 232), (206, 230, 240), (38, 128, 160), (14, 76, 120), 0.3),
    "bricks": ((176, 96, 76), (168, 88, 70), (160, 84, 66), (148, 76, 60), 0.5),
    "floor": ((226, 218, 204), (206, 196, 182), (178, 126, 78), (146, 98, 58), 0.4),
}


def backdrop(name: str, size: tuple[int, int], rng: np.random.Generator) -> Image.Image:
    """Paint a background.

    Parameters
    ----------
    name
        One of `vsepp.scenes.world.BACKGROUNDS`.
    size
        Width and height, pixels.
    rng
        Source of the tint, the horizon and the details.
    """
    width, height = size
    *colours, level = _LANDSCAPES[name]
    tint = rng.normal(0.0, 7.0, size=3)
    horizon = int(height * np.clip(level + rng.uniform(-0.06, 0.06), 0.1, 0.9))
    sky_top, sky_low, ground_high, ground_low = (np.add(colour, tint) for colour in colours)
    image = gradient(size, [(0, sky_top), (horizon, sky_low), (horizon, ground_high), (height, ground_low)])
    detail = _DETAILS.get(name)
    if detail is not None:
        detail(ImageDraw.Draw(image), width, height, horizon, rng)
    return image


def gradient(size: tuple[int, int], stops: list[tuple[int, np.ndarray]]) -> Image.Image:
    """Rows of colour (0–255) blended between stops `(row, colour)`."""
    width, height = size
    rows = np.empty((height, 3))
    for (first, start), (last, end) in zip(stops, stops[1:], strict=False):
        if last > first:
            rows[first:last] = start + np.linspace(0.0, 1.0, last - first)[:, None] * (end - start)
    column = np.clip(rows, 0, 255).astype(np.uint8)
    return Image.fromarray(np.repeat(column[:, None, :], width, axis=1))


def _clouds(draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator) -> None:
    for _ in range(rng.integers(1, 4)):
        x, y = rng.uniform(0, width), rng.uniform(0.1, 0.8) * horizon
        for step in (-1, 0, 1):
            r = height * rng.uniform(0.03, 0.055)
            cx = x + step * 1.4 * r
            draw.ellipse((cx - 1.5 * r, y - r, cx + 1.5 * r, y + 0.8 * r), fill=(240, 246, 250))


def _meadow(draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator) -> None:
    _clouds(draw, width, height, horizon, rng)
    count = 70
    xs, ys = rng.uniform(0, width, count), horizon + (height - horizon) * rng.uniform(0.03, 1, count)
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        draw.line((x, y, x + width * 0.01, y - height * 0.04), fill=(58, 122, 46), width=2)


def _beach(draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator) -> None:
    top = horizon - int(height * 0.16)
    draw.rectangle((0, top, width, horizon), fill=(52, 142, 182))
    for _ in range(5):
        x, y = rng.uniform(0, width), rng.uniform(top, horizon)
        draw.line((x, y, x + width * 0.14, y), fill=(128, 196, 216), width=2)
    draw.line((0, horizon, width, horizon), fill=(244, 246, 240), width=3)


def _night(draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator) -> None:
    for x, y, r in rng.uniform((0, 0, 1.0), (width, horizon, 2.4), (26, 3)).tolist():
        draw.ellipse((x - r, y - r, x + r, y + r), fill=(238, 236, 204))


def _snow(draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator) -> None:
    for _ in range(rng.integers(3, 6)):
        x, size = rng.uniform(0, width), height * rng.uniform(0.1, 0.18)
        draw.polygon(
            [(x, horizon - 1.6 * size), (x - 0.5 * size, horizon + 2), (x + 0.5 * size, horizon + 2)],
            fill=(84, 112, 104),
        )


def _desert(draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator) -> None:
    for level in (0.25, 0.6):
        x, y = rng.uniform(-0.2, 0.8) * width, horizon + level * (height - horizon)
        draw.chord((x - width * 0.6, y - height * 0.1, x + width * 0.8, y + height * 0.3), 180, 360, (210, 140, 76))


def _sunset(draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator) -> None:
    x, r = rng.uniform(0.15, 0.85) * width, height * rng.uniform(0.12, 0.17)
    draw.chord((x - r, horizon - r, x + r, horizon + r), 180, 360, (255, 226, 140))


def _sea(draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator) -> None:
    for x, level in rng.uniform((-0.1, 0.05), (1.0, 1.0), (24, 2)).tolist():
        y, length = horizon + level * (height - horizon), width * (0.05 + 0.1 * level)
        draw.arc((x * width, y, x * width + length, y + 0.3 * length), 180, 360, (132, 194, 214), width=2)


def _bricks(draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator) -> None:
    tall, mortar = height / 8.0, (196, 176, 160)
    wide, shift = 2.2 * tall, rng.uniform(0, 1)
    for row in range(9):
        y = (row + 0.5 * shift) * tall
        draw.line((0, y, width, y), fill=mortar, width=2)
        for column in range(-1, int(width / wide) + 2):
            x = (column + shift + 0.5 * (row % 2)) * wide
            draw.line((x, y, x, y + tall), fill=mortar, width=2)


def _floor(draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator) -> None:
    for target in np.arange(-1.0, 2.2, 0.22) + rng.uniform(0, 0.2):
        top = 0.5 + (target - 0.5) * 0.5
        draw.line((top * width, horizon, target * width, height), fill=(120, 78, 46), width=2)
    draw.rectangle((0, horizon - height * 0.03, width, horizon), fill=(238, 234, 226))


_DETAILS: dict[str, Callable[..., None]] = {
    "meadow": _meadow,
    "beach": _beach,
    "night": _night,
    "snow": _snow,
    "desert": _desert,
    "sunset": _sunset,
    "sea": _sea,
    "bricks": _bricks,
    "floor": _floor,
}
