"""Ranks in pieces: counts of a range of the images, for galleries that one job would not rank in time. Counts of several ranges add up."""

from __future__ import annotations

import numpy as np

from vsepp.evaluation.blocks import EmbeddingScores, Vectors
from vsepp.evaluation.scores import Pairs, between, ranges
from vsepp.evaluation.truth import own_captions

FILE = "counts.npy"
# Captions that are in memory at once, in float64.
_AT_ONCE = 1 << 16


def counts_of_images(vectors: Vectors, caption_to_image: np.ndarray, images: slice) -> np.ndarray:
    """Count the wrong items that score above the correct ones, within a range of the images.

    Parameters
    ----------
    vectors
        Vectors of all images and captions.
    caption_to_image
        `(n_captions,)`, the row of each caption's image.
    images
        The range: its images ask for captions, and are asked for by all captions.

    Returns
    -------
    np.ndarray
        int64 `(2, n_captions)`: twice the number of wrong items above the correct captions of images, and above the correct images of
        captions, as `Scores.above` counts them. Sums over ranges that cover all images are the counts of the whole set, ties included.
    """
    n_captions = len(caption_to_image)
    truth = own_captions(caption_to_image)
    counts = np.zeros((2, n_captions), np.int64)
    asking = between(truth.i2t.rows, images)
    rows, own = truth.i2t.rows[asking], truth.i2t.items[asking]
    i2t = Pairs(rows - images.start, own, _scores_of_pairs(vectors, rows, own))
    for captions in ranges(n_captions, _AT_ONCE):
        rows, owner = np.arange(captions.start, captions.stop), caption_to_image[captions]
        right = _scores_of_pairs(vectors, owner, rows)
        part = _scores(vectors, images, captions)
        of_images, of_captions = part.above(
            i2t._replace(captions=own - captions.start),
            Pairs(owner - images.start, rows - captions.start, right),
        )
        counts[0, asking] += of_images
        counts[1, captions] += of_captions
    return counts


def _scores_of_pairs(vectors: Vectors, images: np.ndarray, captions: np.ndarray) -> np.ndarray:
    """Scores of images with captions, rows `(n,)` both: `(n,)`."""
    found = np.empty(len(images))
    for part in ranges(len(images), _AT_ONCE):
        order = np.arange(part.stop - part.start)
        found[part] = _scores(vectors, images[part], captions[part]).of(order, order, "t2i")
    return found


def _scores(vectors: Vectors, images: slice | np.ndarray, captions: slice | np.ndarray) -> EmbeddingScores:
    part = Vectors(vectors.image_embeddings[images], vectors.caption_embeddings[captions], vectors.similarity)
    return EmbeddingScores(part, of_captions=len(vectors.caption_embeddings))
