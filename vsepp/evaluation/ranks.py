"""Ranks by counting: how many wrong items score above the right one, plus half of those tied with it.

Scores are `scores[image, caption]`, always that way round, and are made and counted a part at a time, so no
`(n_images, n_captions)` array is ever held. Nothing is sorted: a rank is a count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vsepp import components
from vsepp.evaluation.blocks import BlockCounter
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.products import ProductCounter


@dataclass(frozen=True, eq=False)
class Ranks:
    """Rank of the right item for each query, 0 is best; halves come from ties."""

    i2t: np.ndarray
    """Caption retrieval: `(n_images,)` float64, rank of the image's best caption among others' captions."""
    t2i: np.ndarray
    """Image retrieval: `(n_captions,)` float64, rank of the caption's image among the other images."""


def retrieval_ranks(embeddings: Embeddings, device: Any = None) -> Ranks:
    """Rank every image against every caption, both ways, in one pass over the scores.

    An item's rank is the number of wrong items scored above it plus half of the wrong ones tied with it, so a
    collapsed model ranks at chance and not at the top. Of an image's own captions the best-scoring one
    counts, and the others are not wrong items.

    Inner products are exact, so their ranks are the same everywhere. Under another similarity a device may round to
    another last digit than NumPy: wrong items nearer than that to the right one may then fall on its other side.

    Differs from the released code: there ties fall as an unstable sort leaves them.

    Parameters
    ----------
    embeddings
        Of all images and captions.
    device
        A torch device that has float64, to rank there; `None` ranks with NumPy, on all threads.
    """
    images, captions = embeddings.image_embeddings, embeddings.caption_embeddings
    module = components.load("similarity", embeddings.similarity.name)
    score = None
    if not getattr(module, "INNER_PRODUCT", False):
        score = partial(module.score, options=components.options("similarity", embeddings.similarity))
    elif device is None:
        return ranks_by(ProductCounter(images, captions, embeddings.caption_to_image))
    return ranks_by(BlockCounter(images, captions, embeddings.caption_to_image, score, device))


def ranks_by(counter: ProductCounter | BlockCounter) -> Ranks:
    """Ranks of all queries of a counter."""
    own = counter.own()
    i2t, t2i = counter.count(_best(own, counter.owner), own)
    return Ranks(i2t / 2, t2i / 2)


def _best(own: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Score of each image with its best caption `(n_images,)`, from that of each caption with its image."""
    best = np.full(owner.max() + 1, -np.inf, np.result_type(own, np.float32))
    np.maximum.at(best, owner, own)
    return best
