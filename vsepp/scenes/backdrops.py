"""Backgrounds: a sky over a ground, each with its details, such as blades of grass or lightning."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]


def backdrop(ground: str, sky: str, size: tuple[int, int], rng: np.random.Generator) -> Image.Image:
    """Paint a background.

    Parameters
    ----------
    ground, sky
        Names from `vsepp.scenes.world.GROUNDS` and `SKIES`.
    size
        Width and height, pixels.
    rng
        Source of the tint, the horizon and the details.
    """
    width, height = size
    top, low, light, draw_sky = _SKIES[sky]
    *colours, draw_ground = _GROUNDS[ground]
    tint = rng.normal(0.0, 6.0, size=3)
    horizon = int(height * rng.uniform(0.34, 0.52))
    far, near = (np.multiply(colour, light) + tint for colour in colours)
    image = gradient(size, [(0, top + tint), (horizon, low + tint), (horizon, far), (height, near)])
    frame = _Frame(ImageDraw.Draw(image), width, height, horizon, np.array(light), rng)
    draw_sky(frame)
    draw_ground(frame)
    return image


def gradient(size: tuple[int, int], stops: list[tuple[int, np.ndarray]]) -> Image.Image:
    """Rows of colour (0–255) blended between stops `(row, colour)`."""
    width, height = size
    rows = np.empty((height, 3))
    for (first, start), (last, end) in itertools.pairwise(stops):
        if last > first:
            rows[first:last] = start + np.linspace(0.0, 1.0, last - first)[:, None] * (end - start)
    column = np.clip(rows, 0, 255).astype(np.uint8)
    return Image.fromarray(np.repeat(column[:, None, :], width, axis=1))


@dataclass(frozen=True)
class _Frame:
    """A background under way."""

    draw: ImageDraw.ImageDraw
    width: int
    height: int
    horizon: int
    light: np.ndarray
    rng: np.random.Generator

    def lit(self, colour: Colour) -> Colour:
        """Colour of something on the ground in the light of this sky."""
        red, green, blue = (np.array(colour) * self.light).astype(int).tolist()
        return red, green, blue

    def down(self, level: float) -> float:
        """Row of the ground, `level` from 0 at the horizon to 1 at the bottom."""
        return self.horizon + level * (self.height - self.horizon)


def _clouds(frame: _Frame, colour: Colour, least: int, most: int) -> None:
    for _ in range(frame.rng.integers(least, most, endpoint=True)):
        x, y = frame.rng.uniform(0, frame.width), frame.rng.uniform(0.1, 0.75) * frame.horizon
        for step in (-1.4, 0, 1.4):
            r = frame.height * frame.rng.uniform(0.03, 0.055)
            middle = x + step * r
            frame.draw.ellipse((middle - 1.5 * r, y - r, middle + 1.5 * r, y + 0.8 * r), fill=colour)


def _clear(frame: _Frame) -> None:
    _clouds(frame, (238, 246, 252), 0, 2)


def _cloudy(frame: _Frame) -> None:
    _clouds(frame, (178, 184, 192), 2, 4)
    _clouds(frame, (228, 230, 232), 3, 5)


def _sunset(frame: _Frame) -> None:
    x = frame.rng.uniform(0.15, 0.85) * frame.width
    r = frame.rng.uniform(0.11, 0.16) * frame.height
    frame.draw.chord((x - r, frame.horizon - r, x + r, frame.horizon + r), 180, 360, (255, 230, 146))


def _night(frame: _Frame) -> None:
    for x, y, r in frame.rng.uniform((0, 0, 1.0), (frame.width, frame.horizon, 2.4), (20, 3)).tolist():
        frame.draw.ellipse((x - r, y - r, x + r, y + r), fill=(240, 238, 206))


def _storm(frame: _Frame) -> None:
    _clouds(frame, (70, 74, 88), 3, 5)
    x, step = frame.rng.uniform(0.1, 0.9) * frame.width, 0.06 * frame.width
    levels = np.linspace(0.0, frame.horizon, 5).tolist()
    bolt = [(x + step * (-1) ** i * frame.rng.uniform(0.4, 1.0), y) for i, y in enumerate(levels)]
    frame.draw.line(bolt, fill=(252, 244, 170), width=3)


def _blades(frame: _Frame, colour: Colour, tall: float) -> None:
    fill = frame.lit(colour)
    for x, level in frame.rng.uniform((0, 0.03), (frame.width, 1), (60, 2)).tolist():
        y = frame.down(level)
        frame.draw.line((x, y, x + 0.01 * frame.width, y - tall * frame.height), fill=fill, width=2)


def _sand(frame: _Frame) -> None:
    for level in (0.2, 0.6):
        left, top = frame.rng.uniform(-0.8, 0.2) * frame.width, frame.down(level) - 0.08 * frame.height
        box = (left, top, left + 1.4 * frame.width, top + 0.38 * frame.height)
        frame.draw.arc(box, 180, 360, frame.lit((204, 166, 106)), width=3)


def _snow(frame: _Frame) -> None:
    for _ in range(frame.rng.integers(3, 6)):
        x, tall = frame.rng.uniform(0, frame.width), frame.rng.uniform(0.13, 0.24) * frame.height
        foot = frame.horizon + 2
        tree = [(x, frame.horizon - tall), (x - tall / 3, foot), (x + tall / 3, foot)]
        frame.draw.polygon(tree, fill=frame.lit((74, 104, 96)))


def _water(frame: _Frame) -> None:
    for x, level in frame.rng.uniform((-0.1, 0.05), (1.0, 1.0), (22, 2)).tolist():
        left, top, length = x * frame.width, frame.down(level), frame.width * (0.05 + 0.1 * level)
        box = (left, top, left + length, top + 0.3 * length)
        frame.draw.arc(box, 180, 360, frame.lit((140, 202, 222)), width=2)


def _stone(frame: _Frame) -> None:
    fill = frame.lit((84, 82, 86))
    for row, levels in enumerate(itertools.pairwise((0.0, 0.12, 0.32, 0.62, 1.0))):
        top, bottom = map(frame.down, levels)
        frame.draw.line((0, bottom, frame.width, bottom), fill=fill, width=2)
        for column in range(7):
            x = (column - 0.5 * (row % 2) + frame.rng.uniform(-0.1, 0.1)) * frame.width / 5.5
            frame.draw.line((x, top, x + frame.rng.uniform(-3, 3), bottom), fill=fill, width=2)


def _planks(frame: _Frame) -> None:
    fill = frame.lit((92, 58, 34))
    for x in (np.arange(-1.0, 2.2, 0.2) + frame.rng.uniform(0, 0.2)).tolist():
        far, near = (0.25 + 0.5 * x) * frame.width, x * frame.width
        frame.draw.line((far, frame.horizon, near, frame.height), fill=fill, width=2)


_Draw = Callable[[_Frame], None]

# Colour at the top and at the horizon; the light that falls on the ground; what is drawn into the sky.
_SKIES: dict[str, tuple[Colour, Colour, tuple[float, float, float], _Draw]] = {
    "clear": ((84, 156, 232), (186, 220, 246), (1.0, 1.0, 1.0), _clear),
    "cloudy": ((150, 158, 168), (206, 210, 214), (0.85, 0.86, 0.88), _cloudy),
    "sunset": ((120, 62, 128), (252, 152, 76), (1.0, 0.76, 0.66), _sunset),
    "night": ((8, 10, 40), (38, 42, 94), (0.36, 0.4, 0.56), _night),
    "storm": ((52, 56, 70), (104, 110, 122), (0.62, 0.64, 0.68), _storm),
}
# Colour at the horizon and at the bottom, by daylight; what is drawn onto the ground.
_GROUNDS: dict[str, tuple[Colour, Colour, _Draw]] = {
    "grass": ((128, 190, 88), (66, 138, 52), partial(_blades, colour=(54, 116, 44), tall=0.035)),
    "sand": ((244, 224, 170), (222, 188, 124), _sand),
    "snow": ((248, 250, 253), (218, 228, 242), _snow),
    "water": ((40, 136, 168), (14, 80, 126), _water),
    "wheat": ((232, 192, 78), (196, 146, 44), partial(_blades, colour=(160, 108, 28), tall=0.09)),
    "stone": ((158, 156, 154), (112, 110, 112), _stone),
    "planks": ((176, 122, 76), (140, 92, 54), _planks),
}
