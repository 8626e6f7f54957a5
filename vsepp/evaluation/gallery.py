"""Truths by ids: the images and captions of a truth that people judged, and where they stand in a test set."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.evaluation.test_set import TestSet, checked_ids
from vsepp.evaluation.truth import IdPairs, Positives, Ratings, Truth, kinds


@dataclass(frozen=True, eq=False)
class Gallery:
    """The images and captions that are ranked, by ids that ascend: whole numbers, as COCO's are."""

    image_ids: np.ndarray
    caption_ids: np.ndarray
    caption_to_image: np.ndarray
    """`(n_captions,)` int64: the row of each caption's image."""

    @classmethod
    def from_ids(cls, images: np.ndarray, captions: np.ndarray) -> Gallery:
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
        ratings: Mapping[str, Ratings] | None = None,
        **tasks: IdPairs,
    ) -> Truth:
        """A truth of this gallery. `tasks`: task → ids of queries and of their positives; `ratings`: name → ratings with ids for rows.

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
                task: Positives.from_pairs(
                    rows(kinds(task).query, queries, task), rows(kinds(task).item, items, task)
                )
                for task, (queries, items) in tasks.items()
            },
            image_ids=self.image_ids,
            caption_ids=np.concatenate([self.caption_ids, absent]),
            caption_to_image=self.caption_to_image,
            absent=len(absent),
            ratings={
                name: rated._replace(
                    queries=rows(kinds(rated.task).query, rated.queries, name),
                    items=rows(kinds(rated.task).item, rated.items, name),
                )
                for name, rated in (ratings or {}).items()
            },
        )


def by_rows(truth: Truth, tested: TestSet) -> Truth:
    """A truth by the rows of a test set; queries and positives keep their order. A truth without ids has these rows already.

    Raises
    ------
    VseppError
        If ids are missing, or differ from the truth's gallery, or captions are of other images, naming the first and how many differ.
    """
    if truth.image_ids is None or truth.caption_ids is None or truth.caption_to_image is None:
        return truth
    gallery = np.asarray(truth.caption_ids)[: len(truth.caption_ids) - truth.absent]
    image_ids, caption_ids = (
        _numbers(tested.image_ids, truth.image_ids),
        _numbers(tested.caption_ids, gallery),
    )
    known = image_ids is not None and bool(np.isin(image_ids, np.asarray(truth.image_ids)).all())
    if known and image_ids is not None and caption_ids is not None and len(caption_ids) > len(gallery):
        surplus = np.setdiff1d(caption_ids, gallery)
        row = np.flatnonzero(caption_ids == surplus[0])[0]
        raise VseppError(
            f"truth {truth.name}: {len(caption_ids):,} captions, the truth has {len(gallery):,}: keep the five with the lowest ids "
            f"of each image; caption {surplus[0]} of image {image_ids[tested.caption_to_image[row]]} is one too many"
        )
    images = _places("image", image_ids, np.asarray(truth.image_ids), truth.name)
    captions = _places("caption", caption_ids, gallery, truth.name)
    owner = images[truth.caption_to_image[np.argsort(captions)]]
    other = np.flatnonzero(owner != tested.caption_to_image)
    if len(other):
        assert image_ids is not None and caption_ids is not None  # else they have no places
        row = other[0]
        raise VseppError(
            f"truth {truth.name}: caption {caption_ids[row]} is of image {image_ids[tested.caption_to_image[row]]} by "
            f"caption_to_image, and of image {image_ids[owner[row]]} by the truth ({len(other)} captions differ); expected each "
            "caption's own image"
        )
    rows = {"i": images, "t": np.append(captions, len(captions) + np.arange(truth.absent))}
    tasks = {
        task: Positives(
            rows[kinds(task).query][positives.queries],
            positives.starts,
            rows[kinds(task).item][positives.items],
        )
        for task, positives in truth.tasks.items()
    }
    ratings = {
        name: rated._replace(
            queries=rows[kinds(rated.task).query][rated.queries],
            items=rows[kinds(rated.task).item][rated.items],
        )
        for name, rated in truth.ratings.items()
    }
    if caption_ids is not None:
        caption_ids = np.append(caption_ids, truth.caption_ids[len(gallery) :])
    return replace(
        truth,
        tasks=tasks,
        ratings=ratings,
        image_ids=image_ids,
        caption_ids=caption_ids,
        caption_to_image=owner,
    )


def _numbers(ids: np.ndarray | None, known: Sequence[str | int] | np.ndarray) -> np.ndarray | None:
    """Ids in text as the whole numbers that a truth has: `42`, ` 42`, `42.0`, `000000000042`, `COCO_val2014_000000000042.jpg`."""
    if ids is None or ids.dtype.kind != "U" or np.asarray(known).dtype.kind not in "iu":
        return ids
    matches = [
        re.fullmatch(r"(?:.*[/_])?([0-9]{1,18})(?:\.(?:0+|[A-Za-z]+))?", text.strip())
        for text in ids.tolist()
    ]
    if not all(matches):
        return ids
    numbers = np.array([int(match[1]) for match in matches if match], np.int64)
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
