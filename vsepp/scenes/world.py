"""Scenes: objects with attributes on a background, before anything is drawn or described; and the words
for what is in them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from vsepp.base.spec import Difficulty

# Name → what people call it; the first is the usual word.
SHAPES = {
    "circle": ("circle", "ball", "disc"),
    "square": ("square", "box", "block"),
    "triangle": ("triangle", "pyramid", "wedge"),
    "star": ("star", "five-pointed star"),
    "heart": ("heart", "heart shape"),
    "ring": ("ring", "hoop", "donut"),
    "cross": ("cross", "plus sign"),
    "diamond": ("diamond", "rhombus", "kite"),
    "moon": ("moon", "crescent", "crescent moon"),
    "flower": ("flower", "blossom", "daisy"),
}
COLOURS = {
    "red": ("red", "crimson", "scarlet"),
    "orange": ("orange", "tangerine"),
    "yellow": ("yellow", "golden", "lemon"),
    "green": ("green", "emerald"),
    "blue": ("blue", "azure", "royal blue"),
    "purple": ("purple", "violet"),
    "pink": ("pink", "rose"),
    "brown": ("brown", "chestnut", "chocolate"),
    "white": ("white", "ivory"),
    "black": ("black", "jet black"),
}
TEXTURES = {
    "plain": (),
    "striped": ("striped", "stripy"),
    "dotted": ("spotted", "dotted", "polka dot"),
    "checked": ("checked", "checkered", "chequered"),
}
TEXTURES_BEHIND = {
    "plain": (),
    "striped": ("with stripes", "with lines on it"),
    "dotted": ("with dots", "with spots", "covered in dots"),
    "checked": ("with a checkerboard pattern", "with checks"),
}
"""Said behind the noun."""
GROUNDS = {
    "grass": ("on the grass", "on a meadow", "in a green field"),
    "sand": ("on the sand", "on a beach", "in the desert"),
    "snow": ("in the snow", "on a snowy field", "in a winter landscape"),
    "water": ("on the water", "at sea", "over a lake"),
    "wheat": ("in a wheat field", "in the corn", "on a golden field"),
    "stone": ("by a stone wall", "in front of a stone wall", "against grey stones"),
    "planks": ("on wooden planks", "on a wooden deck", "on a jetty"),
}
SKIES = {
    "clear": ("under a blue sky", "on a sunny day", "by day"),
    "cloudy": ("under a cloudy sky", "on a grey day", "under clouds"),
    "sunset": ("at sunset", "in the evening", "with the sun going down"),
    "night": ("at night", "under the stars", "in the dark"),
    "storm": ("in a thunderstorm", "in a storm", "with lightning in the sky"),
}
SIZES = {"small": 0.15, "medium": 0.21, "large": 0.29}
"""Name → radius, as a fraction of the image's shorter side."""
ATTRIBUTES = ("shape", "colour", "texture", "size", "position", "ground", "sky")

_THING_CHOICES = {
    "shape": tuple(SHAPES),
    "colour": tuple(COLOURS),
    "texture": tuple(TEXTURES),
    "size": tuple(SIZES),
}
_BACKGROUND_CHOICES = {"ground": tuple(GROUNDS), "sky": tuple(SKIES)}
_PLACES_TRIED = 25


@dataclass(frozen=True)
class Thing:
    """An object in a scene."""

    shape: str
    colour: str
    texture: str
    size: str
    x: float
    """Centre, as a fraction of the width."""
    y: float
    """Centre, as a fraction of the height, from the top."""
    angle: float
    """Radians."""


@dataclass(frozen=True)
class Scene:
    """Objects between a ground and a sky; later objects lie in front of earlier ones."""

    width: int
    height: int
    ground: str
    sky: str
    things: tuple[Thing, ...]

    def radius(self, thing: Thing) -> float:
        """Radius of an object of this scene, pixels."""
        return SIZES[thing.size] * min(self.width, self.height)

    def gap(self, thing: Thing, other: Thing) -> float:
        """Distance between two objects as a fraction of their summed radii; below 1 they cover each other."""
        distance = np.hypot((thing.x - other.x) * self.width, (thing.y - other.y) * self.height)
        return float(distance / (self.radius(thing) + self.radius(other)))


