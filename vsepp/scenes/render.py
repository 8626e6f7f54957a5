"""Draw a scene: objects with shading, texture, outline and shadow, on a sky over a ground with their
details, antialiased."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from PIL import Image, ImageDraw

from vsepp.base.spec import Difficulty
from vsepp.scenes.world import Scene, Thing

Colour = tuple[int, int, int]

PALETTE = {
    "red": (208, 32, 38),
    "orange": (244, 128, 22),
    "yellow": (250, 214, 44),
    "green": (34, 150, 66),
    "blue": (34, 84, 206),
    "purple": (126, 52, 168),
    "pink": (246, 138, 180),
    "brown": (116, 70, 38),
    "white": (246, 246, 242),
    "black": (30, 30, 34),
}
"""Colour name → RGB, 0–255."""

SUPERSAMPLING = 3
"""Canvas pixels per pixel, each way."""
_TEXTURE_PERIOD = 5.6
"""Pixels of the finished image from one stripe to the next."""


def render_scene(scene: Scene, rng: np.random.Generator, settings: Difficulty) -> Image.Image:
    """Draw a scene in RGB; `rng` is the source of the background's details, the colour
    jitter and the noise."""
    size = (scene.width * SUPERSAMPLING, scene.height * SUPERSAMPLING)
    canvas = backdrop(scene.ground, scene.sky, size, rng)
    for thing in scene.things:
        jitter = rng.normal(0.0, 255 * settings.colour_jitter, size=3)
        colour = np.add(PALETTE[thing.colour], jitter)
        draw_thing(canvas, thing, scene.radius(thing), colour, partner_colour(colour), rng)
    return Image.fromarray(finish(canvas, rng, settings.noise))


def partner_colour(colour: np.ndarray) -> np.ndarray:
    """Second colour of a texture: a lighter shade of a dark colour, a darker shade of a light colour.

    The name of the colour stays true of the whole object.
    """
    light = colour @ (0.299, 0.587, 0.114) > 150
    return colour * 0.58 if light else colour + (255.0 - colour) * 0.62


def draw_thing(
    canvas: Image.Image,
    thing: Thing,
    radius: float,
    colour: np.ndarray,
    partner: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Draw an object and its shadow into the canvas.

    Parameters
    ----------
    canvas
        RGB image, `SUPERSAMPLING` times the size of the finished one.
    thing
        Shape, texture, place and angle are read from it.
    radius
        Pixels of the finished image.
    colour, partner
        RGB, 0–255; the partner is the texture's second colour.
    rng
        Source of the texture's phase.
    """
    scale = radius * SUPERSAMPLING
    half = int(np.ceil(1.3 * scale))
    centre_x, centre_y = thing.x * canvas.width, thing.y * canvas.height
    left, top = int(centre_x) - half, int(centre_y) - half
    offset = (centre_x - left, centre_y - top)
    whole, inside = _masks(thing.shape, scale, thing.angle, offset, 2 * half)

    shadow = whole.point([int(0.35 * level) for level in range(256)])
    canvas.paste((12, 12, 20), (left + SUPERSAMPLING, top + 2 * SUPERSAMPLING), shadow)
    outline = np.clip(0.45 * colour, 0, 255).astype(int)
    canvas.paste(tuple(outline.tolist()), (left, top), whole)
    pixels = _surface(thing.texture, colour, partner, 2 * half, thing.angle, rng)
    canvas.paste(Image.fromarray(pixels), (left, top), inside)


def finish(canvas: Image.Image, rng: np.random.Generator, noise: float) -> np.ndarray:
    """Average the canvas down to the finished size and add pixel noise."""
    pixels = np.asarray(canvas.reduce(SUPERSAMPLING), dtype=np.float32)
    grain = rng.standard_normal(pixels.shape, dtype=np.float32)
    return np.clip(pixels + 255.0 * noise * grain + 0.5, 0, 255).astype(np.uint8)


def _masks(
    shape: str, scale: float, angle: float, offset: tuple[float, float], side: int
) -> tuple[Image.Image, Image.Image]:
    """Mask of the whole shape, and mask of the area inside its outline."""
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    whole = Image.new("L", (side, side), 0)
    draw = ImageDraw.Draw(whole)
    rings = []
    for outlines, level in ((OUTLINES, 255), (HOLES, 0)):
        if shape in outlines:
            points = (outlines[shape] @ turn * scale + offset).ravel().tolist()
            draw.polygon(points, fill=level)
            rings.append(points)
    inside = whole.copy()
    draw = ImageDraw.Draw(inside)
    for points in rings:
        draw.line(points + points[:4], fill=0, width=SUPERSAMPLING, joint=None)
    return whole, inside


