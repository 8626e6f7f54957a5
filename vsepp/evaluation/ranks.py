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
from vsepp.errors import VseppError
from vsepp.evaluation.blocks import BlockCounter, tally
from vsepp.evaluation.counting import ProductCounter
from vsepp.evaluation.products import Products
from vsepp.spec import Component


@dataclass(frozen=True, eq=False)
class Ranks:
    """Rank of the right item for each query, 0 is best; halves come from ties."""

    i2t: np.ndarray
    """Caption retrieval: `(n_images,)` float64, rank of the image's best caption among others' captions."""
    t2i: np.ndarray
    """Image retrieval: `(n_captions,)` float64, rank of the caption's image among the other images."""


def retrieval_ranks(
    image_embeddings: np.ndarray,
    caption_embeddings: np.ndarray,
    caption_to_image: np.ndarray,
    similarity: Component,
    device: Any = None,
) -> Ranks:
    """Rank every image against every caption, both ways, in one pass over the scores.

    An item's rank is the number of wrong items scored above it plus half of the wrong ones tied with it, so a
    collapsed model ranks at chance and not at the top. Of an image's own captions the best-scoring one
    counts, and the others are not wrong items.

    Inner products are exact, so their ranks are the same everywhere. Under another similarity a device may round to
    another last digit than NumPy: wrong items nearer than that to the right one may then fall on its other side.

    Differs from the released code: there ties fall as an unstable sort leaves them.

    Parameters
    ----------
    image_embeddings
        `(n_images, d)`, taken as float32.
    caption_embeddings
        `(n_captions, d)`, taken as float32.
    caption_to_image
        `(n_captions,)` integers: the row of each caption's image, in any order.
    similarity
        A module of `vsepp.similarity`, with its options.
    device
        A torch device that has float64, to rank there; `None` ranks with NumPy, on all threads.

    Raises
    ------
    VseppError
        On shapes that do not fit, an embedding that is not finite, a caption of no image, an image without
        captions, and an unknown similarity or option.
    """
    options = components.options("similarity", similarity)
    module = components.load("similarity", similarity.name)
    images = checked_embeddings(image_embeddings, "image_embeddings")
    captions = checked_embeddings(caption_embeddings, "caption_embeddings")
    checked_joint_space(images, captions)
    owner = checked_captions(caption_to_image, len(captions), len(images))
    if not getattr(module, "INNER_PRODUCT", False):
        return ranks_by(BlockCounter(images, captions, owner, partial(module.score, options=options), device))
    if device is None:
        return ranks_by(ProductCounter(Products(images, captions), owner))
    return ranks_by(BlockCounter(images, captions, owner, None, device))


def ranks_by(counter: ProductCounter | BlockCounter) -> Ranks:
    """Ranks of all queries of a counter."""
    own = counter.own()
    i2t, t2i = counter.count(_best(own, counter.owner), own)
    return Ranks(i2t / 2, t2i / 2)


def ranks_from_scores(scores: np.ndarray, caption_to_image: np.ndarray) -> Ranks:
    """Ranks from a whole matrix of scores, by the definition of `retrieval_ranks`.

    Parameters
    ----------
    scores
        `(n_images, n_captions)`: `scores[image, caption]`, higher is more similar.
    caption_to_image
        `(n_captions,)` integers: the row of each caption's image, in any order.

    Raises
    ------
    VseppError
        On a matrix that is not two-dimensional or holds NaN, a caption of no image, and an image without
        captions.
    """
    scores = np.asarray(scores)
    if scores.ndim != 2 or 0 in scores.shape:
        raise VseppError(f"scores: expected (n_images, n_captions) with neither 0, got shape {scores.shape}")
    if np.isnan(scores).any():
        image, caption = np.argwhere(np.isnan(scores))[0]
        raise VseppError(f"scores[{image}, {caption}] is NaN: a score that is no number has no rank")
    owner = checked_captions(caption_to_image, scores.shape[1], scores.shape[0])
    own = scores[owner, np.arange(len(owner))]
    i2t, t2i = tally(scores, np.arange(len(scores)), owner, _best(own, owner), own)
    return Ranks(i2t / 2, t2i / 2)


def _best(own: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Score of each image with its best caption `(n_images,)`, from that of each caption with its image."""
    best = np.full(owner.max() + 1, -np.inf, np.result_type(own, np.float32))
    np.maximum.at(best, owner, own)
    return best


def checked_embeddings(embeddings: np.ndarray, what: str) -> np.ndarray:
    """Embeddings as a contiguous float32 array `(n, d)`, all finite; `what` names them in errors."""
    embeddings = np.asarray(embeddings)
    if embeddings.ndim != 2 or 0 in embeddings.shape:
        raise VseppError(
            f"{what}: expected shape (rows, dimensions) with neither 0, got {embeddings.shape}; "
            "encode at least one image and one caption"
        )
    if embeddings.dtype.kind != "f":
        raise VseppError(f"{what}: expected floating-point numbers, got dtype {embeddings.dtype}")
    with np.errstate(over="ignore"):
        embeddings = np.ascontiguousarray(embeddings, dtype=np.float32)
        squares = np.vecdot(embeddings, embeddings)
    # Norms so bounded on both sides keep every score within float32.
    usable = squares < np.finfo(np.float32).max / 4
    if not usable.all():
        row = int(np.argmin(usable))
        found = "NaN" if np.isnan(embeddings[row]).any() else "a value or norm beyond float32"
        raise VseppError(
            f"{what}: row {row} holds {found}: expected finite embeddings; "
            "look for a training that diverged or a division by a zero norm"
        )
    return embeddings


def checked_joint_space(images: np.ndarray, captions: np.ndarray) -> None:
    """Refuse embeddings of different dimensions."""
    if images.shape[1] != captions.shape[1]:
        raise VseppError(
            f"image_embeddings have {images.shape[1]} dimensions, caption_embeddings {captions.shape[1]}: "
            "expected one joint space; take both from one model"
        )


def checked_captions(caption_to_image: np.ndarray, n_captions: int, n_images: int) -> np.ndarray:
    """The image row of each caption as int64, every row in range and every image with a caption."""
    owner = np.asarray(caption_to_image)
    if owner.shape != (n_captions,) or owner.dtype.kind not in "iu":
        raise VseppError(
            f"caption_to_image: expected {n_captions} integers, one a caption, got shape {owner.shape} "
            f"of {owner.dtype}"
        )
    outside = np.flatnonzero((owner < 0) | (owner >= n_images))
    if outside.size:
        row = outside[0]
        raise VseppError(
            f"caption_to_image: row {row} is {owner[row]}, expected an image row from 0 to {n_images - 1} "
            f"({outside.size} rows are outside)"
        )
    owner = owner.astype(np.int64)
    missing = np.flatnonzero(np.bincount(owner, minlength=n_images) == 0)
    if missing.size:
        raise VseppError(
            f"image row {missing[0]} has no caption in caption_to_image ({missing.size} of {n_images} images "
            "have none): expected at least one each, since caption retrieval has no right answer otherwise; "
            "leave such images out"
        )
    return owner