def sample_split(rng: np.random.Generator, count: int, side: int, settings: Difficulty) -> list[Scene]:
    """Draw the scenes of one split.

    Some are near-duplicates: an earlier scene of the same split with one attribute changed. They are the hard
    negatives of the corpus; no scene repeats a scene of another split.

    Parameters
    ----------
    rng
        Source of all choices.
    count
        Scenes wanted.
    side
        Longer side of an image, pixels.
    settings
        Difficulty.
    """
    scenes: list[Scene] = []
    for _ in range(count):
        if scenes and rng.random() < settings.near_duplicate:
            scenes.append(alter(rng, scenes[rng.integers(len(scenes))], settings))
        else:
            scenes.append(sample_scene(rng, side, settings))
    return scenes


def sample_scene(rng: np.random.Generator, side: int, settings: Difficulty) -> Scene:
    """Draw one scene, its longer side `side` pixels."""
    short = round(side * rng.uniform(settings.shortest_side, 1.0))
    # Most photographs are wider than high.
    width, height = (side, short) if rng.random() < 0.75 else (short, side)
    scene = Scene(width, height, **_random_values(rng, _BACKGROUND_CHOICES), things=())
    for _ in range(rng.integers(int(settings.objects_min), int(settings.objects_max), endpoint=True)):
        thing = Thing(**_random_values(rng, _THING_CHOICES), x=0.5, y=0.5, angle=float(rng.normal(0.0, 0.15)))
        placed = place(rng, scene, thing, settings)
        scene = dataclasses.replace(scene, things=(*scene.things, placed))
    return scene


def _random_values(rng: np.random.Generator, choices: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {attribute: str(rng.choice(values)) for attribute, values in choices.items()}


def place(rng: np.random.Generator, scene: Scene, thing: Thing, settings: Difficulty) -> Thing:
    """Move an object to a place inside the image where it hardly covers other objects of the scene.

    In a crowded scene, the best of the places tried is used.
    """
    margin_x = scene.radius(thing) / scene.width
    margin_y = scene.radius(thing) / scene.height
    best, best_gap = thing, -1.0
    for _ in range(_PLACES_TRIED):
        x, y = rng.uniform(margin_x, 1 - margin_x), rng.uniform(margin_y, 1 - margin_y)
        candidate = dataclasses.replace(thing, x=float(x), y=float(y))
        gap = min((scene.gap(candidate, other) for other in scene.things), default=np.inf)
        if gap > best_gap:
            best, best_gap = candidate, gap
        if gap >= 1 - settings.overlap:
            break
    return best


def alter(rng: np.random.Generator, scene: Scene, settings: Difficulty) -> Scene:
    """Copy a scene with exactly one attribute changed: of one object, the ground or the sky."""
    attribute = str(rng.choice(ATTRIBUTES))
    if attribute in _BACKGROUND_CHOICES:
        return _altered(rng, scene, attribute, _BACKGROUND_CHOICES[attribute])
    index = int(rng.integers(len(scene.things)))
    before, thing, behind = scene.things[:index], scene.things[index], scene.things[index + 1 :]
    if attribute == "position":
        changed = place(rng, dataclasses.replace(scene, things=before + behind), thing, settings)
    else:
        changed = _altered(rng, thing, attribute, _THING_CHOICES[attribute])
    return dataclasses.replace(scene, things=(*before, changed, *behind))


def _altered(rng: np.random.Generator, whole: Any, attribute: str, values: tuple[str, ...]) -> Any:
    """A copy of a scene or an object with another value of an attribute."""
    others = [value for value in values if value != getattr(whole, attribute)]
    return dataclasses.replace(whole, **{attribute: str(rng.choice(others))})
