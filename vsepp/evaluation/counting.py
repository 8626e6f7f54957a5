"""Ranks by inner product, counted in tiles of scores on a CPU.

Everything counted is twice a rank: an item above counts two, by > and by ≥, and a tied one counts one, by ≥ alone.
Where a tile's scores are rough, the right one's score is widened to the range that they may be off by: items
above it and below it are decided, and those within it, few as a rule, are scored exactly.
"""

from __future__ import annotations

import os
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from vsepp.evaluation.products import TILE, Products, blocks

# Rows counted at once: their masks stay in the cache, and a column's count of so many rows fits into a byte.
_STRIPE = 128
# Bytes of a mask that are added up as one word.
_WORD = 8
# One score in so many of a tile may be undecided: to score more of them one by one takes longer than an exact tile.
_UNDECIDED = 64
# Rough tiles in vain until exact ones alone are made, if they are most of those tried: a collapsed model ties everywhere.
_IN_VAIN = 4


class Range(NamedTuple):
    """What counts as tied with the right item of each query: scores from `low` to `high`, each `(queries,)`."""

    low: np.ndarray
    high: np.ndarray


class Tally(NamedTuple):
    """Items of a tile for each query, `(queries,)`."""

    above: np.ndarray
    """Scored above the range."""
    tied: np.ndarray
    """Scored within the range."""


class ProductCounter:
    """Counts the wrong items above each query's right one, and those tied with it.

    Parameters
    ----------
    products
        Scores of all images and captions.
    owner
        `(n_captions,)` int64: the row of each caption's image.
    """

    def __init__(self, products: Products, owner: np.ndarray) -> None:
        self.products, self.owner = products, owner
        self.tried = self.in_vain = 0

    def own(self) -> np.ndarray:
        """Score of each caption with its image, `(n_captions,)`."""
        columns = self.products.columns()
        places = np.arange(TILE[1])
        found = [self.products.pairs(self.owner[cols], cols, places) for cols in columns]
        return np.concatenate(found)

    def count(self, best: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Twice the rank of each image's best caption and of each caption's image, int64.

        Parameters
        ----------
        best, own
            Score of each image with its best caption, and of each caption with its image.
        """
        per_image, per_caption = np.zeros(len(best), np.int64), np.zeros(len(own), np.int64)
        with ThreadPoolExecutor(usable_threads()) as pool:
            for cols in self.products.columns():
                for rows in self.products.rows():
                    here = rows, cols, best[rows], own[cols], pool
                    for_images, for_captions = self._from_rough(*here) or self._from_exact(*here)
                    per_image[rows] += for_images
                    per_caption[cols] += for_captions
        return per_image, per_caption

    def _from_exact(
        self, rows: slice, cols: slice, best: np.ndarray, own: np.ndarray, pool: Executor
    ) -> tuple[np.ndarray, np.ndarray]:
        tile = self._without_own(self.products.exact(rows, cols), rows, cols)
        counted = _tally(tile, Range(best, best), Range(own, own), pool)
        return tuple(2 * above + tied for above, tied in counted)

    def _from_rough(
        self, rows: slice, cols: slice, best: np.ndarray, own: np.ndarray, pool: Executor
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Counts of a tile from rough scores, if these decide enough for it."""
        products = self.products
        if not products.is_bounded or (self.in_vain > _IN_VAIN and 2 * self.in_vain > self.tried):
            return None
        tile = self._without_own(products.rough(rows, cols), rows, cols)
        of_images, of_captions = products.of_images[rows], products.of_captions[cols]
        near_best = _range(best, of_images * of_captions.max() + products.least)
        near_own = _range(own, of_captions * of_images.max() + products.least)
        for_images, for_captions = _tally(tile, near_best, near_own, pool)
        self.tried += 1
        if (for_images.tied.sum() + for_captions.tied.sum()) * _UNDECIDED > tile.size:
            self.in_vain += 1
            return None
        per_image, per_caption = 2 * for_images.above, 2 * for_captions.above
        image, place = _undecided(tile, for_images.tied, near_best)
        scores = products.pairs(rows.start + image, cols, place)
        np.add.at(per_image, image, 1 + _sign(scores, best[image]))
        place, image = _undecided(tile.T, for_captions.tied, near_own)
        scores = products.pairs(rows.start + image, cols, place)
        np.add.at(per_caption, place, 1 + _sign(scores, own[place]))
        return per_image, per_caption

    def _without_own(self, tile: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
        """Blank out images' own captions, which are no wrong items: nothing compares with NaN."""
        images = self.owner[cols]
        place = np.flatnonzero((images >= rows.start) & (images < rows.stop))
        tile[images[place] - rows.start, place] = np.nan
        return tile


def _range(score: np.ndarray, error: np.ndarray) -> Range:
    """Rough scores that may be tied with some exact ones: as float32, rounded outwards."""
    low, high = (score - error).astype(np.float32), (score + error).astype(np.float32)
    infinity = np.float32(np.inf)
    return Range(np.nextafter(low, -infinity), np.nextafter(high, infinity))


def _sign(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    """1 where a score is above the right item's, −1 below, 0 tied."""
    return (scores > right).astype(np.int64) - (scores < right)


def _undecided(tile: np.ndarray, tied: np.ndarray, near: Range) -> tuple[np.ndarray, np.ndarray]:
    """Places of undecided scores in a tile `(queries, items)`: their queries and items."""
    queries = np.flatnonzero(tied)
    scores = tile[queries]
    place, item = np.nonzero((scores >= near.low[queries, None]) & (scores <= near.high[queries, None]))
    return queries[place], item


def _tally(tile: np.ndarray, images: Range, captions: Range, pool: Executor) -> tuple[Tally, Tally]:
    """Count a tile along its rows for the images and along its columns for the captions, on all threads."""
    stripes = list(blocks(len(tile), _STRIPE))

    def count(stripe: slice) -> tuple[np.ndarray, np.ndarray]:
        return _tally_stripe(tile[stripe], Range(images.low[stripe], images.high[stripe]), captions)

    by_stripe = list(pool.map(count, stripes))
    for_images = np.concatenate([found[0] for found in by_stripe], axis=1)
    for_captions = np.sum([found[1] for found in by_stripe], axis=0, dtype=np.int64)
    return tuple(Tally(above, reached - above) for above, reached in (for_images, for_captions))


def _tally_stripe(scores: np.ndarray, images: Range, captions: Range) -> tuple[np.ndarray, np.ndarray]:
    """Scores above a range, and from its low end on: `(2, images)` and `(2, captions)`."""
    height, width = scores.shape
    padded = np.zeros((height, -(-width // _WORD) * _WORD), dtype=bool)
    mask = padded[:, :width]
    for_images = np.empty((2, height), dtype=np.int64)
    for_captions = np.empty((2, width), dtype=np.uint8)
    for kind, (compare, end) in enumerate(((np.greater, "high"), (np.greater_equal, "low"))):
        compare(scores, getattr(images, end)[:, None], out=mask)
        # Eight masks in a word are added at once; a byte of the sum holds the count of a row's eighth part.
        eighths = np.add.reduce(padded.view(np.uint64), axis=1)
        for_images[kind] = np.add.reduce(
            eighths.view(np.uint8).reshape(height, _WORD), axis=1, dtype=np.int64
        )
        compare(scores, getattr(captions, end), out=mask)
        np.add.reduce(mask.view(np.uint8), axis=0, dtype=np.uint8, out=for_captions[kind])
    return for_images, for_captions


def usable_threads() -> int:
    """Cores that this process may use, or what the scheduler says that it should."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) else cores
