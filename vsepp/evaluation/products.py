"""Inner products of images and captions in tiles, so that ranking never holds the whole matrix of them.

Ties must be exact: equal pairs of vectors need bitwise equal scores wherever they lie. A matrix product in
float32 does not promise that. Its kernels sum in an order that depends on where in the matrix an element lies
(AVX2 ones do, whatever the shape of the tile), and a collapsed model then ranks at random in its rounding
errors. So products are made exact: embeddings are rounded to a grid so fine that the scores are nearer to
the true ones than float32 sums are, and so coarse that float64 holds every sum without rounding. Ranks are
then the same on every machine, with any number of threads.

A float32 product takes half the time. It comes with a bound of its distance from the exact scores, so that
only what lies within the bound of a right item's score has to be scored exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

TILE = (1024, 1024)
"""Images × captions of a tile: 4 MB of float32, large enough for the matrix product to run at full speed."""

# Bits of an embedding's norm on its grid. A sum of products stays below 2^(2·26+1) by Cauchy-Schwarz, in any
# order of summation, so float64's 53 bits hold it exactly. One score is off by about 2^-27 of the norms.
_GRID_BITS = 26

# Dimensions up to which a float32 sum's bound is of use.
_MOST_ROUGH_DIMS = 1 << 16
# Pairs of vectors that are gathered at once to be scored: they stay in the cache.
_PAIRS = 128


class Products:
    """`scores[image, caption]`, computed where it is looked at; the next call overwrites a tile.

    With u = 2^-24, a float32 sum of d products in any order is off by at most d·u / (1 − d·u) of Σ|aᵢbᵢ| ≤ ‖a‖‖b‖
    (Higham, Accuracy and Stability of Numerical Algorithms, Section 3.1). The grid moves an element by at most 2^-26 of
    its row's norm, so a score by √d·u/2 of both norms. What is added to these covers the rounding of the norms and a
    last scaling. Numbers smaller than float32's normal ones may have been taken as zero anywhere.

    Parameters
    ----------
    images, captions
        float32 `(n_images, d)` and `(n_captions, d)`, all finite.
    """

    def __init__(self, images: np.ndarray, captions: np.ndarray) -> None:
        self.images, self.captions = images, captions
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

    def rows(self) -> Iterator[slice]:
        """Ranges of images."""
        return blocks(len(self.images), TILE[0])

    def columns(self) -> Iterator[slice]:
        """Ranges of captions."""
        return blocks(len(self.captions), TILE[1])

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
        for part in blocks(len(images), _PAIRS):
            np.vecdot(self._grid[images[part]], captions[places[part]], out=scores[part])
        return scores

    def _columns(self, cols: slice) -> np.ndarray:
        if self._start != cols.start:
            self._captions_grid, self._start = on_grid(self.captions[cols]), cols.start
        return self._captions_grid


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
    for rows in blocks(len(embeddings), _PAIRS):
        wide = embeddings[rows].astype(np.float64)
        norms[rows] = np.sqrt(np.vecdot(wide, wide))
    return norms * (1 + 2.0**-30)


def blocks(total: int, size: int) -> Iterator[slice]:
    """Ranges of at most `size` that cover `total`."""
    return (slice(start, min(start + size, total)) for start in range(0, total, size))
