"""Truths: which items are correct for which queries.

An image's own captions are one truth. Other truths know more: in Crisscrossed Captions and ECCV Caption a query has many positives,
and there are fewer queries than ranked items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from vsepp.base.declared import TASKS
from vsepp.base.errors import VseppError
from vsepp.base.files import value_digest


@dataclass(frozen=True, eq=False)
class Positives:
    """Correct items of each query of one direction, sparse: query by query, and by item within a query."""

    queries: np.ndarray
    """`(n_queries,)` int64, ascending: rows of the queries, among all images or captions."""
    starts: np.ndarray
    """`(n_queries + 1,)` int64: where each query's positives begin among `items`; each query has at least one."""
    items: np.ndarray
    """`(n_positives,)` int64: rows of the correct items."""

    @classmethod
    def of_pairs(cls, queries: np.ndarray, items: np.ndarray) -> Positives:
        """From pairs of a query and a correct item, rows `(n_positives,)` both, in any order.

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
            found = f"query {queries[twice[0]]} and item {items[twice[0]]} twice" if len(twice) else "none"
            raise VseppError(f"positives: expected pairs of a query and an item, each once, got {found}")
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
    i2t: Positives
    """Caption retrieval: queries are images, items are captions."""
    t2i: Positives
    """Image retrieval: queries are captions, items are images."""
    image_ids: Sequence[str | int] | np.ndarray | None = None
    """Ids of all images that are ranked, by row; `None`: the ids are the rows."""
    caption_ids: Sequence[str | int] | np.ndarray | None = None
    caption_to_image: np.ndarray | None = None
    """`(n_captions,)` int64: the row of each caption's own image; `None` where it is not known."""
    t2t: Positives | None = None
    """Caption → caption; the query itself is no item."""
    i2i: Positives | None = None
    ratings: Mapping[str, Ratings] = field(default_factory=dict)
    absent: int = 0
    """Number of captions, the last of `caption_ids`, that are correct but not ranked: no model finds them."""

    @property
    def tasks(self) -> dict[str, Positives]:
        """Task → its queries and positives."""
        return {task: positives for task in TASKS if (positives := getattr(self, task)) is not None}

    def images_of(self, task: str, queries: np.ndarray | None = None) -> np.ndarray:
        """The image of each query of a task, `(n_queries,)`; or of some queries, rows `(n,)`."""
        if queries is None:
            queries = self.tasks[task].queries
        if task.startswith("i"):
            return queries
        assert self.caption_to_image is not None
        return self.caption_to_image[queries]

    @property
    def digest(self) -> str:
        """Digest of gallery, queries and positives by their ids, whatever the order of the rows."""
        names = {"i": self.image_ids, "t": self.caption_ids}

        def named(kind: str, rows: np.ndarray) -> list[str]:
            ids = names[kind]
            return list(map(str, rows.tolist() if ids is None else np.asarray(ids)[rows].tolist()))

        said = {
            task: sorted(map(list, zip(named(task[0], each.rows), named(task[2], each.items), strict=True)))
            for task, each in self.tasks.items()
        }
        for kind, ids in names.items():  # what is ranked, and neither asks nor is correct
            if ids is not None:
                rows = [each.queries for task, each in self.tasks.items() if task[0] == kind]
                rows += [each.items for task, each in self.tasks.items() if task[2] == kind]
                if more := sorted(map(str, np.delete(np.asarray(ids), np.concatenate(rows)).tolist())):
                    said[kind] = [more]
        return value_digest(said)

    def require_within(self, n_images: int, n_captions: int) -> None:
        """Refuse queries or items outside of these numbers of images and captions, and another number of ids.

        Raises
        ------
        VseppError
            Saying how many there are, and naming the first.
        """
        for kind, rows, count, absent, ids in (
            ("image", (self.i2t.queries, self.t2i.items), n_images, 0, self.image_ids),
            ("caption", (self.i2t.items, self.t2i.queries), n_captions, self.absent, self.caption_ids),
        ):
            every = np.unique(np.concatenate(rows))
            outside = every[(every < 0) | (every >= count + absent)]
            if ids is not None and len(ids) != count + absent:
                raise VseppError(f"truth {self.name}: has {len(ids) - absent} {kind} ids, {count} are ranked")
            if len(outside):
                raise VseppError(
                    f"truth {self.name}: {kind} row {outside[0]} is not among the {count} that are ranked "
                    f"({len(outside)} of its rows are not); take a truth of this test set"
                )


