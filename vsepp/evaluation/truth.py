"""Truths: which items are correct for which queries.

An image's own captions are one truth, under each protocol:

| protocol | folds | metrics |
|---|---|---|
| `1K` | the first `fold_size` images | of that fold (all of Flickr30K's 1,000) |
| `5x1K` | five consecutive folds of `fold_size` images | mean of each metric over the folds |
| `5K` | all images at once | of all images (all of COCO's 5,000) |

Folds follow the order of the test images' file. Recalls within a fold are higher than recalls over all images and not comparable with
them, so a result always names its protocol.

Other truths know more: in Crisscrossed Captions and ECCV Caption a query has many positives, and there are fewer queries than ranked items.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from vsepp.base.declared import FOLDS, PROTOCOLS
from vsepp.base.digests import value_digest
from vsepp.base.errors import VseppError
from vsepp.base.files import shortly

DEFAULT_FOLD_SIZE = 1000


class Kinds(NamedTuple):
    """What a task's queries and items are: `i`, images, or `t`, captions."""

    query: str
    item: str


def kinds(task: str) -> Kinds:
    """Of `t2i`: captions ask for images."""
    return Kinds(*task.split("2"))


@dataclass(frozen=True, eq=False)
class Positives:
    """Correct items of each query of one task, sparse: query by query."""

    queries: np.ndarray
    """`(n_queries,)` int64, each once: rows of the queries, among all images or captions."""
    starts: np.ndarray
    """`(n_queries + 1,)` int64: where each query's positives begin among `items`; each query has at least one."""
    items: np.ndarray
    """`(n_positives,)` int64: rows of the correct items."""

    @classmethod
    def from_pairs(cls, queries: np.ndarray, items: np.ndarray) -> Positives:
        """From pairs of a query and a correct item, rows `(n_positives,)` both, in any order; queries and their items will ascend.

        Raises
        ------
        VseppError
            If there is no pair, a pair is there twice, or the arrays are no rows.
        """
        queries, items = (np.asarray(rows) for rows in (queries, items))
        whole = {queries.dtype.kind, items.dtype.kind} <= {*"iu"}
        if not whole or queries.ndim != 1 or queries.shape != items.shape:
            raise VseppError(
                f"positives: expected rows of queries and items, integers (n,) both, got {queries.dtype} {queries.shape} and "
                f"{items.dtype} {items.shape}"
            )
        queries, items = (rows.astype(np.int64) for rows in (queries, items))
        order = np.lexsort((items, queries))
        queries, items = queries[order], items[order]
        twice = np.flatnonzero((np.diff(queries) == 0) & (np.diff(items) == 0))
        if not len(queries) or len(twice):
            mistake = f"query {queries[twice[0]]} and item {items[twice[0]]} twice" if len(twice) else "none"
            raise VseppError(f"positives: expected pairs of a query and an item, each once, got {mistake}")
        rows, starts = np.unique(queries, return_index=True)
        return cls(rows, np.append(starts, len(items)), items)

    @cached_property
    def rows(self) -> np.ndarray:
        """`(n_positives,)` int64: the row of each positive's query."""
        return np.repeat(self.queries, np.diff(self.starts))


IdPairs = tuple[np.ndarray, np.ndarray]
"""Ids of queries and of items, `(n,)` each."""


class Ratings(NamedTuple):
    """How alike people found pairs, in one task."""

    task: str
    queries: np.ndarray
    """`(n,)` int64, rows."""
    items: np.ndarray
    scores: np.ndarray
    """`(n,)` float64."""


