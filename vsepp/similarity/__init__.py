"""Similarities of image and caption embeddings: one module each, with a function `scores`.

`scores(image_embeddings, caption_embeddings, *, form)` gives `scores[image, caption]`, larger is better.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from vsepp import components
from vsepp.spec import Component


def scorer(component: Component) -> Callable[[Any, Any], Any]:
    """Function of images `(n, d)` and captions `(m, d)` to `scores[image, caption]`, differentiable."""
    options = components.options("similarity", component)
    score = components.load("similarity", component.name).score
    return partial(score, **vars(options))
