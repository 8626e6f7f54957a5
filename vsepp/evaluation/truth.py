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
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from vsepp.base.declared import FOLDS, PROTOCOLS
from vsepp.base.digests import value_digest
from vsepp.base.errors import VseppError
from vsepp.base.files import shortly

DEFAULT_FOLD_SIZE = 1000


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
    def of_pairs(cls, queries: np.ndarray, items: np.ndarray) -> Positives:
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

    def of_rows(
        self, image_ids: np.ndarray | None, caption_ids: np.ndarray | None, caption_to_image: np.ndarray
    ) -> Truth:
        """The same truth by the rows of a test set; queries and positives keep their order. A truth without ids has these rows already.

        Parameters
        ----------
        image_ids, caption_ids
            Ids of the test set, by row.
        caption_to_image
            `(n_captions,)`, the row of each caption's image in the test set.

        Raises
        ------
        VseppError
            If ids are missing, or differ from the truth's gallery, or captions are of other images, naming the first and how many differ.
        """
        if self.image_ids is None or self.caption_ids is None or self.caption_to_image is None:
            return self
        gallery = np.asarray(self.caption_ids)[: len(self.caption_ids) - self.absent]
        image_ids, caption_ids = _numbers(image_ids, self.image_ids), _numbers(caption_ids, gallery)
        known = image_ids is not None and bool(np.isin(image_ids, np.asarray(self.image_ids)).all())
        if known and image_ids is not None and caption_ids is not None and len(caption_ids) > len(gallery):
            surplus = np.setdiff1d(caption_ids, gallery)
            of = (
                image_ids[caption_to_image[np.flatnonzero(caption_ids == surplus[0])[0]]]
                if len(surplus)
                else ""
            )
            raise VseppError(
                f"truth {self.name}: {len(caption_ids):,} captions, the truth has {len(gallery):,}: keep the five with the "
                f"lowest ids of each image; caption {surplus[0]} of image {of} is one too many"
            )
        images = _places("image", image_ids, np.asarray(self.image_ids), self.name)
        captions = _places("caption", caption_ids, gallery, self.name)
        owner = images[self.caption_to_image[np.argsort(captions)]]
        other = np.flatnonzero(owner != caption_to_image)
        if len(other):
            assert image_ids is not None and caption_ids is not None  # else they have no places
            caption, found, expected = (
                caption_ids[other[0]],
                *image_ids[[caption_to_image[other[0]], owner[other[0]]]],
            )
            raise VseppError(
                f"truth {self.name}: caption {caption} is of image {found} by caption_to_image, and of image {expected} by the truth "
                f"({len(other)} captions differ); expected each caption's own image"
            )
        rows = {"i": images, "t": np.append(captions, len(captions) + np.arange(self.absent))}
        return replace(
            self,
            tasks={
                task: Positives(rows[task[0]][each.queries], each.starts, rows[task[2]][each.items])
                for task, each in self.tasks.items()
            },
            ratings={
                what: each._replace(
                    queries=rows[each.task[0]][each.queries], items=rows[each.task[2]][each.items]
                )
                for what, each in self.ratings.items()
            },
            image_ids=image_ids,
            caption_ids=None
            if caption_ids is None
            else np.append(caption_ids, self.caption_ids[len(gallery) :]),
            caption_to_image=owner,
        )


def _numbers(ids: np.ndarray | None, known: Sequence[str | int] | np.ndarray) -> np.ndarray | None:
    """Ids in text as the whole numbers that a truth has: `42`, ` 42`, `42.0`, `000000000042`, `COCO_val2014_000000000042.jpg`."""
    if ids is None or ids.dtype.kind != "U" or np.asarray(known).dtype.kind not in "iu":
        return ids
    found = [
        re.fullmatch(r"(?:.*[/_])?([0-9]{1,18})(?:\.(?:0+|[A-Za-z]+))?", text.strip())
        for text in ids.tolist()
    ]
    if not all(found):
        return ids
    numbers = np.array([int(each[1]) for each in found if each], np.int64)
    return checked_ids(numbers, len(numbers), "ids")  # `42` and `042` are one image


def _places(kind: str, ids: np.ndarray | None, gallery: np.ndarray, truth: str) -> np.ndarray:
    """Row in the test set of each id of the gallery."""
    if ids is None:
        raise VseppError(f"truth {truth}: expected {kind}_ids, ids in COCO, one a row; the file has none")
    for some, where, others in ((gallery, "the file", ids), (ids, f"the gallery of {truth}", gallery)):
        missing = np.setdiff1d(some, others)
        if len(missing):
            raise VseppError(
                f"truth {truth}: {kind} {missing[0]} is not in {where} ({len(missing)} {kind}s are not); expected the "
                f"{len(gallery):,} {kind}s of COCO's test set, each once, in any order"
            )
    order = np.argsort(ids)
    return order[np.searchsorted(ids, gallery, sorter=order)]


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
            {
                task: Positives.of_pairs(rows(task[0], one, task), rows(task[2], other, task))
                for task, (one, other) in tasks.items()
            },
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
        )


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
    tasks = {"i2t": Positives.of_pairs(images, captions), "t2i": Positives.of_pairs(captions, images)}
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


def checked_ids(ids: np.ndarray | None, count: int, what: str) -> np.ndarray | None:
    """Ids of `count` images or captions, int64 or text, each once; `None` stays `None`. `what` names them in errors."""
    if ids is None:
        return None
    ids = np.asarray(ids)
    if ids.shape != (count,) or ids.dtype.kind not in "iufU":
        raise VseppError(f"{what}: expected {count} whole numbers or texts, got {ids.dtype} {ids.shape}")
    if ids.dtype.kind == "U":
        wrong = np.array([not text.isprintable() or not text.strip() for text in ids.tolist()])
        expected = "a text that is not empty, without control characters"
    elif ids.dtype.kind == "f":
        wrong, expected = ~((np.abs(ids) < 2**53) & (ids == np.trunc(ids))), "a whole number below 2^53"
    else:
        wrong, expected = ids > np.iinfo(np.int64).max, "a whole number below 2^63"
    if np.any(wrong):
        row = int(np.argmax(wrong))
        raise VseppError(f"{what}: row {row} is {ids[row : row + 1].tolist()[0]!r}; expected {expected}")
    ids = ids if ids.dtype.kind == "U" else ids.astype(np.int64)
    known, first, times = np.unique(ids, return_index=True, return_counts=True)
    if len(known) < count:
        row = first[times > 1].min()
        raise VseppError(
            f"{what}: {ids[row]} stands at row {row} and again ({(times > 1).sum()} ids are there more than once); "
            "expected each once"
        )
    return ids
