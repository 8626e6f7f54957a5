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
from vsepp.evaluation.products import on_grid, ranges, usable_threads
from vsepp.similarity import namespace

# Elements of the largest temporaries. On a CPU they fit a core's cache; with fewer, time is lost passing the interpreter's
# lock between threads. 128 MB of float64 keep a GPU busy.
_ON_CPU, _ON_DEVICE = 1 << 17, 1 << 24

Score = Callable[[Any, Any], Any]
"""Images and captions `(n, d)` → the score of each with the other, `(n,)`."""


class BlockCounter:
    """Counts the wrong items above each query's correct one, and those tied with it.

    Parameters
    ----------
    images, captions
        float32 `(n_images, d)` and `(n_captions, d)`.
    owner
        `(n_captions,)` int64: the row of each caption's image.
    score
        The similarity; `None` for the inner product.
    device
        Where scores are computed and counted; `None` for NumPy. It needs memory for the images' embeddings and a few times
        128 MB, or for one caption's scores if these take more.
    """

    def __init__(
        self, images: np.ndarray, captions: np.ndarray, owner: np.ndarray, score: Score | None, device: Any
    ) -> None:
        self.captions, self.owner, self.score, self.device = captions, owner, score, device
        self.xp = np if device is None else namespace(device)
        self.images = self._put(on_grid(images) if score is None else images)
        n_images, dims = images.shape
        # A GPU loads four numbers of a row at once, aligned in memory: only every fourth row is summed alike.
        self.spread = 4 if score and device and dims % 4 else 1
        room = _ON_DEVICE // max(n_images, self.spread * dims) if device else _ON_CPU // dims
        self.width = max(1, min(room, len(captions)))

    def own(self) -> np.ndarray:
        """Score of each caption with its image, `(n_captions,)`."""
        score = self.score or self.xp.linalg.vecdot
        found = []
        for start in range(0, len(self.captions), self.width):
            images = self.images[self._put(self._rows(self.owner, start))]
            found.append(self._host(score(images, self._captions(start))[:: self.spread]))
        return np.concatenate(found)[: len(self.captions)]

    def count(self, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Twice the rank of each caption for its image, and of each caption's image, int64 `(n_captions,)` both.

        Parameters
        ----------
        own
            Score of each caption with its image.
        """
        order = np.argsort(self.owner, kind="stable")
        sorted_owner, n_images = self.owner[order], int(self.owner.max()) + 1
        of_images, of_captions = np.zeros(len(own), np.int64), np.zeros(len(own), np.int64)
        rows, owners, images, right, own = map(
            self._put, (np.arange(n_images), self.owner, sorted_owner, own[order], own)
        )
        threads = usable_threads() if self.device is None else 1
        stripes = list(ranges(n_images, -(-n_images // (4 * threads if self.device is None else 1))))
        parts = [slice(*np.searchsorted(sorted_owner, (one.start, one.stop))) for one in stripes]
        with ThreadPoolExecutor(threads) as pool:
            for cols in ranges(len(own), self.width):
                captions = self._captions(cols.start)

                def count(
                    stripe: slice, part: slice, cols: slice = cols, captions: Any = captions
                ) -> tuple[Any, Any]:
                    scores = self._scores(self.images[stripe], captions)[:, : cols.stop - cols.start]
                    scores = without_own(scores, rows[stripe], owners[cols])
                    return along(scores, images[part] - stripe.start, right[part]), down(scores, own[cols])

                for part, counted in zip(parts, pool.map(count, stripes, parts), strict=True):
                    of_images[part] += self._host(counted[0])
                    of_captions[cols] += self._host(counted[1])
        back = np.empty_like(of_images)
        back[order] = of_images
        return back, of_captions

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

    def _captions(self, start: int) -> Any:
        rows = self._rows(self.captions, start)
        return self._put(on_grid(rows) if self.score is None else rows)

    def _rows(self, of_captions: np.ndarray, start: int) -> np.ndarray:
        """The rows of one call: `width` rows, the last one repeated if there are fewer, each `spread` times."""
        rows = np.minimum(np.arange(start, start + self.width), len(of_captions) - 1)
        return of_captions[rows.repeat(self.spread)]

    def _put(self, array: np.ndarray) -> Any:
        return self.xp.asarray(array, device=self.device)

    def _host(self, array: Any) -> np.ndarray:
        return array if self.device is None else array.cpu().numpy()


def without_own(scores: Any, images: Any, owners: Any) -> Any:
    """Blank out images' own captions, which are not wrong items: comparisons with NaN are false.

    Parameters
    ----------
    scores
        `(n, m)`, `scores[image, caption]`.
    images, owners
        `(n,)`, the rows of the images, and `(m,)`, the row of each caption's image.
    """
    return namespace(scores).where(images[:, None] == owners, np.nan, scores)


def along(scores: Any, rows: Any, right: Any) -> Any:
    """Twice the rank of queries' correct items in their rows: an item above counts two, a tied one counts one.

    Parameters
    ----------
    scores
        `(n, m)`.
    rows, right
        `(q,)`, the row and the score of each correct item; as many at a time as there are rows.
    """
    found = [
        _twice(scores[rows[part]], right[part, None], 1) for part in ranges(len(rows), max(1, len(scores)))
    ]
    return namespace(scores).concat(found) if found else rows


def down(scores: Any, right: Any) -> Any:
    """Twice the rank of the correct item of each column, whose score is `right`, `(m,)`."""
    return _twice(scores, right, 0)


def _twice(scores: Any, right: Any, axis: int) -> Any:
    """By > an item above counts, by ≥ a tied one too."""
    return (scores > right).sum(axis) + (scores >= right).sum(axis)
