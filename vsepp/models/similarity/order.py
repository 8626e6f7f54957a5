"""Order similarity (Section 3.7): minus the amount by which a caption violates the order, that is, exceeds its image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vsepp.models.similarity.common import namespace

CITATION = "Vendrov et al., Order-Embeddings of Images and Language, ICLR 2016"


@dataclass(frozen=True)
class Options:
    """Options of the order similarity."""

    form: Literal["squared", "root"] = "squared"
    """Of the vector by which a caption exceeds its image the length, or its square. Text: the squared length.
    Code: the length itself."""


def score(images: Any, captions: Any, options: Options) -> Any:
    """s(i, c) = −‖max(0, g(c) − f(i))‖², or its root −‖max(0, g(c) − f(i))‖, over the last dimension of `(..., d)`."""
    xp = namespace(images)
    # max(g, f) − f has the bits of max(0, g − f).
    excess = xp.maximum(captions, images) - images
    squared = xp.linalg.vecdot(excess, excess)
    if options.form == "squared":
        return -squared
    # In double precision, where roots of different squares differ, so that `root` and `squared` give the same ranks and ties.
    return -xp.sqrt(squared.astype("float64") if xp is np else squared.double())


def matrix(images: Any, captions: Any, options: Options) -> Any:
    """`scores[image, caption]` `(n, m)` of tensors `(n, d)` and `(m, d)`, none above 0.

    No temporary of n×m×d elements is made. The root's gradient is infinite at 0 and is set to 0 there.
    """
    from vsepp.models.similarity.order_violation import OrderViolation

    xp = namespace(images)
    squared = OrderViolation.apply(images, captions)
    if options.form == "squared":
        return -squared
    violated = squared > 0
    # The inner `where` keeps the infinite gradient out of the backward pass: 0 × inf would be NaN.
    return -xp.where(violated, xp.where(violated, squared, 1.0).sqrt(), 0.0)
