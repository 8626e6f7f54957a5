"""The items with the highest scores, the best first, equal ones in their order."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.evaluation.scores import Blocks, ranges

# Scores that are sorted at once: they stay in the cache.
_AT_ONCE = 1 << 20


def best_items(scores: Blocks, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k captions of each image, int64 `(n_images, k)`, and k images of each caption, `(n_captions, k)`, with the highest scores.

    The best stands first; equal ones keep their order.

    Parameters
    ----------
    scores
        Scores on a CPU.
    k
        Number of items; fewer where the gallery has fewer.
    """
    n_images, n_captions = scores.shape
    tall, wide = (max(1, _AT_ONCE // other) for other in (n_captions, n_images))
    of_images = np.empty((n_images, min(k, n_captions)), np.int64)
    of_captions = np.empty((n_captions, min(k, n_images)), np.int64)
    for rows in ranges(n_images, tall):
        parts = (scores.block(rows, part) for part in ranges(n_captions, scores.block_shape[1]))
        _, of_images[rows] = best_of_blocks(parts, k)
    for columns in ranges(n_captions, min(wide, scores.block_shape[1])):
        of_captions[columns] = best_columns(scores.block(slice(0, n_images), columns).T, k)
    return of_images, of_captions


def best_columns(scores: np.ndarray, k: int) -> np.ndarray:
    """The k columns with the highest scores of each row, the best first, equal ones in their order.

    Parameters
    ----------
    scores
        `(n, m)`, no NaN.
    k
        From 1; all columns where there are fewer.

    Returns
    -------
    np.ndarray
        int64 `(n, k)`.
    """
    lower = -scores
    if k >= scores.shape[1]:
        return np.argsort(lower, axis=1, kind="stable")
    best = np.empty((len(scores), k), np.int64)
    for row, last in enumerate(np.partition(lower, k - 1, axis=1)[:, k - 1]):
        # All that are tied with the k-th are there, so that the first of them are taken.
        columns = np.flatnonzero(lower[row] <= last)
        best[row] = columns[np.argsort(lower[row, columns], kind="stable")[:k]]
    return best


def best_of_blocks(blocks: Iterable[np.ndarray], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest scores of each row and their columns, the best first, equal ones in the order of their columns.

    Parameters
    ----------
    blocks
        At least one block, `(n, m)` of any m: its columns follow the columns of the block before. One block is held at a time.
    k
        From 1; all columns where there are fewer.

    Returns
    -------
    tuple
        Scores, and columns, int64, both `(n, k)`.

    Raises
    ------
    VseppError
        If a score is NaN.
    """
    start, scores, columns = 0, np.empty(0), np.empty(0, np.int64)
    for block in blocks:
        if (unknown := np.isnan(block).any(axis=0)).any():
            raise VseppError(f"scores: candidate {start + np.argmax(unknown)} has NaN, which has no rank")
        order = best_columns(block, k)
        found, places = np.take_along_axis(block, order, axis=1), order + start
        if start:
            found, places = (np.concatenate(both, axis=1) for both in ((scores, found), (columns, places)))
            order = best_columns(found, k)
            found, places = (np.take_along_axis(values, order, axis=1) for values in (found, places))
        scores, columns, start = found, places, start + block.shape[1]
    return scores, columns
