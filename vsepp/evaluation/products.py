"""Ranks by inner product, counted in tiles of scores on a CPU.

Ties must be exact: equal pairs of vectors need bitwise equal scores wherever they lie. A matrix product in
float32 does not guarantee that: its kernels sum in an order that depends on an element's position in the matrix (AVX2
kernels do for any tile shape), so that rounding errors would decide the ranks of a collapsed model. So products are made
exact: embeddings are rounded to a grid fine enough that scores are closer to the true ones than float32 sums are, and
coarse enough that float64 holds every sum without rounding. Ranks are then the same on every machine, with any number of
threads.

A float32 product takes half the time, and its distance from the exact scores is bounded. So the correct item's score is
widened to a range by that bound: items above and below the range are decided, and those within it, usually few, are scored
exactly.

What is counted is twice a rank: an item above counts two, by > and by ≥, and a tied one counts one, by ≥ alone.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cached_property
from typing import NamedTuple

import numpy as np

from vsepp.evaluation.scores import Pairs, between, blanked, ranges

TILE = (1024, 1024)
"""Images × captions of a tile: 4 MB of float32, large enough for the matrix product to run at full speed."""

# Bits of an embedding's norm on its grid. A sum of products stays below 2^(2·26+1) by Cauchy-Schwarz, in any
# order of summation, so float64's 53 bits hold it exactly. One score is off by about 2^-27 of the norms.
_GRID_BITS = 26

# Dimensions up to which a float32 sum's bound is of use.
_MOST_ROUGH_DIMS = 1 << 16
# Pairs of vectors that are gathered at once to be scored: they stay in the cache.
_PAIRS = 128
# Rows counted at once: their masks stay in the cache, and a column's count of so many rows fits into a byte.
_STRIPE = 128
# Bytes of a mask that are added up as one word.
_WORD = 8
# One score in so many of a tile may be undecided: to score more of them one by one takes longer than an exact tile.
_UNDECIDED = 64
# Queries of a tile that are counted together, which bounds the copies of its columns.
_QUERIES = 8 * TILE[1]


class Range(NamedTuple):
    """What counts as tied with the correct item of each query: scores from `low` to `high`, each `(queries,)`."""

    low: np.ndarray
    high: np.ndarray


class ProductCounter:
    """Scores of embeddings, see `vsepp.evaluation.scores.Scores`.

    With u = 2^-24, a float32 sum of d products in any order is off by at most d·u / (1 − d·u) of Σ|aᵢbᵢ| ≤ ‖a‖‖b‖
    (Higham, Accuracy and Stability of Numerical Algorithms, Section 3.1). The grid moves an element by at most 2^-26 of
    its row's norm, so a score by √d·u/2 of both norms. What is added to these covers the rounding of the norms and a
    last scaling. Subnormal numbers of float32 may have been treated as zero anywhere.

    Parameters
    ----------
    images, captions
        float32 `(n_images, d)` and `(n_captions, d)`, all finite.
    """

    def __init__(self, images: np.ndarray, captions: np.ndarray) -> None:
        self.images, self.captions, self.shape = images, captions, (len(images), len(captions))
        self._grid = on_grid(images)
        self._captions_grid, self._start = np.empty(0), -1
        self._exact, self._rough = np.empty(TILE), np.empty(TILE, np.float32)
        dims = images.shape[1]
        self.is_bounded = dims <= _MOST_ROUGH_DIMS
        """Whether rough scores are of use."""
        if self.is_bounded:
            units = (dims + math.sqrt(dims) + 8) * 2.0**-24
            of_images, self.of_captions = _norms(images), _norms(captions)
            self.of_images = units / (1 - units) * of_images
            """`(n_images,)`: a rough score is off by at most this times `of_captions`, plus `least`."""
            norms = of_images.max() + self.of_captions.max()
            self.least = 2.0**-126 * (2 * dims + 8 + math.sqrt(dims) * norms)

    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Exact scores of pairs, see `Scores.of`."""
        order = np.argsort(captions, kind="stable")
        scores = np.empty(len(captions))
        for cols in ranges(self.shape[1], TILE[1]):
            part = order[between(captions[order], cols)]
            scores[part] = self.pairs(images[part], cols, captions[part] - cols.start)
        return scores

    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Counts, see `Scores.above`."""
        of_images, of_captions = (np.zeros(len(pairs.scores), np.int64) for pairs in (i2t, t2i))
        n_images, n_captions = self.shape
        with ThreadPoolExecutor(usable_threads()) as pool:
            for cols in ranges(n_captions, TILE[1]):
                asked = between(t2i.captions, cols)
                for rows in ranges(n_images, TILE[0]):
                    tile = _Tile(self, rows, cols)
                    part = between(i2t.images, rows)
                    of_images[part] += tile.above(i2t, part, pool, is_down=False)
                    of_captions[asked] += tile.above(t2i, asked, pool, is_down=True)
        return of_images, of_captions

    def exact(self, rows: slice, cols: slice) -> np.ndarray:
        """A tile in float64."""
        tile = self._exact[: rows.stop - rows.start, : cols.stop - cols.start]
        return np.matmul(self._grid[rows], self._columns(cols).T, out=tile)

    def rough(self, rows: slice, cols: slice) -> np.ndarray:
        """A tile in float32."""
        tile = self._rough[: rows.stop - rows.start, : cols.stop - cols.start]
        return np.matmul(self.images[rows], self.captions[cols].T, out=tile)

    def pairs(self, images: np.ndarray, cols: slice, places: np.ndarray) -> np.ndarray:
        """Exact score of each of some images with a caption, given by its place among `cols`; `(n,)`."""
        captions, scores = self._columns(cols), np.empty(len(images))
        for part in ranges(len(images), _PAIRS):
            np.vecdot(self._grid[images[part]], captions[places[part]], out=scores[part])
        return scores

    def _columns(self, cols: slice) -> np.ndarray:
        if self._start != cols.start:
            self._captions_grid, self._start = on_grid(self.captions[cols]), cols.start
        return self._captions_grid


class _Tile:
    """Scores of some images and captions, made when they are needed."""

    def __init__(self, scores: ProductCounter, rows: slice, cols: slice) -> None:
        self.scores, self.rows, self.cols = scores, rows, cols

    @cached_property
    def rough(self) -> np.ndarray:
        return self.scores.rough(self.rows, self.cols)

    @cached_property
    def exact(self) -> np.ndarray:
        return self.scores.exact(self.rows, self.cols)

    def above(self, pairs: Pairs, part: slice, pool: Executor, *, is_down: bool) -> np.ndarray:
        """Twice the number of the tile's wrong items above a part of the pairs: of its captions or, where `is_down`, of its images."""
        rows, columns = pairs.images[part] - self.rows.start, pairs.captions[part] - self.cols.start
        right = pairs.scores[part]
        parts = list(ranges(len(right), _QUERIES))
        if not parts:
            return np.zeros(0, np.int64)
        if self.scores.is_bounded:
            with blanked(self.rough, rows, columns):
                found = [
                    self._from_rough(rows[some], columns[some], right[some], pool, is_down) for some in parts
                ]
            decided = [counts for counts in found if counts is not None]
            if len(decided) == len(parts):
                return np.concatenate(decided)
        with blanked(self.exact, rows, columns):
            counts = [
                _count(self.exact, rows[some], columns[some], Range(right[some], right[some]), pool, is_down)
                for some in parts
            ]
        return np.concatenate(counts, axis=1).sum(axis=0)

    def _from_rough(
        self, rows: np.ndarray, columns: np.ndarray, right: np.ndarray, pool: Executor, is_down: bool
    ) -> np.ndarray | None:
        """Counts from rough scores, if these decide enough for it."""
        of_images, of_captions = self.scores.of_images[self.rows], self.scores.of_captions[self.cols]
        norms = of_captions[columns] * of_images.max() if is_down else of_images[rows] * of_captions.max()
        near = _range(right, norms + self.scores.least)
        above, from_low = _count(self.rough, rows, columns, near, pool, is_down)
        items = self.rough.shape[0 if is_down else 1]
        if (from_low - above).sum() * _UNDECIDED > len(right) * items:
            return None
        twice, some = 2 * above, from_low > above
        if is_down:
            query, image = _undecided(self.rough.T, columns, some, near)
            caption = columns[query]
        else:
            query, caption = _undecided(self.rough, rows, some, near)
            image = rows[query]
        scores = self.scores.pairs(self.rows.start + image, self.cols, caption)
        np.add.at(twice, query, _twice(scores, right[query]))
        return twice


