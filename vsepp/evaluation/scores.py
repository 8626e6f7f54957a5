"""What can be ranked: anything that scores images and captions, and counts what lies above a score.

Embeddings are ranked by `vsepp.evaluation.products` or `.blocks`; here are a matrix of scores, and the best items of each query,
as a reranker gives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np

from vsepp.errors import VseppError
from vsepp.similarity import namespace

# Scores of a matrix that are counted at once: they stay in the cache.
_AT_ONCE = 1 << 20


class Pairs(NamedTuple):
    """Queries and their positives, with the scores above which is counted, `(n,)` each."""

    images: np.ndarray
    captions: np.ndarray
    scores: np.ndarray


class Scores(Protocol):
    """`scores[image, caption]`, larger is better, of all that are ranked."""

    shape: tuple[int, int]
    """Images, captions."""

    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Score of each image with a caption, rows `(n,)` both; `direction` (`i2t`, `t2i`) says which of them asks."""

    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Twice the number of wrong items above each pair's score, those tied with it counted half: int64 `(n,)` of both directions.

        Items are captions for the pairs of `i2t`, which are ordered by image, and images for those of `t2i`, ordered by caption. What
        is paired with a query is no wrong item of it.
        """


class ScoreMatrix:
    """A matrix of scores.

    Parameters
    ----------
    scores
        `(n_images, n_captions)` floating-point, an array or a mapped file; no NaN.

    Raises
    ------
    VseppError
        On another shape or dtype; on NaN where it is counted.
    """

    def __init__(self, scores: np.ndarray) -> None:
        scores = np.asarray(scores)
        if scores.ndim != 2 or 0 in scores.shape or scores.dtype.kind != "f":
            raise VseppError(
                f"scores: expected floating-point numbers (images, captions), got shape {scores.shape} of {scores.dtype}"
            )
        self.scores, self.shape = scores, scores.shape

    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Scores of pairs, see `Scores.of`."""
        return np.asarray(self.scores[images, captions])

    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Counts, see `Scores.above`."""
        of_images, of_captions = (np.zeros(len(pairs.scores), np.int64) for pairs in (i2t, t2i))
        height = max(1, _AT_ONCE // self.shape[1])
        for top in range(0, self.shape[0], height):
            block = np.array(self.scores[top : top + height])
            if np.isnan(block).any():
                row = top + int(np.argmax(np.isnan(block).any(axis=1)))
                raise VseppError(f"scores: image row {row} holds NaN, which has no rank")
            here = between(i2t.images, slice(top, top + len(block)))
            places = i2t.images[here] - top
            with blanked(block, places, i2t.captions[here]):
                of_images[here] = along(block, places, i2t.scores[here])
            with blanked(block, t2i.images - top, t2i.captions):
                of_captions += down(block, t2i.captions, t2i.scores)
        return of_images, of_captions


class BestLists:
    """The best items of each query with their scores. Items that are not listed are tied with each other below them.

    Parameters
    ----------
    i2t, t2i
        Of each image captions, and of each caption images: rows `(n_queries, k)`, and their scores; k may differ.

    Raises
    ------
    VseppError
        On shapes that do not fit, an item outside the gallery or twice in a list, and scores that are not finite.
    """

    def __init__(self, i2t: tuple[np.ndarray, np.ndarray], t2i: tuple[np.ndarray, np.ndarray]) -> None:
        self.shape = len(i2t[0]), len(t2i[0])
        self.lists = {"i2t": i2t, "t2i": t2i}
        for (direction, (items, scores)), gallery in zip(self.lists.items(), self.shape[::-1], strict=True):
            whole = items.ndim == 2 and items.dtype.kind in "iu" and items.shape == scores.shape
            if not whole or not 0 < items.shape[1] <= gallery:
                raise VseppError(
                    f"{direction}: expected rows of items and their scores (queries, k) with k from 1 to {gallery}, got "
                    f"{items.dtype} {items.shape} and {scores.shape}"
                )
            ordered = np.sort(items, axis=1)
            wrong = (ordered[:, 0] < 0) | (ordered[:, -1] >= gallery) | (np.diff(ordered) == 0).any(axis=1)
            wrong |= ~np.isfinite(scores).all(axis=1)
            if wrong.any():
                raise VseppError(
                    f"{direction}: the list of query {np.argmax(wrong)} has an item outside the {gallery} of the gallery, one "
                    f"twice, or a score that is not finite ({wrong.sum()} lists have)"
                )

    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Scores of pairs, see `Scores.of`; minus infinity where the item is not listed."""
        queries, wanted = (images, captions) if direction == "i2t" else (captions, images)
        items, scores = self.lists[direction]
        found = np.full(len(wanted), -np.inf)
        for part in ranges(len(wanted), max(1, _AT_ONCE // items.shape[1])):
            pair, place = np.nonzero(items[queries[part]] == wanted[part, None])
            found[part][pair] = scores[queries[part][pair], place]
        return found

    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Counts, see `Scores.above`."""
        found = []
        for direction, queries, pairs, gallery in (
            ("i2t", i2t.images, i2t, self.shape[1]),
            ("t2i", t2i.captions, t2i, self.shape[0]),
        ):
            scores = self.lists[direction][1]
            twice = np.where(np.isneginf(pairs.scores), gallery - scores.shape[1], 0)
            for part in ranges(len(queries), max(1, _AT_ONCE // scores.shape[1])):
                twice[part] += _twice(scores[queries[part]], pairs.scores[part, None], 1)
            found.append(twice - _among_own(queries, pairs.scores))
        return found[0], found[1]


def _among_own(queries: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Twice the number of a query's own items above each of them, those tied with it counted half, itself too."""
    _, starts, counts = np.unique(queries, return_index=True, return_counts=True)
    twice = np.empty(len(scores), np.int64)
    for count in np.unique(counts):
        of_count = starts[counts == count]
        for part in ranges(len(of_count), max(1, _AT_ONCE // count**2)):
            places = of_count[part, None] + np.arange(count)
            own = scores[places]
            twice[places] = _twice(own[:, None], own[:, :, None], 2)
    return twice


@contextmanager
def blanked(scores: Any, rows: Any, cols: Any) -> Iterator[None]:
    """Within, scores are without those of some rows and columns, `(n,)` both, which may lie outside: comparisons with NaN are false."""
    there = (rows >= 0) & (rows < scores.shape[0]) & (cols >= 0) & (cols < scores.shape[1])
    place = rows[there], cols[there]
    right = scores[place]
    scores[place] = np.nan
    yield
    scores[place] = right


def between(ordered: np.ndarray, rows: slice) -> slice:
    """Where ascending numbers lie within a range."""
    return slice(*np.searchsorted(ordered, (rows.start, rows.stop)))


def along(scores: Any, rows: Any, right: Any) -> Any:
    """Twice the number of items above scores of `(n, m)` in their rows: an item above counts two, a tied one counts one.

    Parameters
    ----------
    scores
        `(n, m)`.
    rows, right
        `(q,)`, the row and the score of each sought item; as many at a time as there are rows.
    """
    found = [
        _twice(scores[rows[part]], right[part, None], 1) for part in ranges(len(rows), max(1, len(scores)))
    ]
    return namespace(scores).concat(found) if found else rows


def down(scores: Any, columns: Any, right: Any) -> Any:
    """The same in columns."""
    width = scores.shape[1]
    if len(columns) == width and bool((columns[1:] > columns[:-1]).all()):
        return _twice(scores, right, 0)  # each column once: no copy
    found = [_twice(scores[:, columns[part]], right[part], 0) for part in ranges(len(columns), width)]
    return namespace(scores).concat(found) if found else columns


def _twice(scores: Any, right: Any, axis: int) -> Any:
    """By > an item above counts, by ≥ a tied one too."""
    return (scores > right).sum(axis) + (scores >= right).sum(axis)


def ranges(total: int, size: int) -> Iterator[slice]:
    """Ranges of at most `size` that cover `total`."""
    return (slice(start, min(start + size, total)) for start in range(0, total, size))
