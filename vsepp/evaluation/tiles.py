"""Tiles of the score matrix, so that ranking never holds the whole of it.

Ties must be exact: equal pairs of vectors need bitwise equal scores wherever they lie. A matrix product in
float32 does not promise that. Its kernels sum in an order that depends on where in the matrix an element lies
(AVX2 ones do, whatever the shape of the tile), and a collapsed model then ranks at random in its rounding
errors. So dot products are made exact: embeddings are rounded to a grid so fine that the scores are nearer to
the true ones than float32 sums are, and so coarse that float64 holds every sum without rounding. Ranks are
then the same on every machine, with any number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from vsepp.errors import VseppError

SIMILARITIES = ("dot", "order")

TILE = (512, 1024)
"""Images × captions of a tile: 4 MB of float64, large enough for the matrix product to run at full speed."""

# Bits of an embedding's norm on its grid. A sum of products stays below 2^(2·26+1) by Cauchy-Schwarz, in any
# order of summation, so float64's 53 bits hold it exactly. One score is off by about 2^-27 of the norms.
_GRID_BITS = 26

# Elements of a thread's buffer for the order similarity. Larger ones leave the cache, smaller ones spend the
# time on handing the interpreter's lock from thread to thread.
_ORDER_BUFFER = 1 << 18

Compute = Callable[[slice, slice], np.ndarray]
"""Images and captions of a tile → its scores, which the next call may overwrite."""
Block = Callable[[slice], np.ndarray]
"""Captions of a tile → their embeddings."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """A matrix `scores[image, caption]` that is computed where it is looked at."""

    n_images: int
    n_captions: int
    dtype: np.dtype
    compute: Compute

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

    def block(cols: slice) -> np.ndarray:
        return captions[cols if order is None else order[cols]]

    make = {"dot": _dot_tiles, "order": _order_tiles}[similarity]
    return Tiles(len(images), len(captions), *make(images, block))


def checked_similarity(similarity: str) -> str:
    """The name of a similarity, if there is one of that name."""
    if similarity not in SIMILARITIES:
        raise VseppError(f"similarity: expected one of {', '.join(SIMILARITIES)}, got {similarity!r}")
    return similarity


def _dot_tiles(images: np.ndarray, block: Block) -> tuple[np.dtype, Compute]:
    grid = np.empty(images.shape, dtype=np.float64)
    for rows in _blocks(len(images), TILE[0]):
        grid[rows] = _on_grid(images[rows])
    out = np.empty(TILE)

    @lru_cache(maxsize=1)
    def captions(start: int, stop: int) -> np.ndarray:
        return _on_grid(block(slice(start, stop)))

    def compute(rows: slice, cols: slice) -> np.ndarray:
        tile = out[: rows.stop - rows.start, : cols.stop - cols.start]
        return np.matmul(grid[rows], captions(cols.start, cols.stop).T, out=tile)

    return out.dtype, compute


def _on_grid(embeddings: np.ndarray) -> np.ndarray:
    """Embeddings `(n, d)` in float64, each row rounded to 2^-26 of its norm's power of two."""
    wide = embeddings.astype(np.float64)
    _, exponent = np.frexp(np.sqrt(np.vecdot(wide, wide)))
    step = np.ldexp(1.0, exponent - _GRID_BITS)[:, None]
    # Scaling by a power of two is exact, there and back.
    wide /= step
    np.rint(wide, out=wide)
    wide *= step
    return wide


def _order_tiles(images: np.ndarray, block: Block) -> tuple[np.dtype, Compute]:
    out = np.empty(TILE, dtype=np.float32)
    threads = _threads()

    def compute(rows: slice, cols: slice) -> np.ndarray:
        tile = out[: rows.stop - rows.start, : cols.stop - cols.start]
        captions = block(cols)
        parts = [slice(first, None, threads) for first in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda part: _order_scores(images[rows][part], captions, tile[part]), parts))
        return tile

    return out.dtype, compute


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


def _threads() -> int:
    """Cores that this process may use, or what the scheduler says that it should."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) else cores
