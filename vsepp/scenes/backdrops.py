"""Backgrounds: a sky over a ground, with what makes grass grass and a storm a storm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]

# At the top and at the horizon; the light that falls on the ground.
_SKIES: dict[str, tuple[Colour, Colour, tuple[float, float, float]]] = {
    "clear": ((84, 156, 232), (186, 220, 246), (1.0, 1.0, 1.0)),
    "cloudy": ((150, 158, 168), (206, 210, 214), (0.85, 0.86, 0.88)),
    "sunset": ((120, 62, 128), (252, 152, 76), (1.0, 0.76, 0.66)),
    "night": ((8, 10, 40), (38, 42, 94), (0.36, 0.4, 0.56)),
    "storm": ((52, 56, 70), (104, 110, 122), (0.62, 0.64, 0.68)),
}
# At the horizon and at the bottom, by daylight.
_GROUNDS: dict[str, tuple[Colour, Colour]] = {
    "grass": ((128, 190, 88), (66, 138, 52)),
    "sand": ((244, 224, 170), (222, 188, 124)),
    "snow": ((248, 250, 253), (218, 228, 242)),
    "water": ((40, 136, 168), (14, 80, 126)),
    "wheat": ((232, 192, 78), (196, 146, 44)),
    "stone": ((158, 156, 154), (112, 110, 112)),
    "planks": ((176, 122, 76), (140, 92, 54)),
}


def backdrop(ground: str, sky: str, size: tuple[int, int], rng: np.random.Generator) -> Image.Image:
    """Paint a background.

    Parameters
    ----------
    ground, sky
        Of `vsepp.scenes.world.GROUNDS` and `SKIES`.
    size
        Width and height, pixels.
    rng
        Source of the tint, the horizon and the details.
    """
    width, height = size
    top, low, light = _SKIES[sky]
    tint = rng.normal(0.0, 6.0, size=3)
    horizon = int(height * rng.uniform(0.34, 0.52))
    near, far = (np.multiply(colour, light) + tint for colour in reversed(_GROUNDS[ground]))
    image = gradient(size, [(0, top + tint), (horizon, low + tint), (horizon, far), (height, near)])
    draw = ImageDraw.Draw(image)
    _SKY_DETAILS[sky](draw, width, height, horizon, rng)
    _GROUND_DETAILS[ground](draw, width, height, horizon, rng, np.array(light))
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


def _lit(colour: Colour, light: np.ndarray) -> Colour:
    red, green, blue = (np.array(colour) * light).astype(int).tolist()
    return red, green, blue


def _clouds(
    draw: ImageDraw.ImageDraw,
    width: int,
    height: int,
    horizon: int,
    rng: np.random.Generator,
    *,
    colour: Colour,
    most: int,
) -> None:
    for _ in range(rng.integers(most - 2, most + 1)):
        x, y = rng.uniform(0, width), rng.uniform(0.1, 0.75) * horizon
        for step in (-1, 0, 1):
            r = height * rng.uniform(0.03, 0.055)
            cx = x + step * 1.4 * r
            draw.ellipse((cx - 1.5 * r, y - r, cx + 1.5 * r, y + 0.8 * r), fill=colour)


def _clear(
    draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator
) -> None:
    _clouds(draw, width, height, horizon, rng, colour=(238, 246, 252), most=2)


def _cloudy(
    draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator
) -> None:
    _clouds(draw, width, height, horizon, rng, colour=(178, 184, 192), most=4)
    _clouds(draw, width, height, horizon, rng, colour=(228, 230, 232), most=5)


def _sunset(
    draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator
) -> None:
    x, r = rng.uniform(0.15, 0.85) * width, height * rng.uniform(0.11, 0.16)
    draw.chord((x - r, horizon - r, x + r, horizon + r), 180, 360, (255, 230, 146))


def _night(
    draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator
) -> None:
    for x, y, r in rng.uniform((0, 0, 1.0), (width, horizon, 2.4), (20, 3)).tolist():
        draw.ellipse((x - r, y - r, x + r, y + r), fill=(240, 238, 206))


def _storm(
    draw: ImageDraw.ImageDraw, width: int, height: int, horizon: int, rng: np.random.Generator
) -> None:
    _clouds(draw, width, height, horizon, rng, colour=(70, 74, 88), most=5)
    x, step = rng.uniform(0.1, 0.9) * width, 0.06 * width
    levels = np.linspace(0.0, horizon, 5).tolist()
    bolt = [(x + step * (-1) ** i * (0.4 + 0.6 * rng.random()), y) for i, y in enumerate(levels)]
    draw.line(bolt, fill=(252, 244, 170), width=3)


def _blades(
    draw: ImageDraw.ImageDraw,
    width: int,
    height: int,
    horizon: int,
    rng: np.random.Generator,
    light: np.ndarray,
    *,
    colour: Colour,
    tall: float,
) -> None:
    fill = _lit(colour, light)
    for x, level in rng.uniform((0, 0.03), (width, 1), (60, 2)).tolist():
        y = horizon + level * (height - horizon)
        draw.line((x, y, x + width * 0.01, y - height * tall), fill=fill, width=2)


def _grass(
    draw: ImageDraw.ImageDraw, w: int, h: int, horizon: int, rng: np.random.Generator, light: np.ndarray
) -> None:
    _blades(draw, w, h, horizon, rng, light, colour=(54, 116, 44), tall=0.035)


def _wheat(
    draw: ImageDraw.ImageDraw, w: int, h: int, horizon: int, rng: np.random.Generator, light: np.ndarray
) -> None:
    _blades(draw, w, h, horizon, rng, light, colour=(160, 108, 28), tall=0.09)


def _sand(
    draw: ImageDraw.ImageDraw, w: int, h: int, horizon: int, rng: np.random.Generator, light: np.ndarray
) -> None:
    for level in (0.2, 0.6):
        x, y = rng.uniform(-0.2, 0.8) * w, horizon + level * (h - horizon)
        draw.arc(
            (x - w * 0.6, y - h * 0.08, x + w * 0.8, y + h * 0.3),
            180,
            360,
            _lit((204, 166, 106), light),
            width=3,
        )


def _snow(
    draw: ImageDraw.ImageDraw, w: int, h: int, horizon: int, rng: np.random.Generator, light: np.ndarray
) -> None:
    fill = _lit((74, 104, 96), light)
    for _ in range(rng.integers(3, 6)):
        x, size = rng.uniform(0, w), h * rng.uniform(0.09, 0.16)
        draw.polygon(
            [(x, horizon - 1.5 * size), (x - 0.5 * size, horizon + 2), (x + 0.5 * size, horizon + 2)],
            fill=fill,
        )


def _water(
    draw: ImageDraw.ImageDraw, w: int, h: int, horizon: int, rng: np.random.Generator, light: np.ndarray
) -> None:
    fill = _lit((140, 202, 222), light)
    for x, level in rng.uniform((-0.1, 0.05), (1.0, 1.0), (22, 2)).tolist():
        y, length = horizon + level * (h - horizon), w * (0.05 + 0.1 * level)
        draw.arc((x * w, y, x * w + length, y + 0.3 * length), 180, 360, fill, width=2)


def _stone(
    draw: ImageDraw.ImageDraw, w: int, h: int, horizon: int, rng: np.random.Generator, light: np.ndarray
) -> None:
    fill = _lit((84, 82, 86), light)
    levels = (0.0, 0.12, 0.32, 0.62, 1.0)
    for row, (high, low) in enumerate(zip(levels, levels[1:], strict=False)):
        top, bottom = (horizon + level * (h - horizon) for level in (high, low))
        draw.line((0, bottom, w, bottom), fill=fill, width=2)
        for column in range(7):
            x = (column - 0.5 * (row % 2) + rng.uniform(-0.1, 0.1)) * w / 5.5
            draw.line((x, top, x + rng.uniform(-3, 3), bottom), fill=fill, width=2)


def _planks(
    draw: ImageDraw.ImageDraw, w: int, h: int, horizon: int, rng: np.random.Generator, light: np.ndarray
) -> None:
    fill = _lit((92, 58, 34), light)
    for target in (np.arange(-1.0, 2.2, 0.2) + rng.uniform(0, 0.2)).tolist():
        draw.line(((0.25 + 0.5 * target) * w, horizon, target * w, h), fill=fill, width=2)


_SKY_DETAILS: dict[str, Callable[..., None]] = {
    "clear": _clear,
    "cloudy": _cloudy,
    "sunset": _sunset,
    "night": _night,
    "storm": _storm,
}
_GROUND_DETAILS: dict[str, Callable[..., None]] = {
    "grass": _grass,
    "sand": _sand,
    "snow": _snow,
    "water": _water,
    "wheat": _wheat,
    "stone": _stone,
    "planks": _planks,
}
