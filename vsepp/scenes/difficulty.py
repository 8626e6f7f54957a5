"""The numbers that decide how hard generated scenes are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from vsepp.errors import VseppError


def _between(low: float, high: float, unit: str = "probability", *, whole: bool = False) -> float:
    """Declare a required field with its range; the dataclass has no defaults, `params/` holds the values."""
    return field(metadata={"low": low, "high": high, "unit": unit, "whole": whole})


@dataclass(frozen=True)
class Difficulty:
    """Difficulty of generated scenes; all numbers are required."""

    objects_min: float = _between(1, 6, "objects", whole=True)
    """Fewest objects in a scene."""
    objects_max: float = _between(1, 6, "objects", whole=True)
    """Most objects in a scene."""
    near_duplicate: float = _between(0, 1)
    """A scene is a copy of an earlier one of its split with one attribute changed."""
    overlap: float = _between(0, 1, "fraction of the radii")
    """How far two objects may cover each other."""
    shortest_side: float = _between(0.5, 1, "fraction of the side")
    """Shortest side an image can have."""
    colour_jitter: float = _between(0, 0.5, "0–1 scale")
    """Deviation of an object's colour around its name's."""
    noise: float = _between(0, 0.5, "0–1 scale")
    """Deviation of the pixel noise."""
    jpeg_quality: float = _between(30, 100, "JPEG quality", whole=True)
    """Quality that images are written with."""
    omit_object: float = _between(0, 1)
    """A caption leaves an object out (never all of them)."""
    omit_attribute: float = _between(0, 1)
    """A mention leaves out a colour, a size or a texture."""
    omit_background: float = _between(0, 1)
    """A caption leaves out the ground, or the sky."""
    vague: float = _between(0, 1)
    """A mention says `thing` or similar instead of the shape."""
    synonym: float = _between(0, 1)
    """A word is replaced by a synonym."""
    relation: float = _between(0, 1)
    """A caption of several objects says how two of them are placed."""
    extra_captions: float = _between(0, 1)
    """A COCO image has six or seven captions, not five."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, float]) -> Difficulty:
        """Check names and ranges and build the settings.

        Raises
        ------
        VseppError
            Naming every unknown, missing or impossible setting at once.
        """
        known = {each.name: each.metadata for each in fields(cls)}
        mistakes = [f"{name}: unknown; known are {sorted(known)}" for name in sorted(values.keys() - known)]
        for name, limits in known.items():
            if not _allowed(found := values.get(name, "nothing"), limits):
                number = "a whole number" if limits["whole"] else "a number"
                span = f"from {limits['low']} to {limits['high']} ({limits['unit']})"
                mistakes.append(f"{name}: expected {number} {span}, got {found!r}")
        if not mistakes and values["objects_min"] > values["objects_max"]:
            most = values["objects_max"]
            mistakes.append(
                f"objects_min: expected at most objects_max = {most}, got {values['objects_min']}"
            )
        if mistakes:
            raise VseppError("scenes.settings: correct these in the preset:\n  " + "\n  ".join(mistakes))
        return cls(**values)


def _allowed(value: object, limits: Mapping[str, Any]) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return limits["low"] <= value <= limits["high"] and (not limits["whole"] or value == int(value))