@dataclass(frozen=True, eq=False)
class Gallery:
    """The images and captions that are ranked, by ids that ascend: whole numbers, as COCO's are."""

    image_ids: np.ndarray
    caption_ids: np.ndarray
    caption_to_image: np.ndarray
    """`(n_captions,)` int64: the row of each caption's image."""

    @classmethod
    def of(cls, images: np.ndarray, captions: np.ndarray) -> Gallery:
        """From the ids of each caption and of its image, `(n_captions,)` each.

        Raises
        ------
        VseppError
            If there is no caption, or a caption has two images.
        """
        if not len(captions):
            raise VseppError("gallery: expected captions and their images, got none")
        checked_ids(captions, len(captions), "captions of the gallery")
        image_ids, order = np.unique(images), np.argsort(captions)
        return cls(image_ids, captions[order], np.searchsorted(image_ids, images[order]))

    def truth(
        self,
        name: str,
        *,
        ratings: Mapping[str, tuple[str, np.ndarray, np.ndarray, np.ndarray]] | None = None,
        **tasks: IdPairs,
    ) -> Truth:
        """A truth of this gallery. `tasks`: task → ids of queries and of their positives; `ratings`: name → task, ids of both, ratings.

        Raises
        ------
        VseppError
            If a query or an item is not in the gallery; only the correct captions of images may be absent.
        """
        asked = tasks["i2t"][1]
        absent = np.setdiff1d(asked, self.caption_ids)
        ids = {"i": self.image_ids, "t": self.caption_ids}

        def rows(kind: str, wanted: np.ndarray, what: str) -> np.ndarray:
            places = np.searchsorted(ids[kind], wanted).clip(max=len(ids[kind]) - 1)
            outside = np.flatnonzero(ids[kind][places] != wanted)
            if kind == "t" and what == "i2t":
                places[outside] = len(ids["t"]) + np.searchsorted(absent, wanted[outside])
            elif len(outside):
                raise VseppError(
                    f"{what}: {wanted[outside[0]]} is not among the {len(ids[kind])} {'images' if kind == 'i' else 'captions'} of the "
                    f"gallery ({len(outside)} are not)"
                )
            return places.astype(np.int64)

        return Truth(
            name,
            image_ids=self.image_ids,
            caption_ids=np.concatenate([self.caption_ids, absent]),
            caption_to_image=self.caption_to_image,
            absent=len(absent),
            ratings={
                what: Ratings(
                    task, rows(task[0], one, what), rows(task[2], other, what), np.asarray(scores, float)
                )
                for what, (task, one, other, scores) in (ratings or {}).items()
            },
            **{
                task: Positives.of_pairs(rows(task[0], one, task), rows(task[2], other, task))
                for task, (one, other) in tasks.items()
            },
        )


def captions_of(caption_to_image: np.ndarray) -> Positives:
    """Each image's own captions, from the row of each caption's image, `(n_captions,)`."""
    return Positives.of_pairs(caption_to_image, np.arange(len(caption_to_image)))


def own_captions(caption_to_image: np.ndarray) -> Truth:
    """Each image's own captions, and each caption's image, from the row of each caption's image, `(n_captions,)`."""
    of_captions = Positives.of_pairs(np.arange(len(caption_to_image)), caption_to_image)
    return Truth(
        "own captions", captions_of(caption_to_image), of_captions, caption_to_image=caption_to_image
    )


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
        raise VseppError(f"{what}: expected {count} whole numbers or texts, got {ids.dtype} {ids.shape}")
    ids = ids if ids.dtype.kind == "U" else ids.astype(np.int64)
    known, first, times = np.unique(ids, return_index=True, return_counts=True)
    if len(known) < count:
        row = first[times > 1].min()
        raise VseppError(
            f"{what}: {ids[row]} stands at row {row} and again ({(times > 1).sum()} ids are there more than once); "
            "expected each once"
        )
    return ids
