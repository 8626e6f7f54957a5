"""What a similarity is, and a similarity with its options.

It is a function of embeddings; their last dimension is the joint space, and a larger value means more similar:

    score(images, captions, options) -> s(image, caption)

It broadcasts over the other dimensions and uses operations that NumPy and torch share (`namespace`), since it serves
training and ranking on a CPU or GPU. It sums over the last dimension, but not by a matrix product: equal pairs must have
equal scores, wherever in an array they are. `options` is the module's `Options`, a frozen dataclass with the paper's
defaults. Besides `score` and `Options` a module may define

- `CITATION`: the source of the similarity;
- `matrix(images, captions, options)`: `scores[image, caption]` of tensors `(n, d)` and `(m, d)`, if there is a faster way
  in training than broadcasting `score`;
- `INNER_PRODUCT = True`, if `score` is f·g: it is then ranked by exact sums.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from vsepp.base import components
from vsepp.base.spec import Component

# Largest temporary, in elements, if there is no faster way.
_ELEMENTS = 1 << 22


def namespace(array: Any) -> ModuleType:
    """The module with the functions for an array or tensor: `numpy`, or `torch`, which is not imported by this."""
    return np if isinstance(array, np.ndarray) else sys.modules["torch"]


class Similarity:
    """A similarity with its options.

    Raises
    ------
    VseppError
        On an unknown similarity or option.
    """

    def __init__(self, component: Component) -> None:
        self._options = components.options("similarity", component)
        self._module = components.load("similarity", component.name)
        self.is_product: bool = getattr(self._module, "INNER_PRODUCT", False)
        """Whether it is the inner product."""

    def score(self, images: Any, captions: Any) -> Any:
        """s(i, c) over the last dimension of `(..., d)`."""
        return self._module.score(images, captions, self._options)

    def matrix(self, images: Any, captions: Any) -> Any:
        """`scores[image, caption]` `(n, m)` of embeddings `(n, d)` and `(m, d)`, NumPy arrays or tensors; of tensors with a gradient."""
        if hasattr(self._module, "matrix") and not isinstance(images, np.ndarray):
            return self._module.matrix(images, captions, self._options)
        height = max(1, _ELEMENTS // max(1, len(captions) * captions.shape[-1]))
        parts = [images[top : top + height, None] for top in range(0, len(images), height)]
        return namespace(images).concat([self.score(part, captions) for part in parts])