def _surface(
    texture: str, colour: np.ndarray, partner: np.ndarray, side: int, angle: float, rng: np.random.Generator
) -> np.ndarray:
    """Pixels `(side, side, 3)` of a textured surface, lit from above."""
    light = np.linspace(1.12, 0.86, side)[:, None, None]
    marked = _pattern(texture, side, angle, rng)[:, :, None]
    return np.clip(light * np.where(marked, partner, colour), 0, 255).astype(np.uint8)


def _pattern(texture: str, side: int, angle: float, rng: np.random.Generator) -> np.ndarray:
    """Where the texture shows its second colour: `(side, side)` bool."""
    if texture == "plain":
        return np.zeros((side, side), bool)
    period = _TEXTURE_PERIOD * SUPERSAMPLING
    lean = angle + (0.5 if texture == "striped" else 0.0)
    steps = np.arange(side) / period
    phase = rng.uniform(0, 1, size=2)
    u = np.cos(lean) * steps[None, :] + np.sin(lean) * steps[:, None] + phase[0]
    if texture == "striped":
        return u % 1.0 < 0.5
    v = -np.sin(lean) * steps[None, :] + np.cos(lean) * steps[:, None] + phase[1]
    if texture == "checked":
        return (u % 1.0 < 0.5) ^ (v % 1.0 < 0.5)
    return (u % 1.0 - 0.5) ** 2 + (v % 1.0 - 0.5) ** 2 < 0.09


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
    "clear": (
        (84, 156, 232),
        (186, 220, 246),
        (1.0, 1.0, 1.0),
        partial(_clouds, colour=(238, 246, 252), least=0, most=2),
    ),
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


# Outlines of objects, around the origin with a radius of about one.
_TURN = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)


def _radial(radius: np.ndarray | float, turn: np.ndarray = _TURN) -> np.ndarray:
    """Points `(n, 2)` at a distance from the centre, clockwise from the top."""
    return np.stack([radius * np.sin(turn), -radius * np.cos(turn)], axis=1)


def _regular(corners: int, *radii: float) -> np.ndarray:
    """Regular polygon; with two radii, a star with outer and inner corners."""
    count = corners * len(radii)
    return _radial(np.resize(radii, count), np.arange(count) * 2.0 * np.pi / count)


def _heart() -> np.ndarray:
    x = 16 * np.sin(_TURN) ** 3
    y = 13 * np.cos(_TURN) - 5 * np.cos(2 * _TURN) - 2 * np.cos(3 * _TURN) - np.cos(4 * _TURN)
    return np.stack([x, -y - 2.0], axis=1) / 16.0


def _moon() -> np.ndarray:
    """Outer arc of one circle, then back along the arc of a smaller circle beside it."""
    outer = np.linspace(np.radians(40), np.radians(320), 30)
    inner = np.linspace(np.radians(305), np.radians(55), 24)
    body = np.stack([np.cos(outer), np.sin(outer)], axis=1)
    bite = np.stack([0.38 + 0.68 * np.cos(inner), 0.78 * np.sin(inner)], axis=1)
    return np.add(np.concatenate([body, bite]), (0.1, 0.0))


_ARM = 0.36
_CROSS = np.array(
    [
        *((-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM)),
        *((_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM)),
    ]
)

OUTLINES: dict[str, np.ndarray] = {
    "circle": _radial(0.95),
    "ring": _radial(1.0),
    "square": np.array([(-0.84, -0.84), (0.84, -0.84), (0.84, 0.84), (-0.84, 0.84)]),
    "triangle": np.array([(0.0, -1.0), (1.0, 0.85), (-1.0, 0.85)]),
    "star": _regular(5, 1.12, 0.48),
    "heart": _heart(),
    "cross": _CROSS,
    "diamond": np.array([(0.0, -1.12), (0.78, 0.0), (0.0, 1.12), (-0.78, 0.0)]),
    "moon": _moon(),
    "flower": _radial(0.78 + 0.26 * np.cos(5 * _TURN)),
    # Seen only by encoders, in `pretrain`.
    "ellipse": _radial(0.95) * (1.1, 0.65),
    "half_disc": np.concatenate([_radial(1.0)[10:31], _radial(1.0)[10:11]]) - (0.0, 0.4),
    "pentagon": _regular(5, 1.0),
    "bar": np.array([(-1.05, -0.45), (1.05, -0.45), (1.05, 0.45), (-1.05, 0.45)]),
    "spark": _regular(4, 1.15, 0.42),
    "burst": _regular(8, 1.05, 0.6),
}
"""Shape → corners `(n, 2)`, x to the right and y down."""

HOLES: dict[str, np.ndarray] = {"ring": _radial(0.5)}
"""Shape → outline of the hole in it."""
