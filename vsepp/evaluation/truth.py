"""Truths: which items are correct for which queries.

An image's own captions are one truth. Others know more: of Crisscrossed Captions and ECCV Caption a query has many positives, and the
queries are fewer than the items that are ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vsepp.errors import VseppError
from vsepp.provenance.digests import value_digest


@dataclass(frozen=True, eq=False)
class Positives:
    """Correct items of each query of one direction, sparse: query by query, and by item within a query."""

    queries: np.ndarray
    """`(n_queries,)` int64, ascending: rows of the queries, among all images or captions."""
    starts: np.ndarray
    """`(n_queries + 1,)` int64: where each query's positives begin among `items`; each has at least one."""
    items: np.ndarray
    """`(n_positives,)` int64: rows of the correct items."""

    @classmethod
    def of_pairs(cls, queries: np.ndarray, items: np.ndarray) -> Positives:
        """From pairs of a query and a correct item, rows `(n_positives,)` both, in any order.

        Raises
        ------
        VseppError
            If there are none, one is there twice, or they are no rows.
        """
        queries, items = (np.asarray(rows) for rows in (queries, items))
        if (
            queries.ndim != 1
            or queries.shape != items.shape
            or {queries.dtype.kind, items.dtype.kind} - {*"iu"}
        ):
            raise VseppError(
                f"positives: expected rows of queries and items, integers (n,) both, got {queries.dtype} {queries.shape} and "
                f"{items.dtype} {items.shape}"
            )
        queries, items = (rows.astype(np.int64) for rows in (queries, items))
        order = np.lexsort((items, queries))
        queries, items = queries[order], items[order]
        twice = np.flatnonzero((np.diff(queries) == 0) & (np.diff(items) == 0))
        if not len(queries) or len(twice):
            found = f"query {queries[twice[0]]} and item {items[twice[0]]} twice" if len(twice) else "none"
            raise VseppError(f"positives: expected pairs of a query and an item, each once, got {found}")
        rows, starts = np.unique(queries, return_index=True)
        return cls(rows, np.append(starts, len(items)), items)

    @cached_property
    def rows(self) -> np.ndarray:
        """`(n_positives,)` int64: the row of each positive's query."""
        return np.repeat(self.queries, np.diff(self.starts))


@dataclass(frozen=True, eq=False)
class Truth:
    """What is correct, in both directions."""

    name: str
    i2t: Positives
    """Caption retrieval: queries are images, items are captions."""
    t2i: Positives
    """Image retrieval: queries are captions, items are images."""
    image_ids: Sequence[str | int] | None = None
    """Ids of all images that are ranked, by row; `None`: their rows."""
    caption_ids: Sequence[str | int] | None = None

    @property
    def digest(self) -> str:
        """Digest of both directions by ids, whatever the order of the rows: equal digests are the same queries and positives."""
        names = {"i2t": (self.image_ids, self.caption_ids), "t2i": (self.caption_ids, self.image_ids)}
        said = {
            direction: sorted(
                [
                    str(query if of_query is None else of_query[query]),
                    str(item if of_item is None else of_item[item]),
                ]
                for query, item in zip(positives.rows.tolist(), positives.items.tolist(), strict=True)
            )
            for direction, (of_query, of_item) in names.items()
            for positives in (getattr(self, direction),)
        }
        return value_digest(said)

    def require_within(self, n_images: int, n_captions: int) -> None:
        """Refuse queries or items outside of so many images and captions, and another number of ids.

        Raises
        ------
        VseppError
            Saying how many there are, and naming the first.
        """
        for kind, rows, count, ids in (
            ("image", (self.i2t.queries, self.t2i.items), n_images, self.image_ids),
            ("caption", (self.i2t.items, self.t2i.queries), n_captions, self.caption_ids),
        ):
            every = np.unique(np.concatenate(rows))
            outside = every[(every < 0) | (every >= count)]
            if ids is not None and len(ids) != count:
                raise VseppError(f"truth {self.name}: has {len(ids)} {kind} ids, but {count} are ranked")
            if len(outside):
                raise VseppError(
                    f"truth {self.name}: {kind} row {outside[0]} is not among the {count} that are ranked "
                    f"({len(outside)} of its rows are not); take a truth of this test set"
                )


def captions_of(caption_to_image: np.ndarray) -> Positives:
    """Each image's own captions: rows `(n_captions,)` of each caption's image."""
    return Positives.of_pairs(caption_to_image, np.arange(len(caption_to_image)))


def own_captions(caption_to_image: np.ndarray) -> Truth:
    """An image's own captions, and each caption's image: rows `(n_captions,)` of each caption's image."""
    of_captions = Positives.of_pairs(np.arange(len(caption_to_image)), caption_to_image)
    return Truth("own captions", captions_of(caption_to_image), of_captions)


def checked_captions(caption_to_image: np.ndarray, n_captions: int, n_images: int) -> np.ndarray:
    """The image row of each caption as int64, every row in range and every image with a caption."""
    owner = np.asarray(caption_to_image)
    if owner.shape != (n_captions,) or owner.dtype.kind not in "iu":
        raise VseppError(
            f"caption_to_image: expected {n_captions} integers, one per caption, got shape {owner.shape} "
            f"of {owner.dtype}"
        )
    outside = np.flatnonzero((owner < 0) | (owner >= n_images))
    if outside.size:
        row = outside[0]
        raise VseppError(
            f"caption_to_image: row {row} is {owner[row]}, expected an image row from 0 to {n_images - 1} "
            f"({outside.size} rows are outside)"
        )
    owner = owner.astype(np.int64)
    missing = np.flatnonzero(np.bincount(owner, minlength=n_images) == 0)
    if missing.size:
        raise VseppError(
            f"image row {missing[0]} has no caption in caption_to_image ({missing.size} of {n_images} images "
            "have none): expected at least one each, since caption retrieval has no correct answer otherwise; "
            "leave such images out"
        )
    return owner


def checked_ids(ids: np.ndarray | None, count: int, what: str) -> np.ndarray | None:
    """Ids of `count` images or captions, int64 or text, each once; `None` stays `None`. `what` names them in errors."""
    if ids is None:
        return None
    ids = np.asarray(ids)
    if ids.shape != (count,) or ids.dtype.kind not in "iuU":
        raise VseppError(
            f"{what}: expected {count} whole numbers or texts, got shape {ids.shape} of {ids.dtype}"
        )
    ids = ids if ids.dtype.kind == "U" else ids.astype(np.int64)
    known, first, times = np.unique(ids, return_index=True, return_counts=True)
    if len(known) < count:
        row = first[times > 1].min()
        raise VseppError(
            f"{what}: {ids[row]} stands at row {row} and again ({(times > 1).sum()} ids are there more than once); "
            "expected each once"
        )
    return ids
