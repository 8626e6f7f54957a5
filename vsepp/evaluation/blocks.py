"""Scores of embeddings under any similarity, in blocks: with NumPy on a CPU's threads, or with torch on a device.

Ties must be exact: equal pairs of vectors need bitwise equal scores wherever they lie. Sums of floating-point numbers do not
ensure this: the kernels of a matrix product sum in an order that depends on an element's position in the matrix, so that rounding
errors would decide the ranks of a collapsed model.

Inner products are therefore made exact. Embeddings are rounded to a grid fine enough that scores are closer to the true scores
than float32 sums are, and coarse enough that float64 holds every sum without rounding. So ranks are the same on every machine.

Other similarities sum over the dimensions in an order that can depend on the number of pairs scored at once and, on a GPU, on the
pair's position in memory. So they are always called with the same number of pairs, as two whole arrays, for correct and wrong pairs
alike.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.scores import Blocks, ranges
from vsepp.models.similarity import namespace

# Images × captions of a block of inner products on a CPU: large enough for a matrix product to run at full speed.
_TILE = (1024, 512)
# Elements of the largest temporaries of other similarities. On a CPU they fit a core's cache; with fewer, time is lost passing the
# interpreter's lock between threads. On a device, for all similarities: 128 MB of float64 keep a GPU busy.
_ON_CPU, _ON_DEVICE = 1 << 17, 1 << 24

# Bits of an embedding's norm on its grid. A sum of products stays below 2^(2·26+1) by Cauchy-Schwarz, in any
# order of summation, so float64's 53 bits hold it exactly. One score is off by about 2^-27 of the norms.
_GRID_BITS = 26


class Vectors(NamedTuple):
    """Vectors of images and captions `(n, d)`, arrays or mapped files, and the similarity that scores them."""

    image_embeddings: np.ndarray
    caption_embeddings: np.ndarray
    similarity: Component


class EmbeddingScores(Blocks):
    """Scores of embeddings by their similarity, see `vsepp.evaluation.scores.Scores`.

    Under another similarity than an inner product a device, or another kernel of NumPy's BLAS, may differ in the last digit, and wrong
    items closer than that to the correct item may change sides.

    Parameters
    ----------
    embeddings
        Embeddings of all images and captions.
    device
        A torch device with float64, and memory for the embeddings and a few times 128 MB; `None` for NumPy.
    """

    def __init__(self, embeddings: Embeddings | Vectors, device: Any = None) -> None:
        images, captions = embeddings.image_embeddings, embeddings.caption_embeddings
        (n_images, dims), n_captions = images.shape, len(captions)
        self.shape, self.device = (n_images, n_captions), device
        self.xp = np if device is None else namespace(device)
        module = components.load("similarity", embeddings.similarity.name)
        self.is_product = getattr(module, "INNER_PRODUCT", False)
        self.score = partial(module.score, options=components.options("similarity", embeddings.similarity))
        # On a CPU a block rounds its own vectors: all of them in float64 would take twice the memory of the embeddings.
        self.rounds_blocks = self.is_product and device is None
        if self.is_product and device is not None:
            images, captions = on_grid(images), on_grid(captions)
        self.images, self.captions = self._put(images), self._put(captions)
        # A GPU loads four numbers of a row at once, aligned in memory: only every fourth row is summed alike.
        self.spread = 4 if device and dims % 4 and not self.is_product else 1
        if device is not None:
            height, width = n_images, _ON_DEVICE // max(n_images, self.spread * dims)
        else:
            height, width = _TILE if self.is_product else (_TILE[0], _ON_CPU // dims)
        self.block_shape = height, max(1, min(width, n_captions))

    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Scores of pairs, see `Scores.of`."""
        found = []
        for part in ranges(len(images), self.block_shape[1]):
            rows, columns = self._call(self.images, images[part]), self._call(self.captions, captions[part])
            scores = self.score(rows, columns)[:: self.spread][: part.stop - part.start]
            found.append(scores if self.device is None else scores.cpu().numpy())
        return np.concatenate(found)

    def block(self, images: slice, captions: slice) -> Any:
        """Scores of a range of images and a range of captions."""
        if self.is_product:
            return self._exact(self.images[images]) @ self._exact(self.captions[captions]).T
        columns = self._call(self.captions, np.arange(captions.start, captions.stop))
        whole, number = (len(columns), 1), captions.stop - captions.start
        rows = [self.score(self.xp.tile(image, whole), columns) for image in self.images[images]]
        scores = self.xp.stack([row[:: self.spread][:number] for row in rows])
        if self.xp.isnan(scores).any():
            raise VseppError(
                "the similarity of some image and caption is NaN, which has no rank; expected a number for any finite "
                "embeddings: correct the similarity"
            )
        return scores

    def _call(self, vectors: Any, rows: np.ndarray) -> Any:
        """The vectors of one call: as many as a block has captions, the last vector repeated if there are fewer, each `spread` times."""
        places = np.minimum(np.arange(self.block_shape[1]), len(rows) - 1)
        return self._exact(vectors[self._put(rows[places.repeat(self.spread)])])

    def _exact(self, vectors: Any) -> Any:
        """Some vectors as they are scored."""
        return on_grid(vectors) if self.rounds_blocks else vectors

    def _put(self, array: np.ndarray) -> Any:
        return self.xp.asarray(array, device=self.device)


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