@dataclass(frozen=True, eq=False)
class Truth:
    """Correct items in both directions, and among captions or images where the truth has them."""

    name: str
    """For own captions, the protocol."""
    tasks: Mapping[str, Positives]
    """`i2t`, caption retrieval: queries are images, items are captions; `t2i`, image retrieval; of some truths `t2t` and `i2i`, where the
    query itself is no item."""
    image_ids: Sequence[str | int] | np.ndarray | None = None
    """Ids of all images that are ranked, by row; `None`: the ids are the rows."""
    caption_ids: Sequence[str | int] | np.ndarray | None = None
    caption_to_image: np.ndarray | None = None
    """`(n_captions,)` int64: the row of each caption's own image; `None` where it is not known."""
    folds: tuple[slice, ...] = (slice(None),)
    """Ranges of images that are ranked among each other, with their captions; all of one size."""
    ratings: Mapping[str, Ratings] = field(default_factory=dict)
    absent: int = 0
    """Number of captions, the last of `caption_ids`, that are correct but not ranked: no model finds them."""

    @property
    def by_people(self) -> bool:
        """Whether people judged what is correct, by ids; else it is an image's own captions, by rows."""
        return self.image_ids is not None

    def images_of(self, task: str, queries: np.ndarray | None = None) -> np.ndarray:
        """The image of each query of a task, `(n_queries,)`; or of some queries, rows `(n,)`."""
        if queries is None:
            queries = self.tasks[task].queries
        if task.startswith("i"):
            return queries
        assert self.caption_to_image is not None
        return self.caption_to_image[queries]

    @cached_property
    def digest(self) -> str:
        """Digest of gallery, queries and positives by their ids, whatever the order of the rows."""
        names = {"i": self.image_ids, "t": self.caption_ids}

        def named(kind: str, rows: np.ndarray) -> list[str]:
            ids = names[kind]
            return list(map(str, rows.tolist() if ids is None else np.asarray(ids)[rows].tolist()))

        content = {}
        for task, pairs in self.tasks.items():
            ids_of_pairs = zip(
                named(kinds(task).query, pairs.rows), named(kinds(task).item, pairs.items), strict=True
            )
            content[task] = sorted(map(list, ids_of_pairs))
        for kind, ids in names.items():  # what is ranked, and neither asks nor is correct
            if ids is not None:
                rows = [pairs.queries for task, pairs in self.tasks.items() if kinds(task).query == kind]
                rows += [pairs.items for task, pairs in self.tasks.items() if kinds(task).item == kind]
                if more := sorted(map(str, np.delete(np.asarray(ids), np.concatenate(rows)).tolist())):
                    content[kind] = [more]
        return value_digest(content)


def own_captions(
    caption_to_image: np.ndarray, protocol: str = "5K", fold_size: int = DEFAULT_FOLD_SIZE
) -> Truth:
    """Each image's own captions, and each caption's image, of the images that a protocol ranks.

    Parameters
    ----------
    caption_to_image
        `(n_captions,)`, the row of each caption's image; each image has one.
    protocol
        `1K`, `5x1K` or `5K`.
    fold_size
        Images per fold; not used by `5K`.

    Raises
    ------
    VseppError
        As `protocol_folds`.
    """
    folds = protocol_folds(protocol, int(caption_to_image.max()) + 1, fold_size)
    captions = np.flatnonzero(caption_to_image < folds[-1].stop)
    images = caption_to_image[captions]
    tasks = {"i2t": Positives.from_pairs(images, captions), "t2i": Positives.from_pairs(captions, images)}
    return Truth(protocol, tasks, caption_to_image=caption_to_image, folds=folds)


def protocol_folds(protocol: str, n_images: int, fold_size: int = DEFAULT_FOLD_SIZE) -> tuple[slice, ...]:
    """Ranges of test images that a protocol ranks among each other.

    Raises
    ------
    VseppError
        On an unknown protocol, a fold size below 1, and fewer images than the protocol needs.
    """
    if protocol not in PROTOCOLS:
        raise VseppError(f"protocol: expected one of {', '.join(PROTOCOLS)}, got {protocol!r}")
    if protocol == "5K":
        return (slice(0, n_images),)
    fold_size = checked_count(fold_size, "fold size")
    folds = FOLDS[protocol]
    if n_images < folds * fold_size:
        raise VseppError(
            f"protocol {protocol} needs {folds} × {fold_size} = {folds * fold_size} test images, "
            f"got {n_images}; give a smaller fold size, or use protocol 5K, which ranks all images at once"
        )
    return tuple(slice(start, start + fold_size) for start in range(0, folds * fold_size, fold_size))


def checked_count(value: Any, name: str) -> int:
    """An argument that counts something: a whole number of at least 1."""
    try:
        count = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise VseppError(f"{name}: expected a whole number, at least 1, got {shortly(value)}")
    return count
