"""Ranks under any similarity, counted in blocks of scores: with NumPy on a CPU's threads, or with torch on a device.

Ties must be exact: equal pairs of vectors need bitwise equal scores wherever they lie. Inner products take the grid of
`vsepp.evaluation.products`, where every sum is exact. Other similarities sum over the dimensions in an
order that can depend on the number of pairs scored at once and, on a GPU, on the pair's position in memory. So `score` is
always called with the same number of pairs, as two whole arrays, for correct and wrong pairs alike.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from vsepp.errors import VseppError
from vsepp.evaluation.products import on_grid, usable_threads
from vsepp.evaluation.scores import Pairs, along, between, blanked, down, ranges
from vsepp.similarity import namespace

# Elements of the largest temporaries. On a CPU they fit a core's cache; with fewer, time is lost passing the interpreter's
# lock between threads. 128 MB of float64 keep a GPU busy.
_ON_CPU, _ON_DEVICE = 1 << 17, 1 << 24

Score = Callable[[Any, Any], Any]
"""Images and captions `(n, d)` → the score of each with the other, `(n,)`."""


class BlockCounter:
    """Scores of embeddings, see `vsepp.evaluation.scores.Scores`.

    Parameters
    ----------
    images, captions
        float32 `(n_images, d)` and `(n_captions, d)`.
    score
        The similarity; `None` for the inner product.
    device
        Where scores are computed and counted; `None` for NumPy. It needs memory for the images' embeddings and a few times
        128 MB, or for one caption's scores if these take more.
    """

    def __init__(self, images: np.ndarray, captions: np.ndarray, score: Score | None, device: Any) -> None:
        self.shape = len(images), len(captions)
        self.captions, self.score, self.device = captions, score, device
        self.xp = np if device is None else namespace(device)
        self.images = self._put(on_grid(images) if score is None else images)
        n_images, dims = images.shape
        # A GPU loads four numbers of a row at once, aligned in memory: only every fourth row is summed alike.
        self.spread = 4 if score and device and dims % 4 else 1
        room = _ON_DEVICE // max(n_images, self.spread * dims) if device else _ON_CPU // dims
        self.width = max(1, min(room, len(captions)))

    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Scores of pairs, see `Scores.of`."""
        score = self.score or self.xp.linalg.vecdot
        found = []
        for start in range(0, len(images), self.width):
            rows = self.images[self._put(self._rows(images, start))]
            found.append(self._host(score(rows, self._captions(captions, start))[:: self.spread]))
        return np.concatenate(found)[: len(images)] if found else np.zeros(0)

    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Counts, see `Scores.above`."""
        n_images, n_captions = self.shape
        of_images, of_captions = (np.zeros(len(pairs.scores), np.int64) for pairs in (i2t, t2i))
        images, wanted, right = map(self._put, i2t)
        shown, columns, own = map(self._put, t2i)
        threads = usable_threads() if self.device is None else 1
        stripes = list(ranges(n_images, -(-n_images // (4 * threads if self.device is None else 1))))
        parts = [between(i2t.images, stripe) for stripe in stripes]
        every = np.arange(n_captions)
        with ThreadPoolExecutor(threads) as pool:
            for cols in ranges(n_captions, self.width):
                captions = self._captions(every, cols.start)
                asked = between(t2i.captions, cols)

                def count(
                    stripe: slice,
                    part: slice,
                    cols: slice = cols,
                    captions: Any = captions,
                    asked: slice = asked,
                ) -> tuple[Any, Any]:
                    scores = self._scores(self.images[stripe], captions)[:, : cols.stop - cols.start]
                    places, within = images[part] - stripe.start, columns[asked] - cols.start
                    with blanked(scores, places, wanted[part] - cols.start):
                        of_rows = along(scores, places, right[part])
                    with blanked(scores, shown[asked] - stripe.start, within):
                        return of_rows, down(scores, within, own[asked])

                for part, counted in zip(parts, pool.map(count, stripes, parts), strict=True):
                    of_images[part] += self._host(counted[0])
                    of_captions[asked] += self._host(counted[1])
        return of_images, of_captions

    def _scores(self, images: Any, captions: Any) -> Any:
        """`scores[image, caption]` of some images and the captions of a call."""
        if self.score is None:
            return images @ captions.T
        whole = (len(captions), 1)
        found = [self.score(self.xp.tile(image, whole), captions)[:: self.spread] for image in images]
        scores = self.xp.stack(found)
        if self.xp.isnan(scores).any():
            raise VseppError(
                "the similarity of some image and caption is NaN, which has no rank; expected a number for any finite "
                "embeddings: correct the similarity"
            )
        return scores

    def _captions(self, rows: np.ndarray, start: int) -> Any:
        """The captions of one call, of `rows` from `start` on."""
        rows = self.captions[self._rows(rows, start)]
        return self._put(on_grid(rows) if self.score is None else rows)

    def _rows(self, rows: np.ndarray, start: int) -> np.ndarray:
        """The rows of one call: `width` of them, the last one repeated if there are fewer, each `spread` times."""
        places = np.minimum(np.arange(start, start + self.width), len(rows) - 1)
        return rows[places.repeat(self.spread)]

    def _put(self, array: np.ndarray) -> Any:
        return self.xp.asarray(array, device=self.device)

    def _host(self, array: Any) -> np.ndarray:
        return array if self.device is None else array.cpu().numpy()
