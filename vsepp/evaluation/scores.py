"""What can be ranked: embeddings with a similarity, a matrix of scores, and the best items of each query, as a matcher gives them.

Scores are `scores[image, caption]`, always that way round, and larger is better. They are computed and counted block by block, with NumPy
on a CPU's threads or with torch on a device, so that no `(n_images, n_captions)` array is ever in memory. Nothing is sorted: a rank is a
count.

Ties must be exact: equal pairs of vectors need bitwise equal scores wherever they lie. Sums of floating-point numbers do not
ensure this: the kernels of a matrix product sum in an order that depends on an element's position in the matrix, so that rounding
errors would decide the ranks of a collapsed model.

Embeddings are scored in `embedding_scores`, lists of the best items in `best`; a matrix of scores is here.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.models.similarity.common import namespace

Rows = slice | np.ndarray
"""Some images or captions."""

# Scores that are counted or sorted at once: they stay in the cache.
AT_ONCE = 1 << 20


class Pairs(NamedTuple):
    """Queries and their positives, with the scores to count above, `(n,)` each."""

    images: np.ndarray
    captions: np.ndarray
    scores: np.ndarray


class Scores(ABC):
    """`scores[image, caption]`, larger is better, of all ranked images and captions."""

    ARRAYS: ClassVar[tuple[str, ...]]
    """Names of its arrays in a file."""
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    """Names of arrays that a file may lack."""
    shape: tuple[int, int]
    """Number of images, and of captions."""

    @property
    def depths(self) -> dict[str, int]:
        """Direction → how many of each query's best items are known; of directions where all items are scored, nothing."""
        return {}

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Scores:
        """From the arrays of a file."""

    @property
    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """As a file has them."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What the scores are: `dot`, `matrix of scores`."""

    @abstractmethod
    def part(self, images: Rows, captions: Rows) -> Scores:
        """Scores of some images and captions.

        Raises
        ------
        VseppError
            If the scores of a part are not known.
        """

    def among(self, task: str) -> Scores | None:
        """Scores of captions (`t2t`) or images (`i2i`) with each other; `None` where they are not known."""
        return None

    @abstractmethod
    def pair_scores(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Score of each image with a caption, rows `(n,)` both, ordered by the query; `direction` (`i2t`, `t2i`) says which side asks."""

    @abstractmethod
    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Number of wrong items above each pair's score, and of those not below it: int64 `(2, n)` of both directions.

        Items are captions for the pairs of `i2t`, which are ordered by image, and images for the pairs of `t2i`, ordered by
        caption. Items paired with a query are not wrong items of it.
        """


class Blocks(Scores):
    """Scores that are computed and counted block by block."""

    block_shape: tuple[int, int]
    """Number of images and of captions in a block."""
    device: Any = None
    """A torch device; `None`: blocks are NumPy arrays, made and counted on all threads."""

    @abstractmethod
    def block(self, images: slice, captions: slice) -> Any:
        """`scores[image, caption]` of a range of both: an array of its own, since it is written to."""

    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Counts, see `Scores.above`."""
        return self._counted(i2t, t2i, self._blocks())

    def _blocks(self) -> list[tuple[slice, slice]]:
        return [
            (images, captions)
            for captions in ranges(self.shape[1], self.block_shape[1])
            for images in ranges(self.shape[0], self.block_shape[0])
        ]

    def _counted(
        self, i2t: Pairs, t2i: Pairs, blocks: list[tuple[slice, slice]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Counts within some blocks."""

        def count(block: tuple[slice, slice, slice, slice]) -> tuple[np.ndarray, np.ndarray]:
            images, captions, asking_images, asking_captions = block
            scores = self.block(images, captions)
            rows, columns, right = (values[asking_images] for values in i2t)
            image_counts = counts_above(scores, rows - images.start, columns - captions.start, right)
            rows, columns, right = (values[asking_captions] for values in t2i)
            caption_counts = counts_above(scores.T, columns - captions.start, rows - images.start, right)
            return image_counts, caption_counts

        asked = [
            (images, captions, between(i2t.images, images), between(t2i.captions, captions))
            for images, captions in blocks
        ]
        totals = np.zeros((2, len(i2t.scores)), np.int64), np.zeros((2, len(t2i.scores)), np.int64)
        with ThreadPoolExecutor(usable_threads()) as pool:
            counted = pool.map(count, asked) if self.device is None else map(count, asked)
            for block, counts in zip(asked, counted, strict=True):
                for total, part, more in zip(totals, block[2:], counts, strict=True):
                    total[:, part] += more
        return totals


class ScoreMatrix(Blocks):
    """A matrix of scores.

    Parameters
    ----------
    scores
        `(n_images, n_captions)` floating-point, an array or a mapped file; no NaN.

    Raises
    ------
    VseppError
        On another shape or dtype, and on NaN.
    """

    ARRAYS = ("scores",)

    def __init__(self, scores: np.ndarray) -> None:
        scores = np.asarray(scores)
        if scores.ndim != 2 or 0 in scores.shape or scores.dtype.kind != "f":
            raise VseppError(
                f"scores: expected floating-point numbers (images, captions), got shape {scores.shape} of {scores.dtype}"
                + converted(scores, "scores")
            )
        if (unknown := np.isnan(scores.max(axis=1))).any():
            raise VseppError(f"scores: image row {np.argmax(unknown)} holds NaN, which has no rank")
        self.scores, self.shape = scores, scores.shape
        self.block_shape = max(1, AT_ONCE // self.shape[1]), self.shape[1]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> ScoreMatrix:
        """From the arrays of a file."""
        return cls(arrays["scores"])

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """As a file has them."""
        return {"scores": self.scores}

    @property
    def words(self) -> str:
        """The same of all."""
        return "matrix of scores"

    def part(self, images: Rows, captions: Rows) -> ScoreMatrix:
        """A part of the matrix."""
        return ScoreMatrix(self.scores[images][:, captions])

    def pair_scores(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Scores of pairs, see `Scores.pair_scores`."""
        return np.asarray(self.scores[images, captions])

    def block(self, images: slice, captions: slice) -> np.ndarray:
        """A copy of a part of the matrix."""
        return np.array(self.scores[images, captions])


def counts_above(scores: Any, queries: np.ndarray, items: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Number of wrong items above some scores, and of those above or tied.

    Parameters
    ----------
    scores
        `(n, m)`, of all queries with some items, an array or a tensor; changed meanwhile, and restored.
    queries, items, right
        `(q,)`, each query's row, ascending, its positive's column, which may lie outside, and the score to count above.

    Returns
    -------
    np.ndarray
        `(2, q)` int64.
    """
    counts = np.zeros((2, len(queries)), np.int64)
    if not len(queries):
        return counts
    xp = namespace(scores)
    inside = (items >= 0) & (items < scores.shape[1])
    own = queries[inside], items[inside]
    own_scores = scores[own]
    scores[own] = np.nan  # so that no comparison counts them
    place = np.arange(len(queries)) - np.searchsorted(queries, queries)
    for asked in (place == number for number in range(place.max() + 1)):  # of each row one score at a time
        rows, wanted = (xp.asarray(values[asked], device=scores.device) for values in (queries, right))
        some = scores if len(rows) == len(scores) else scores[rows]
        asked_counts = xp.stack([(some > wanted[:, None]).sum(1), (some >= wanted[:, None]).sum(1)])
        counts[:, asked] = asked_counts if xp is np else asked_counts.cpu().numpy()
    scores[own] = own_scores
    return counts


def counted_from_one(rows: np.ndarray, count: int) -> str:
    """What makes rows right that count from 1 to `count`, as the end of a message."""
    return "; rows count from 0: subtract 1" if rows.min() == 1 and rows.max() == count else ""


def converted(array: np.ndarray, what: str) -> str:
    """What makes whole numbers right, as the end of a message."""
    return f'; convert: {what}.astype("float32")' if array.dtype.kind in "iu" else ""


def between(ordered: np.ndarray, rows: slice) -> slice:
    """Where ascending numbers lie within a range."""
    return slice(*np.searchsorted(ordered, (rows.start, rows.stop)))


def ranges(total: int, size: int) -> Iterator[slice]:
    """Ranges of at most `size` that cover `total`."""
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def usable_threads() -> int:
    """Cores that this process may use, or the number that the scheduler gave it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) else cores
