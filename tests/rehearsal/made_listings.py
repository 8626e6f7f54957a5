"""Which images a made-up data set has, in which split and under which name, and what the files say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import made_captions
import numpy as np
from made_photographs import size_of

LARGEST_COCO_ID = 581_929
_LARGEST_ANNOTATION_ID = 829_717


@dataclass(frozen=True)
class Listing:
    """Images of a data set in the order of its Karpathy file; all lists have one entry an image."""

    folders: list[str]
    """Folder inside the archive: `train2014`, `val2014`, `flickr30k-images`."""
    names: list[str]
    splits: list[str]
    ids: list[int]
    """COCO's ids; elsewhere the row."""
    photographs: np.ndarray
    """Number of the photograph that each image shows."""
    captions: np.ndarray
    """How many captions each has."""

    def __len__(self) -> int:
        return len(self.names)

    def first_of_each_split(self, images: int | None) -> list[int]:
        """Rows of the first so many images of every split, in file order; `None` takes all."""
        seen: Counter[str] = Counter()
        rows = []
        for row, split in enumerate(self.splits):
            seen[split] += 1
            if images is None or seen[split] <= images:
                rows.append(row)
        return rows

    def captions_of(self) -> list[range]:
        """Numbers of the captions of each image."""
        bounds = np.concatenate([[0], np.cumsum(self.captions)]).tolist()
        return [range(start, stop) for start, stop in pairwise(bounds)]


def coco_listing(
    rng: np.random.Generator, splits: Mapping[str, int], surplus: Mapping[str, int], photographs: int
) -> Listing:
    """COCO's images as Karpathy lists them: all of val2014, its three splits mixed, before all of train2014.

    Ids are neither consecutive nor in order; the largest is the real release's, 581,929.
    """
    parts = {"val2014": [s for s in splits if s != "train"], "train2014": ["train"]}
    total = sum(splits.values())
    ids = 1 + rng.choice(LARGEST_COCO_ID - 1, total, replace=False)
    ids[0] = LARGEST_COCO_ID
    folders, mixed, captions = [], [], []
    for folder, of_part in parts.items():
        names = np.repeat(of_part, [splits[split] for split in of_part])
        mixed += rng.permutation(names).tolist()
        folders += [folder] * len(names)
        counts = np.full(len(names), 5)
        np.add.at(counts, rng.choice(len(names), surplus[folder]), 1)  # few images are drawn twice
        captions.append(counts)
    named = zip(folders, ids.tolist(), strict=True)
    return Listing(
        folders=folders,
        names=[f"COCO_{folder}_{number:012d}.jpg" for folder, number in named],
        splits=mixed,
        ids=ids.tolist(),
        photographs=rng.integers(0, photographs, total),
        captions=np.concatenate(captions),
    )


def flickr_listing(
    rng: np.random.Generator, folder: str, splits: Mapping[str, int], photographs: int
) -> Listing:
    """Images of Flickr30K, sorted by name, their splits mixed."""
    total = sum(splits.values())
    numbers = np.sort(1_000_092_795 + rng.choice(8_000_000_000, total, replace=False))
    return Listing(
        folders=[folder] * total,
        names=[f"{number}.jpg" for number in numbers.tolist()],
        splits=rng.permutation(np.repeat(list(splits), list(splits.values()))).tolist(),
        ids=list(range(total)),
        photographs=rng.integers(0, photographs, total),
        captions=np.full(total, 5),
    )


def annotation_ids(rng: np.random.Generator, count: int) -> list[int]:
    """An id for every caption, in no order, not even among one image's captions."""
    return (1 + rng.choice(max(_LARGEST_ANNOTATION_ID, 2 * count), count, replace=False)).tolist()


def karpathy_entries(
    listing: Listing, captions: list[str], sentids: list[int], coco: bool
) -> list[dict[str, Any]]:
    """Entries of `dataset_<name>.json`; only COCO's have `filepath` and `cocoid`.

    `captions` and `sentids` go from image to image.
    """
    entries = []
    for row, mine in enumerate(listing.captions_of()):
        sentences = [
            {
                "tokens": made_captions.karpathy_tokens(captions[i]),
                "raw": captions[i],
                "imgid": row,
                "sentid": sentids[i],
            }
            for i in mine
        ]
        entry = {
            "sentids": [sentids[i] for i in mine],
            "filename": listing.names[row],
            "imgid": row,
            "split": listing.splits[row],
            "sentences": sentences,
        }
        if coco:
            entry |= {"filepath": listing.folders[row], "cocoid": listing.ids[row]}
        entries.append(entry)
    return entries


def annotations(
    rng: np.random.Generator, folder: str, listing: Listing, captions: list[str], sentids: list[int]
) -> dict[str, Any]:
    """Content of `captions_<folder>.json`; its images and annotations are in no order."""
    rows = [row for row in range(len(listing)) if listing.folders[row] == folder]
    images = []
    for row in rows:
        width, height = size_of(int(listing.photographs[row]))
        photograph = {"height": height, "width": width, "id": listing.ids[row]}
        images.append({"license": 1, "file_name": listing.names[row], **photograph})
    of_image = listing.captions_of()
    said = [
        {"image_id": listing.ids[row], "id": sentids[i], "caption": captions[i]}
        for row in rows
        for i in of_image[row]
    ]
    return {
        "info": {"description": "Made-up captions in COCO's format", "version": "1.0", "year": 2014},
        "images": [images[i] for i in rng.permutation(len(images)).tolist()],
        "licenses": [{"url": "", "id": 1, "name": "Made up"}],
        "annotations": [said[i] for i in rng.permutation(len(said)).tolist()],
    }
