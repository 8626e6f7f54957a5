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


class Range(NamedTuple):
    """What counts as tied with the right item of each query: scores from `low` to `high`, each `(queries,)`."""

    low: np.ndarray
    high: np.ndarray


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
        for_images, for_captions = _tally(tile, Range(best, best), Range(own, own), pool)
        return for_images.sum(axis=0), for_captions.sum(axis=0)

    def _from_rough(
        self, rows: slice, cols: slice, best: np.ndarray, own: np.ndarray, pool: Executor
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Counts of a tile from rough scores, if these decide enough for it."""
        products = self.products
        if not products.is_bounded:
            return None
        tile = self._without_own(products.rough(rows, cols), rows, cols)
        of_images, of_captions = products.of_images[rows], products.of_captions[cols]
        near_best = _range(best, of_images * of_captions.max() + products.least)
        near_own = _range(own, of_captions * of_images.max() + products.least)
        (above_best, from_best), (above_own, from_own) = _tally(tile, near_best, near_own, pool)
        if (from_best.sum() - above_best.sum() + from_own.sum() - above_own.sum()) * _UNDECIDED > tile.size:
            return None
        per_image, per_caption = 2 * above_best, 2 * above_own
        image, place = _undecided(tile, from_best > above_best, near_best)
        scores = products.pairs(rows.start + image, cols, place)
        np.add.at(per_image, image, _twice(scores, best[image]))
        place, image = _undecided(tile.T, from_own > above_own, near_own)
        scores = products.pairs(rows.start + image, cols, place)
        np.add.at(per_caption, place, _twice(scores, own[place]))
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


def _twice(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    """2 where a score is above the right item's, 1 tied, 0 below."""
    return (scores > right).astype(np.int64) + (scores >= right)


def _undecided(tile: np.ndarray, some: np.ndarray, near: Range) -> tuple[np.ndarray, np.ndarray]:
    """Undecided scores of a tile `(queries, items)`, of the queries that have some: their queries and items."""
    queries = np.flatnonzero(some)
    scores = tile[queries]
    place, item = np.nonzero((scores >= near.low[queries, None]) & (scores <= near.high[queries, None]))
    return queries[place], item


def _tally(tile: np.ndarray, images: Range, captions: Range, pool: Executor) -> tuple[np.ndarray, np.ndarray]:
    """How many scores of a tile lie above a range, and from its low end on: `(2, images)` and `(2, captions)`."""

    def count(stripe: slice) -> tuple[np.ndarray, np.ndarray]:
        return _tally_stripe(tile[stripe], Range(images.low[stripe], images.high[stripe]), captions)

    by_image, by_caption = zip(*pool.map(count, blocks(len(tile), _STRIPE)), strict=True)
    return np.concatenate(by_image, axis=1), np.sum(by_caption, axis=0, dtype=np.int64)


def _tally_stripe(scores: np.ndarray, images: Range, captions: Range) -> tuple[np.ndarray, np.ndarray]:
    """`_tally` of some rows, along them for the images and down the columns for the captions."""
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
