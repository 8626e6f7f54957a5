"""Draw a scene: objects with shading, texture, outline and shadow on a background, antialiased."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from vsepp.base.spec import Difficulty
from vsepp.scenes.backdrops import backdrop
from vsepp.scenes.world import Scene, Thing

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
    """Draw a scene in RGB; `rng` is the source of the background's details, the colour jitter and the noise."""
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
    # Seen only in pretraining.
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
