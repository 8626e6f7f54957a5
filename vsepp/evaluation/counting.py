"""Counting in tiles of scores how many items stand above each query's right one, and how many are tied with it.

Everything counted is twice a rank: an item above counts two, by > and by ≥, and a tied one counts one, by ≥ alone.
Where a tile's scores are rough, the right one's score is widened to the range that they may be off by: items
above it and below it are decided, and those within it, few as a rule, are scored exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vsepp.evaluation.tiles import Rough, Tiles, usable_threads

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


@dataclass(eq=False)
class _Counts:
    """Counting so far."""

    tiles: Tiles
    grouped: np.ndarray
    own: np.ndarray
    """Exact score of each caption with its own image."""
    best: np.ndarray
    """Exact score of each image with its best caption."""
    per_image: np.ndarray
    per_caption: np.ndarray
    pool: Executor
    tried: int = 0
    in_vain: int = 0


def count_tiles(tiles: Tiles, grouped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Twice the rank of each image's best caption and of each caption's image.

    Parameters
    ----------
    tiles
        Scores, with captions in their images' order.
    grouped
        `(n_captions,)` int64: the row of each caption's image, ascending, every image at least once.

    Returns
    -------
    tuple
        `(n_images,)` and `(n_captions,)` int64.
    """
    starts = np.flatnonzero(np.diff(grouped, prepend=-1))
    own = np.concatenate(
        [tiles.pairs(grouped[cols], cols, np.arange(cols.stop - cols.start)) for cols in tiles.columns()]
    )
    with ThreadPoolExecutor(usable_threads()) as pool:
        counts = _Counts(
            tiles,
            grouped,
            own,
            np.maximum.reduceat(own, starts),
            np.zeros(tiles.n_images, dtype=np.int64),
            np.zeros(tiles.n_captions, dtype=np.int64),
            pool,
        )
        for cols in tiles.columns():
            for rows in tiles.rows():
                if not _count_rough(counts, rows, cols):
                    _count_exact(counts, rows, cols)
    return counts.per_image, counts.per_caption


def _count_exact(counts: _Counts, rows: slice, cols: slice) -> None:
    tile = counts.tiles.compute(rows, cols)
    _without_own(tile, counts.grouped, rows, cols)
    best, own = counts.best[rows], counts.own[cols]
    for_images, for_captions = _tally(tile, Range(best, best), Range(own, own), counts.pool)
    counts.per_image[rows] += 2 * for_images.above + for_images.tied
    counts.per_caption[cols] += 2 * for_captions.above + for_captions.tied


def _count_rough(counts: _Counts, rows: slice, cols: slice) -> bool:
    """Count a tile from rough scores, and say whether these decided enough for it."""
    rough = counts.tiles.rough
    if rough is None or (counts.in_vain > _IN_VAIN and 2 * counts.in_vain > counts.tried):
        return False
    tile = rough.compute(rows, cols)
    _without_own(tile, counts.grouped, rows, cols)
    best, own = counts.best[rows], counts.own[cols]
    near_best, near_own = _ranges(rough, best, own, rows, cols)
    for_images, for_captions = _tally(tile, near_best, near_own, counts.pool)
    counts.tried += 1
    if (for_images.tied.sum() + for_captions.tied.sum()) * _UNDECIDED > tile.size:
        counts.in_vain += 1
        return False
    counts.per_image[rows] += 2 * for_images.above
    counts.per_caption[cols] += 2 * for_captions.above
    for image, place in _undecided(tile, for_images.tied, near_best):
        scores = counts.tiles.pairs(rows.start + image, cols, place)
        np.add.at(counts.per_image[rows], image, 1 + _sign(scores, best[image]))
    for place, image in _undecided(tile.T, for_captions.tied, near_own):
        scores = counts.tiles.pairs(rows.start + image, cols, place)
        np.add.at(counts.per_caption[cols], place, 1 + _sign(scores, own[place]))
    return True


def _without_own(tile: np.ndarray, grouped: np.ndarray, rows: slice, cols: slice) -> None:
    """Blank out images' own captions, which are no wrong items: nothing compares with NaN."""
    images = grouped[cols]
    first, last = np.searchsorted(images, (rows.start, rows.stop))
    tile[images[first:last] - rows.start, np.arange(first, last)] = np.nan


def _ranges(rough: Rough, best: np.ndarray, own: np.ndarray, rows: slice, cols: slice) -> tuple[Range, Range]:
    """Rough scores that may be tied with each image's best and each caption's own score in a tile."""
    of_images, of_captions = rough.of_images[rows], rough.of_captions[cols]
    return (
        _range(best, of_images * of_captions.max() + rough.least),
        _range(own, of_captions * of_images.max() + rough.least),
    )


def _range(score: np.ndarray, error: np.ndarray) -> Range:
    """Scores as float32, rounded outwards."""
    low, high = (score - error).astype(np.float32), (score + error).astype(np.float32)
    infinity = np.float32(np.inf)
    return Range(np.nextafter(low, -infinity), np.nextafter(high, infinity))


def _sign(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    """1 where a score is above the right item's, −1 below, 0 tied."""
    return (scores > right).astype(np.int64) - (scores < right)


def _undecided(tile: np.ndarray, tied: np.ndarray, near: Range) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Places of undecided scores in a tile `(queries, items)`: their queries and items, if there are any."""
    queries = np.flatnonzero(tied)
    if queries.size:
        scores = tile[queries]
        place, item = np.nonzero((scores >= near.low[queries, None]) & (scores <= near.high[queries, None]))
        yield queries[place], item


def _tally(tile: np.ndarray, images: Range, captions: Range, pool: Executor) -> tuple[Tally, Tally]:
    """Count a tile along its rows for the images and along its columns for the captions, on all threads."""
    stripes = [slice(start, start + _STRIPE) for start in range(0, len(tile), _STRIPE)]

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
