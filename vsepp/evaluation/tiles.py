"""Tiles of the score matrix, so that ranking never holds the whole of it.

Ties must be exact: equal pairs of vectors need bitwise equal scores wherever they lie. A matrix product in
float32 does not promise that. Its kernels sum in an order that depends on where in the matrix an element lies
(AVX2 ones do, whatever the shape of the tile), and a collapsed model then ranks at random in its rounding
errors. So dot products are made exact: embeddings are rounded to a grid so fine that the scores are nearer to
the true ones than float32 sums are, and so coarse that float64 holds every sum without rounding. Ranks are
then the same on every machine, with any number of threads.

A float32 product takes half the time. It comes with a bound of its distance from the exact scores, so that
only what lies within the bound of a right item's score has to be scored exactly.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from vsepp.errors import VseppError

SIMILARITIES = ("dot", "order")

TILE = (1024, 1024)
"""Images × captions of a tile: 4 MB of float32, large enough for the matrix product to run at full speed."""

# Bits of an embedding's norm on its grid. A sum of products stays below 2^(2·26+1) by Cauchy-Schwarz, in any
# order of summation, so float64's 53 bits hold it exactly. One score is off by about 2^-27 of the norms.
_GRID_BITS = 26

# Dimensions up to which a float32 sum's bound is of use.
_MOST_ROUGH_DIMS = 1 << 16
# Pairs of vectors that are gathered at once to be scored: they stay in the cache.
_PAIRS = 128

# Elements of a thread's buffer for the order similarity. Larger ones leave the cache, smaller ones spend the
# time on handing the interpreter's lock from thread to thread.
_ORDER_BUFFER = 1 << 18

Compute = Callable[[slice, slice], np.ndarray]
"""Images and captions of a tile → its scores, which the caller may change and the next call overwrites."""
Pairs = Callable[[np.ndarray, slice, np.ndarray], np.ndarray]
"""Rows of images, captions of a tile, places among these → the score of each image with its caption, `(n,)`."""
Block = Callable[[slice], np.ndarray]
"""Captions of a tile → their embeddings."""


@dataclass(frozen=True, eq=False)
class Rough:
    """Scores made in float32, and how far from the exact ones they may lie."""

    compute: Compute
    of_images: np.ndarray
    """`(n_images,)`: the error of a score is at most this times that of the caption, plus `least`."""
    of_captions: np.ndarray
    """`(n_captions,)`, in the order in which the tiles have them."""
    least: float


@dataclass(frozen=True, eq=False)
class Tiles:
    """A matrix `scores[image, caption]` that is computed where it is looked at."""

    n_images: int
    n_captions: int
    compute: Compute
    pairs: Pairs
    """The same scores as those of `compute`, bit for bit."""
    rough: Rough | None = None

    def rows(self) -> Iterator[slice]:
        """Ranges of images."""
        return _blocks(self.n_images, TILE[0])

    def columns(self) -> Iterator[slice]:
        """Ranges of captions."""
        return _blocks(self.n_captions, TILE[1])


def similarity_tiles(
    images: np.ndarray, captions: np.ndarray, order: np.ndarray | None, similarity: str
) -> Tiles:
    """Tiles of the scores of float32 embeddings `(n_images, d)` and `(n_captions, d)`.

    Parameters
    ----------
    images, captions
        All finite, of one dimension.
    order
        Rows of `captions` in the order in which the tiles have them; `None` leaves them as they are.
    similarity
        `dot`, or `order`: −‖max(0, g−f)‖² of image f and caption g.

    Raises
    ------
    VseppError
        On another similarity.
    """
    checked_similarity(similarity)

    @lru_cache(maxsize=1)
    def rows(start: int, stop: int) -> np.ndarray:
        return captions[start:stop] if order is None else captions[order[start:stop]]

    def block(cols: slice) -> np.ndarray:
        return rows(cols.start, cols.stop)

    make = {"dot": _dot_tiles, "order": _order_tiles}[similarity]
    return make(images, block, len(captions))


def score_tiles(scores: np.ndarray) -> Tiles:
    """Tiles of scores `(n_images, n_captions)` that are there already."""
    dtype = scores.dtype if scores.dtype.kind == "f" else np.dtype(np.float64)
    return Tiles(
        *scores.shape,
        compute=lambda rows, cols: scores[rows, cols].astype(dtype),
        pairs=lambda images, cols, places: scores[images, cols.start + places].astype(dtype),
    )


def checked_similarity(similarity: str) -> str:
    """The name of a similarity, if there is one of that name."""
    if similarity not in SIMILARITIES:
        raise VseppError(f"similarity: expected one of {', '.join(SIMILARITIES)}, got {similarity!r}")
    return similarity


def _dot_tiles(images: np.ndarray, block: Block, n_captions: int) -> Tiles:
    grid = np.empty(images.shape, dtype=np.float64)
    for rows in _blocks(len(images), TILE[0]):
        grid[rows] = on_grid(images[rows])

    @lru_cache(maxsize=1)
    def captions(start: int, stop: int) -> np.ndarray:
        return on_grid(block(slice(start, stop)))

    @lru_cache(maxsize=1)
    def scratch() -> np.ndarray:
        return np.empty(TILE)

    def compute(rows: slice, cols: slice) -> np.ndarray:
        tile = scratch()[: rows.stop - rows.start, : cols.stop - cols.start]
        return np.matmul(grid[rows], captions(cols.start, cols.stop).T, out=tile)

    def pairs(rows: np.ndarray, cols: slice, places: np.ndarray) -> np.ndarray:
        here, scores = captions(cols.start, cols.stop), np.empty(len(rows))
        for part in _blocks(len(rows), _PAIRS):
            np.vecdot(grid[rows[part]], here[places[part]], out=scores[part])
        return scores

    rough = _rough_dot(images, block, n_captions) if images.shape[1] <= _MOST_ROUGH_DIMS else None
    return Tiles(len(images), n_captions, compute, pairs, rough)


def _rough_dot(images: np.ndarray, block: Block, n_captions: int) -> Rough:
    """Dot products in float32.

    With u = 2^-24, a sum of d products in any order is off by at most d·u / (1 − d·u) of Σ|aᵢbᵢ| ≤ ‖a‖‖b‖ (Higham,
    Accuracy and Stability of Numerical Algorithms, Section 3.1). The grid moves an element by at most 2^-26 of its
    row's norm, so a score by √d·u/2 of both norms. What is added to these covers the rounding of the norms and
    a last scaling. Numbers smaller than float32's normal ones may have been taken as zero anywhere.
    """
    dims = images.shape[1]
    units = (dims + math.sqrt(dims) + 8) * 2.0**-24
    of_images, of_captions = _norms(images), np.empty(n_captions)
    for cols in _blocks(n_captions, TILE[1]):
        of_captions[cols] = _norms(block(cols))
    least = 2.0**-126 * (2 * dims + 8 + math.sqrt(dims) * (of_images.max() + of_captions.max()))
    out = np.empty(TILE, dtype=np.float32)

    def compute(rows: slice, cols: slice) -> np.ndarray:
        tile = out[: rows.stop - rows.start, : cols.stop - cols.start]
        return np.matmul(images[rows], block(cols).T, out=tile)

    return Rough(compute, units / (1 - units) * of_images, of_captions, least)


def _norms(embeddings: np.ndarray) -> np.ndarray:
    """Lengths of float32 rows `(n, d)` in float64, a little too large where they are rounded."""
    norms = np.empty(len(embeddings))
    for rows in _blocks(len(embeddings), _PAIRS):
        wide = embeddings[rows].astype(np.float64)
        norms[rows] = np.sqrt(np.vecdot(wide, wide))
    return norms * (1 + 2.0**-30)


def on_grid(embeddings: np.ndarray) -> np.ndarray:
    """Embeddings `(n, d)` in float64, each row rounded to 2^-26 of its norm's power of two."""
    wide = embeddings.astype(np.float64)
    _, exponent = np.frexp(np.sqrt(np.vecdot(wide, wide)))
    step = np.ldexp(1.0, exponent - _GRID_BITS)[:, None]
    # Scaling by a power of two is exact, there and back.
    wide /= step
    np.rint(wide, out=wide)
    wide *= step
    return wide


