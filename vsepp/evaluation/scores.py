"""What can be ranked: anything that scores images and captions, and counts the items above a score.

Here are a matrix of scores, and the best items of each query, as a reranker gives them; `vsepp.evaluation.blocks` has embeddings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.evaluation.truth import checked_captions, checked_ids
from vsepp.models.similarity import namespace

# Scores of a matrix that are counted at once: they stay in the cache.
_AT_ONCE = 1 << 20


class Pairs(NamedTuple):
    """Queries and their positives, with the scores to count above, `(n,)` each."""

    images: np.ndarray
    captions: np.ndarray
    scores: np.ndarray


class Scores(Protocol):
    """`scores[image, caption]`, larger is better, of all ranked images and captions."""

    shape: tuple[int, int]
    """Number of images, and of captions."""

    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Score of each image with a caption, rows `(n,)` both, ordered by the query; `direction` (`i2t`, `t2i`) says which side asks."""

    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Twice the number of wrong items above each pair's score, tied items counted half: int64 `(n,)` of both directions.

        Items are captions for the pairs of `i2t`, which are ordered by image, and images for the pairs of `t2i`, ordered by
        caption. Items paired with a query are not wrong items of it.
        """


@dataclass(frozen=True, eq=False)
class ScoredSet:
    """A test set with a model's scores, where embeddings are not known; checked on creation like `Embeddings`."""

    scores: ScoreMatrix | BestLists
    caption_to_image: np.ndarray
    """`(n_captions,)` int64: the row of each caption's image."""
    similarity: str
    """What the scores are, in words: `matrix of scores`."""
    image_ids: np.ndarray | None = None
    """As in `Embeddings`."""
    caption_ids: np.ndarray | None = None

    def __post_init__(self) -> None:
        n_images, n_captions = self.scores.shape
        vars(self).update(
            caption_to_image=checked_captions(self.caption_to_image, n_captions, n_images),
            image_ids=checked_ids(self.image_ids, n_images, "image_ids"),
            caption_ids=checked_ids(self.caption_ids, n_captions, "caption_ids"),
        )