def _count(
    tile: np.ndarray, rows: np.ndarray, columns: np.ndarray, near: Range, pool: Executor, is_down: bool
) -> np.ndarray:
    """How many scores lie above each query's range, and from its low end on, `(2, queries)`: of its column or of its row."""
    return _down(tile, columns, near, pool) if is_down else _along(tile, rows, near, pool)


def _range(score: np.ndarray, error: np.ndarray) -> Range:
    """Rough scores that may be tied with some exact ones: as float32, rounded outwards."""
    low, high = (score - error).astype(np.float32), (score + error).astype(np.float32)
    infinity = np.float32(np.inf)
    return Range(np.nextafter(low, -infinity), np.nextafter(high, infinity))


def _twice(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    """2 where a score is above the correct item's, 1 where it is tied, 0 below."""
    return (scores > right).astype(np.int64) + (scores >= right)


def _undecided(
    tile: np.ndarray, rows: np.ndarray, some: np.ndarray, near: Range
) -> tuple[np.ndarray, np.ndarray]:
    """Undecided scores of queries in rows of a tile, of the queries that have some: their queries and columns."""
    queries = np.flatnonzero(some)
    scores = tile[rows[queries]]
    place, item = np.nonzero((scores >= near.low[queries, None]) & (scores <= near.high[queries, None]))
    return queries[place], item


def _along(tile: np.ndarray, rows: np.ndarray, near: Range, pool: Executor) -> np.ndarray:
    """See `_count`."""

    def count(part: slice) -> np.ndarray:
        scores = tile[rows[part]]
        height, width = scores.shape
        padded = np.zeros((height, -(-width // _WORD) * _WORD), dtype=bool)
        counts = np.empty((2, height), dtype=np.int64)
        for kind, (compare, end) in enumerate(((np.greater, near.high), (np.greater_equal, near.low))):
            compare(scores, end[part, None], out=padded[:, :width])
            # Eight masks in a word are added at once; a byte of the sum holds the count of a row's eighth part.
            eighths = np.add.reduce(padded.view(np.uint64), axis=1)
            counts[kind] = np.add.reduce(
                eighths.view(np.uint8).reshape(height, _WORD), axis=1, dtype=np.int64
            )
        return counts

    parts = list(pool.map(count, ranges(len(rows), _STRIPE)))
    return np.concatenate(parts, axis=1) if parts else np.zeros((2, 0), np.int64)


def _down(tile: np.ndarray, columns: np.ndarray, near: Range, pool: Executor) -> np.ndarray:
    """See `_count`."""
    every = np.array_equal(columns, np.arange(tile.shape[1]))

    def count(stripe: slice) -> np.ndarray:
        scores = tile[stripe] if every else tile[stripe][:, columns]
        mask = np.empty(scores.shape, dtype=bool)
        counts = np.empty((2, scores.shape[1]), dtype=np.uint8)
        for kind, (compare, end) in enumerate(((np.greater, near.high), (np.greater_equal, near.low))):
            compare(scores, end, out=mask)
            np.add.reduce(mask.view(np.uint8), axis=0, dtype=np.uint8, out=counts[kind])
        return counts

    return np.stack(list(pool.map(count, ranges(len(tile), _STRIPE)))).sum(axis=0, dtype=np.int64)


def on_grid(embeddings: np.ndarray) -> np.ndarray:
    """Embeddings in float64, each row rounded to 2^-26 of its norm's power of two."""
    wide = embeddings.astype(np.float64)
    _, exponent = np.frexp(np.sqrt(np.vecdot(wide, wide)))
    step = np.ldexp(1.0, exponent - _GRID_BITS)[:, None]
    # Scaling by a power of two is exact, there and back.
    wide /= step
    np.rint(wide, out=wide)
    wide *= step
    return wide


def _norms(embeddings: np.ndarray) -> np.ndarray:
    """Lengths of float32 rows `(n, d)` in float64, a little too large where they are rounded."""
    norms = np.empty(len(embeddings))
    for rows in ranges(len(embeddings), _PAIRS):
        wide = embeddings[rows].astype(np.float64)
        norms[rows] = np.sqrt(np.vecdot(wide, wide))
    return norms * (1 + 2.0**-30)


def usable_threads() -> int:
    """Cores that this process may use, or the number that the scheduler gave it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) else cores