def _order_tiles(images: np.ndarray, block: Block, n_captions: int) -> Tiles:
    out = np.empty(TILE, dtype=np.float32)
    threads = usable_threads()

    def compute(rows: slice, cols: slice) -> np.ndarray:
        tile = out[: rows.stop - rows.start, : cols.stop - cols.start]
        captions = block(cols)
        parts = [slice(first, None, threads) for first in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda part: _order_scores(images[rows][part], captions, tile[part]), parts))
        return tile

    def pairs(rows: np.ndarray, cols: slice, places: np.ndarray) -> np.ndarray:
        captions, scores = block(cols), np.empty(len(rows), dtype=np.float32)
        for part in _blocks(len(rows), _PAIRS):
            image = images[rows[part]]
            excess = np.maximum(captions[places[part]], image) - image
            np.vecdot(excess, excess, out=scores[part])
        return -scores

    return Tiles(len(images), n_captions, compute, pairs)


def _order_scores(images: np.ndarray, captions: np.ndarray, out: np.ndarray) -> None:
    """Write −‖max(0, g−f)‖² of images f `(n, d)` and captions g `(m, d)` into `out (n, m)`.

    Every pair takes the same steps over whole vectors, so equal pairs get equal bits. The image is repeated
    over the buffer's rows because arrays of one shape are subtracted at twice the speed of a broadcast row;
    max(0, g−f) is taken as max(g, f) − f, which has the same bits and needs no zeros.
    """
    block = min(len(captions), max(1, _ORDER_BUFFER // images.shape[1]))
    image = np.empty((block, images.shape[1]), dtype=np.float32)
    excess = np.empty_like(image)
    for row, embedding in enumerate(images):
        image[:] = embedding
        for start in range(0, len(captions), block):
            part = captions[start : start + block]
            size = len(part)
            np.maximum(part, image[:size], out=excess[:size])
            np.subtract(excess[:size], image[:size], out=excess[:size])
            np.vecdot(excess[:size], excess[:size], out=out[row, start : start + block])
    np.negative(out, out=out)


def _blocks(total: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def usable_threads() -> int:
    """Cores that this process may use, or what the scheduler says that it should."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) else cores