class Blocks:
    """Scores that are computed and counted block by block."""

    shape: tuple[int, int]
    block_shape: tuple[int, int]
    """Number of images and of captions in a block."""
    device: Any = None
    """A torch device; `None`: blocks are NumPy arrays, made and counted on all threads."""

    def block(self, images: slice, captions: slice) -> Any:
        """`scores[image, caption]` of a range of both: an array of its own, since it is written to."""
        raise NotImplementedError

    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Counts, see `Scores.above`."""

        def count(block: tuple[slice, slice, slice, slice]) -> tuple[np.ndarray, np.ndarray]:
            images, captions, asking_images, asking_captions = block
            scores = self.block(images, captions)
            rows, columns, right = (values[asking_images] for values in i2t)
            of_images = twice_above(scores, rows - images.start, columns - captions.start, right)
            rows, columns, right = (values[asking_captions] for values in t2i)
            of_captions = twice_above(scores.T, columns - captions.start, rows - images.start, right)
            return of_images, of_captions

        blocks = [
            (images, captions, between(i2t.images, images), between(t2i.captions, captions))
            for captions in ranges(self.shape[1], self.block_shape[1])
            for images in ranges(self.shape[0], self.block_shape[0])
        ]
        totals = np.zeros(len(i2t.scores), np.int64), np.zeros(len(t2i.scores), np.int64)
        with ThreadPoolExecutor(usable_threads()) as pool:
            counted = pool.map(count, blocks) if self.device is None else map(count, blocks)
            for block, counts in zip(blocks, counted, strict=True):
                for total, part, more in zip(totals, block[2:], counts, strict=True):
                    total[part] += more
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
        On another shape or dtype; on NaN where it is counted.
    """

    def __init__(self, scores: np.ndarray) -> None:
        scores = np.asarray(scores)
        if scores.ndim != 2 or 0 in scores.shape or scores.dtype.kind != "f":
            raise VseppError(
                f"scores: expected floating-point numbers (images, captions), got shape {scores.shape} of {scores.dtype}"
            )
        self.scores, self.shape = scores, scores.shape
        self.block_shape = max(1, _AT_ONCE // self.shape[1]), self.shape[1]

    def in_order(self, images: np.ndarray, captions: np.ndarray) -> ScoreMatrix:
        """A copy with images and captions in another order: the row here of each row there, `(n_images,)` and `(n_captions,)`."""
        return ScoreMatrix(self.scores[np.ix_(images, captions)])

    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Scores of pairs, see `Scores.of`."""
        return np.asarray(self.scores[images, captions])

    def block(self, images: slice, captions: slice) -> np.ndarray:
        """A copy of a part of the matrix."""
        block = np.array(self.scores[images, captions])
        if np.isnan(block).any():
            row = images.start + int(np.argmax(np.isnan(block).any(axis=1)))
            raise VseppError(f"scores: image row {row} holds NaN, which has no rank")
        return block


class BestLists:
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
            wrong = (ordered[:, 0] < -1) | (ordered[:, -1] >= gallery)
            wrong |= ((np.diff(ordered) == 0) & (ordered[:, 1:] >= 0)).any(axis=1)
            wrong |= ~(np.isfinite(scores) | (items == -1)).all(axis=1)
            if wrong.any():
                raise VseppError(
                    f"{direction}: the list of query {np.argmax(wrong)} has an item outside the {gallery} of the gallery, one "
                    f"twice, or a score that is not finite ({wrong.sum()} lists have)"
                )

    def in_order(self, images: np.ndarray, captions: np.ndarray) -> BestLists:
        """The same lists in another order, see `ScoreMatrix.in_order`."""
        (of_images, i2t), (of_captions, t2i) = self.lists["i2t"], self.lists["t2i"]
        # -1, no item, indexes the appended last place, which is -1 again.
        place_of_caption, place_of_image = (np.append(np.argsort(order), -1) for order in (captions, images))
        return BestLists(
            (place_of_caption[of_images[images]], i2t[images]),
            (place_of_image[of_captions[captions]], t2i[captions]),
        )

    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Scores of pairs, see `Scores.of`; minus infinity where the item is not listed."""
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
                twice_above(table, queries[part] - first, items[part], right[part])
                for part, first, table in self._tables(direction, queries)
            ]
            counts.append(np.concatenate(parts))
        return counts[0], counts[1]

    def _tables(self, direction: str, queries: np.ndarray) -> Iterator[tuple[slice, int, np.ndarray]]:
        """Where ascending queries `(n,)` lie within a range, its first query, and its queries' scores of all items."""
        items, scores = self.lists[direction]
        gallery = self.shape[1 if direction == "i2t" else 0]
        for rows in ranges(len(items), max(1, _AT_ONCE // gallery)):
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
    tall, wide = (max(1, _AT_ONCE // other) for other in (n_captions, n_images))
    of_images = np.empty((n_images, min(k, n_captions)), np.int64)
    of_captions = np.empty((n_captions, min(k, n_images)), np.int64)
    for rows in ranges(n_images, tall):
        parts = (scores.block(rows, part) for part in ranges(n_captions, scores.block_shape[1]))
        _, of_images[rows] = best_of_blocks(parts, k)
    for columns in ranges(n_captions, min(wide, scores.block_shape[1])):
        of_captions[columns] = best_columns(scores.block(slice(0, n_images), columns).T, k)
    return of_images, of_captions


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
        found, places = np.take_along_axis(block, order, axis=1), order + start
        if start:
            found, places = (np.concatenate(both, axis=1) for both in ((scores, found), (columns, places)))
            order = best_columns(found, k)
            found, places = (np.take_along_axis(values, order, axis=1) for values in (found, places))
        scores, columns, start = found, places, start + block.shape[1]
    return scores, columns


def twice_above(scores: Any, queries: np.ndarray, items: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Twice the number of wrong items above some scores: an item above counts two, by > and by ≥, a tied item counts one, by ≥ alone.

    Parameters
    ----------
    scores
        `(n, m)`, of all queries with some items, an array or a tensor; changed meanwhile, and restored.
    queries, items, right
        `(q,)`, each query's row, its positive's column, which may lie outside, and the score to count above.

    Returns
    -------
    np.ndarray
        `(q,)` int64.
    """
    if not len(queries):
        return np.zeros(0, np.int64)
    xp = namespace(scores)
    inside = (items >= 0) & (items < scores.shape[1])
    own = queries[inside], items[inside]
    of_own = scores[own]
    scores[own] = np.nan  # so that no comparison counts them
    # Sorting a row costs about as much as two comparisons with all of it.
    if xp is np and len(queries) > len(scores):
        ordered = np.array(scores, order="C")
        ordered.sort(axis=1)  # NaN comes last
        wrong = ordered.shape[1] - np.bincount(own[0], minlength=len(ordered))[queries]
        below, up_to = (count_below(ordered, queries, right, within) for within in (np.less, np.less_equal))
        twice = 2 * wrong - below - up_to
    else:
        rows, wanted = (xp.asarray(values, device=scores.device) for values in (queries, right))
        counts = []
        # At most as many queries at a time as `scores` has rows: this bounds the copies of rows.
        for part in ranges(len(queries), len(scores)):
            some = scores[rows[part]]
            counts.append((some > wanted[part, None]).sum(1) + (some >= wanted[part, None]).sum(1))
        twice = xp.concat(counts)
    scores[own] = of_own
    return twice if xp is np else twice.cpu().numpy()


def count_below(
    ordered: np.ndarray, rows: np.ndarray, values: np.ndarray, within: Callable[..., np.ndarray]
) -> np.ndarray:
    """How many numbers of a row lie below a value, int64 `(q,)`: a binary search of all at once.

    Parameters
    ----------
    ordered
        `(n, m)`, each row ascending.
    rows, values
        `(q,)`, which row, and which value.
    within
        `np.less`, or `np.less_equal`, which counts equal ones too.
    """
    flat, length = ordered.reshape(-1), ordered.shape[1]
    found = np.zeros(len(rows), np.int64)
    for step in (1 << bit for bit in reversed(range(length.bit_length()))):
        further = found + step
        last = rows * length + np.minimum(further, length) - 1
        found = np.where((further <= length) & within(flat[last], values), further, found)
    return found


def similarity_text(similarity: str) -> str:
    """A similarity as it is printed: a component's name needs the word `similarity` after it, the words of a `ScoredSet` do not."""
    return f"{similarity} similarity" if similarity.isidentifier() else similarity


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
