"""The items with the highest scores of each query: how they are found, and lists of them as scores to rank.

The best stand first, equal ones in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.evaluation.scores import (
    AT_ONCE,
    Blocks,
    Pairs,
    Rows,
    Scores,
    between,
    counted_from_one,
    counts_above,
    ranges,
)


class BestLists(Scores):
    """The best items of each query with their scores. Items that are not listed are tied with each other below them.

    Parameters
    ----------
    i2t, t2i
        Captions for each image, and images for each caption: rows `(n_queries, k)`, and their scores; k may differ. A shorter list ends
        in items -1; their scores are not read.

    Raises
    ------
    VseppError
        On shapes that do not fit, an item outside the gallery or twice in a list, and scores that are not finite.
    """

    ARRAYS = ("i2t_items", "i2t_scores", "t2i_items", "t2i_scores")

    def __init__(self, i2t: tuple[np.ndarray, np.ndarray], t2i: tuple[np.ndarray, np.ndarray]) -> None:
        self.lists = {"i2t": i2t, "t2i": t2i}
        for direction, (items, scores) in self.lists.items():
            if items.ndim != 2 or items.shape != scores.shape or items.dtype.kind not in "iu":
                raise VseppError(
                    f"{direction}: expected rows of items and their scores (queries, k), got {items.dtype} {items.shape} and "
                    f"{scores.shape}"
                )
        self.shape = len(i2t[0]), len(t2i[0])
        for (direction, (items, scores)), gallery in zip(self.lists.items(), self.shape[::-1], strict=True):
            if scores.dtype.kind not in "fiu":
                raise VseppError(f"{direction}_scores: expected floating-point numbers, got {scores.dtype}")
            if not 0 < items.shape[1] <= gallery:
                raise VseppError(
                    f"{direction}: expected rows (queries, k) with k from 1 to {gallery}, got {items.shape}"
                )
            if (empty := (items == -1).all(axis=1)).any():
                raise VseppError(
                    f"{direction}_items: the list of query {np.argmax(empty)} is empty ({empty.sum()} lists are); expected at least "
                    "one item: leave out what was not searched"
                )
            ordered = np.sort(items, axis=1)
            wrong = (ordered[:, 0] < -1) | (ordered[:, -1] >= gallery)
            wrong |= ((np.diff(ordered) == 0) & (ordered[:, 1:] >= 0)).any(axis=1)
            wrong |= ~(np.isfinite(scores) | (items == -1)).all(axis=1)
            if wrong.any():
                raise VseppError(
                    f"{direction}: the list of query {np.argmax(wrong)} has an item outside the {gallery} of the gallery, one "
                    f"twice, or a score that is not finite ({wrong.sum()} lists have){counted_from_one(items[items >= 0], gallery)}"
                )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> BestLists:
        """From the arrays of a file."""
        i2t_items, i2t, t2i_items, t2i = (arrays[name] for name in cls.ARRAYS)
        return cls((i2t_items, i2t), (t2i_items, t2i))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """As a file has them."""
        (i2t_items, i2t), (t2i_items, t2i) = self.lists.values()
        return dict(zip(self.ARRAYS, (i2t_items, i2t, t2i_items, t2i), strict=True))

    @property
    def depths(self) -> dict[str, int]:
        """Length of the shortest list of each direction, where it is shorter than the gallery."""
        shortest = {
            direction: int((items >= 0).sum(axis=1).min()) for direction, (items, _) in self.lists.items()
        }
        galleries = zip(shortest, self.shape[::-1], strict=True)
        return {
            direction: shortest[direction]
            for direction, gallery in galleries
            if shortest[direction] < gallery
        }

    @property
    def words(self) -> str:
        """How long the lists are."""
        depths = [items.shape[1] for items, _ in self.lists.values()]
        short = ", some shorter" if any((items < 0).any() for items, _ in self.lists.values()) else ""
        return f"lists of the {' and '.join(map(str, dict.fromkeys(depths)))} best{short}"

    def part(self, images: Rows, captions: Rows) -> BestLists:
        """All lists: those of a part are not known."""
        if (len(np.arange(self.shape[0])[images]), len(np.arange(self.shape[1])[captions])) != self.shape:
            raise VseppError(
                f"{self.words}: expected protocol 5K, which ranks all images at once; a list of the whole gallery holds few "
                "items of a fold, and recalls from these would be too low; give a matrix of scores or embeddings"
            )
        return self

    def pair_scores(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Scores of pairs, see `Scores.pair_scores`; minus infinity where the item is not listed."""
        queries, items = (images, captions) if direction == "i2t" else (captions, images)
        tables = self._tables(direction, queries)
        return np.concatenate([table[queries[part] - first, items[part]] for part, first, table in tables])

    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Counts, see `Scores.above`."""
        counts = []
        for direction, queries, items, right in (
            ("i2t", i2t.images, i2t.captions, i2t.scores),
            ("t2i", t2i.captions, t2i.images, t2i.scores),
        ):
            parts = [
                counts_above(table, queries[part] - first, items[part], right[part])
                for part, first, table in self._tables(direction, queries)
            ]
            counts.append(np.concatenate(parts, axis=1))
        return counts[0], counts[1]

    def _tables(self, direction: str, queries: np.ndarray) -> Iterator[tuple[slice, int, np.ndarray]]:
        """Where ascending queries `(n,)` lie within a range, its first query, and its queries' scores of all items."""
        items, scores = self.lists[direction]
        gallery = self.shape[1 if direction == "i2t" else 0]
        for rows in ranges(len(items), max(1, AT_ONCE // gallery)):
            table = np.full((rows.stop - rows.start, gallery + 1), -np.inf)
            np.put_along_axis(table, items[rows], scores[rows], axis=1)  # -1 is the last column
            yield between(queries, rows), rows.start, table[:, :gallery]


def best_items(scores: Blocks, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k captions of each image, int64 `(n_images, k)`, and k images of each caption, `(n_captions, k)`, with the highest scores.

    The best stands first; equal ones keep their order.

    Parameters
    ----------
    scores
        Scores on a CPU.
    k
        Number of items; fewer where the gallery has fewer.
    """
    n_images, n_captions = scores.shape
    tall, wide = (max(1, AT_ONCE // other) for other in (n_captions, n_images))
    best_captions = np.empty((n_images, min(k, n_captions)), np.int64)
    best_images = np.empty((n_captions, min(k, n_images)), np.int64)
    for rows in ranges(n_images, tall):
        parts = (scores.block(rows, part) for part in ranges(n_captions, scores.block_shape[1]))
        _, best_captions[rows] = best_of_blocks(parts, k)
    for columns in ranges(n_captions, min(wide, scores.block_shape[1])):
        best_images[columns] = best_columns(scores.block(slice(0, n_images), columns).T, k)
    return best_captions, best_images


def best_columns(scores: np.ndarray, k: int) -> np.ndarray:
    """The k columns with the highest scores of each row, the best first, equal ones in their order.

    Parameters
    ----------
    scores
        `(n, m)`, no NaN.
    k
        From 1; all columns where there are fewer.

    Returns
    -------
    np.ndarray
        int64 `(n, k)`.
    """
    lower = -scores
    if k >= scores.shape[1]:
        return np.argsort(lower, axis=1, kind="stable")
    best = np.empty((len(scores), k), np.int64)
    for row, last in enumerate(np.partition(lower, k - 1, axis=1)[:, k - 1]):
        # All that are tied with the k-th are there, so that the first of them are taken.
        columns = np.flatnonzero(lower[row] <= last)
        best[row] = columns[np.argsort(lower[row, columns], kind="stable")[:k]]
    return best


def best_of_blocks(blocks: Iterable[np.ndarray], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest scores of each row and their columns, the best first, equal ones in the order of their columns.

    Parameters
    ----------
    blocks
        At least one block, `(n, m)` of any m: its columns follow the columns of the block before. One block is held at a time.
    k
        From 1; all columns where there are fewer.

    Returns
    -------
    tuple
        Scores, and columns, int64, both `(n, k)`.

    Raises
    ------
    VseppError
        If a score is NaN.
    """
    start, scores, columns = 0, np.empty(0), np.empty(0, np.int64)
    for block in blocks:
        if (unknown := np.isnan(block).any(axis=0)).any():
            raise VseppError(f"scores: candidate {start + np.argmax(unknown)} has NaN, which has no rank")
        order = best_columns(block, k)
        best, places = np.take_along_axis(block, order, axis=1), order + start
        if start:
            best, places = (np.concatenate(both, axis=1) for both in ((scores, best), (columns, places)))
            order = best_columns(best, k)
            best, places = (np.take_along_axis(values, order, axis=1) for values in (best, places))
        scores, columns, start = best, places, start + block.shape[1]
    return scores, columns
