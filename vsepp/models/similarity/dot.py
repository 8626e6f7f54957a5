"""Inner product (Eq. 3): the cosine if both sides are normalised, otherwise a dot product (VSE0)."""

from __future__ import annotations

from typing import Any

from vsepp.models.similarity.common import namespace

CITATION = "Faghri et al., VSE++: Improving Visual-Semantic Embeddings with Hard Negatives, BMVC 2018, Eq. 3"
INNER_PRODUCT = True


def score(images: Any, captions: Any, options: Any = None) -> Any:
    """s(i, c) = f(i)·g(c) (Eq. 3), over the last dimension of `(..., d)`."""
    return namespace(images).linalg.vecdot(images, captions)


def matrix(images: Any, captions: Any, options: Any = None) -> Any:
    """`scores[image, caption]` `(n, m)` of embeddings `(n, d)` and `(m, d)`."""
    return images @ captions.T
