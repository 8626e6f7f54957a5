"""Outlines of the objects that scenes are made of, around the origin with a radius of about one."""

from __future__ import annotations

import numpy as np

_TURN = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)


def _radial(radius: np.ndarray | float, turn: np.ndarray = _TURN) -> np.ndarray:
    """Points `(n, 2)` at a distance from the centre, clockwise from the top."""
    return np.stack([radius * np.sin(turn), -radius * np.cos(turn)], axis=1)


def _regular(corners: int, radius: float, inner: float | None = None) -> np.ndarray:
    """Regular polygon, or a star when the inner corners have a radius of their own."""
    count = corners * (1 if inner is None else 2)
    turn = np.arange(count) * 2.0 * np.pi / count
    radii = np.full(count, radius)
    if inner is not None:
        radii[1::2] = inner
    return _radial(radii, turn)


def _heart() -> np.ndarray:
    x = 16 * np.sin(_TURN) ** 3
    y = 13 * np.cos(_TURN) - 5 * np.cos(2 * _TURN) - 2 * np.cos(3 * _TURN) - np.cos(4 * _TURN)
    return np.stack([x, -y - 2.0], axis=1) / 16.0


def _moon() -> np.ndarray:
    """Outer arc of one circle, then back along the arc of a smaller one beside it."""
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
    "hexagon": _regular(6, 1.0),
    "bar": np.array([(-1.05, -0.45), (1.05, -0.45), (1.05, 0.45), (-1.05, 0.45)]),
    "spark": _regular(4, 1.15, 0.42),
    "burst": _regular(8, 1.05, 0.6),
}
"""Shape → corners `(n, 2)`, x to the right and y down."""

HOLES: dict[str, np.ndarray] = {"ring": _radial(0.5)}
"""Shape → outline of the hole in it."""
