"""Similarities of image and caption embeddings: one module each, found by its name (`vsepp.components`).

A similarity is a function of embeddings, whose last dimension is that of the joint space, larger is better:

    score(images, captions, options) -> s(image, caption)

It broadcasts over the other dimensions, and is written in operations that NumPy and torch share (`namespace`), for it
serves training, ranking on a CPU and ranking on a GPU. It sums over the last dimension alone, and not by a matrix
product: equal pairs must score equal, wherever in an array they lie. `options` is the module's `Options`, a frozen
dataclass whose defaults are the paper's. Beside `score` and `Options` a module may define

- `CITATION`: where the similarity comes from;
- `matrix(images, captions, options)`: `scores[image, caption]` of tensors `(n, d)` and `(m, d)`, where there is a faster
  way in training than to broadcast `score`;
- `INNER_PRODUCT = True`, where `score` is f·g: it is then ranked by exact sums.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from vsepp import components
from vsepp.spec import Component

# Largest temporary where there is no faster way, in elements.
_ELEMENTS = 1 << 22


def namespace(array: Any) -> ModuleType:
    """The module whose functions take an array or a device: `numpy`, or `torch`, which is not imported for it."""
    return np if isinstance(array, np.ndarray) else sys.modules["torch"]


def scorer(similarity: Component) -> Callable[[Any, Any], Any]:
    """The function that scores all pairs under a similarity.

    It takes image embeddings `(n, d)` and caption embeddings `(m, d)`, NumPy arrays or tensors, and gives
    `scores[image, caption]` `(n, m)`, for tensors with a gradient.

    Raises
    ------
    VseppError
        On an unknown similarity or option.
    """
    options = components.options("similarity", similarity)
    module = components.load("similarity", similarity.name)
    return partial(_all_pairs, module, options)


def _all_pairs(module: ModuleType, options: Any, images: Any, captions: Any) -> Any:
    if hasattr(module, "matrix") and not isinstance(images, np.ndarray):
        return module.matrix(images, captions, options)
    height = max(1, _ELEMENTS // max(1, len(captions) * captions.shape[-1]))
    parts = [images[top : top + height, None] for top in range(0, len(images), height)]
    return namespace(images).concat([module.score(part, captions, options) for part in parts])
