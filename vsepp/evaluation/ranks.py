"""Ranks by counting: the number of wrong items that score above the correct one, plus half of those tied with it.

Scores are `scores[image, caption]`, always that way round. They are computed and counted part by part, so that no
`(n_images, n_captions)` array is ever in memory. Nothing is sorted: a rank is a count.
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
    """Rank of the correct item for each query, 0 is best; halves come from ties."""

    i2t: np.ndarray
    """Caption retrieval: `(n_images,)` float64, rank of the image's best caption among others' captions."""
    t2i: np.ndarray
    """Image retrieval: `(n_captions,)` float64, rank of the caption's image among the other images."""
    i2t_captions: np.ndarray | None = None
    """Caption retrieval: `(n_captions,)` float64, rank of each caption for its image among others' captions; of records that
    were kept before this was written, `None`."""


def retrieval_ranks(embeddings: Embeddings, device: Any = None) -> Ranks:
    """Rank every image against every caption, both ways, in one pass over the scores.

    An item's rank is the number of wrong items scored above it plus half of the wrong ones tied with it, so a
    collapsed model ranks at chance, not at the top. Of an image's own captions the best-scoring one
    counts; the others are not wrong items.

    Inner products are exact, so their ranks are the same everywhere. Under another similarity a device may differ from NumPy
    in the last digit, and wrong items closer than that to the correct one may change sides.

    Differs from the released code, where an unstable sort decides ties.

    Parameters
    ----------
    embeddings
        Of all images and captions.
    device
        A torch device with float64; `None`: NumPy, on all threads.
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
    i2t_captions, t2i = (twice / 2 for twice in counter.count(counter.own()))
    best = np.full(counter.owner.max() + 1, np.inf)
    np.minimum.at(best, counter.owner, i2t_captions)
    return Ranks(best, t2i, i2t_captions)
