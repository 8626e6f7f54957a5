"""Ranks by counting: how many wrong items score above the right one, plus half of those tied with it.

Scores are `scores[image, caption]`, always that way round, and are made and counted a tile at a time, so no
`(n_images, n_captions)` array is ever held. Nothing is sorted: a rank is a count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vsepp.errors import VseppError
from vsepp.evaluation.counting import count_tiles
from vsepp.evaluation.tiles import Tiles, score_tiles, similarity_tiles


@dataclass(frozen=True, eq=False)
class Ranks:
    """Rank of the right item for each query, 0 is best; halves come from ties."""

    image_to_text: np.ndarray
    """Caption retrieval: `(n_images,)` float64, rank of the image's best caption among others' captions."""
    text_to_image: np.ndarray
    """Image retrieval: `(n_captions,)` float64, rank of the caption's image among the other images."""


def retrieval_ranks(
    image_embeddings: np.ndarray,
    caption_embeddings: np.ndarray,
    caption_to_image: np.ndarray,
    similarity: str,
) -> Ranks:
    """Rank every image against every caption, both ways, in one pass over the tiles of the scores.

    An item's rank is the number of wrong items scored above it plus half of the wrong ones tied with it, so a
    collapsed model ranks at chance and not at the top. Of an image's own captions the best-scoring one
    counts, and the others are not wrong items.

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
        `dot`, or `order`: −‖max(0, g−f)‖² of image f and caption g. The released code's square root of it
        ranks the same.

    Raises
    ------
    VseppError
        On shapes that do not fit, an embedding that is not finite, a caption of no image, an image without
        captions, and an unknown similarity.
    """
    images, captions, owner = checked_problem(image_embeddings, caption_embeddings, caption_to_image)
    order = _by_image(owner)
    return _count(similarity_tiles(images, captions, order, similarity), owner, order)


def ranks_from_scores(scores: np.ndarray, caption_to_image: np.ndarray) -> Ranks:
    """Ranks from a whole matrix of scores, by the same counting as `retrieval_ranks`.

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
    order = _by_image(owner)
    grouped = scores if order is None else scores[:, order]
    return _count(score_tiles(grouped), owner, order)


def checked_problem(
    image_embeddings: np.ndarray, caption_embeddings: np.ndarray, caption_to_image: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Embeddings of one joint space as float32, and the image row of each caption as int64."""
    images = checked_embeddings(image_embeddings, "image_embeddings")
    captions = checked_embeddings(caption_embeddings, "caption_embeddings")
    checked_joint_space(images, captions)
    return images, captions, checked_captions(caption_to_image, len(captions), len(images))


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


def _by_image(owner: np.ndarray) -> np.ndarray | None:
    """Order that brings captions into their images' order; `None` where they lie in it already."""
    return None if (owner[1:] >= owner[:-1]).all() else np.argsort(owner, kind="stable")


def _count(tiles: Tiles, owner: np.ndarray, order: np.ndarray | None) -> Ranks:
    """Ranks from tiles whose captions are in their images' order; returned in the order of `owner`."""
    per_image, per_caption = count_tiles(tiles, owner if order is None else owner[order])
    if order is not None:
        unordered = np.empty_like(per_caption)
        unordered[order] = per_caption
        per_caption = unordered
    return Ranks(image_to_text=per_image / 2, text_to_image=per_caption / 2)
