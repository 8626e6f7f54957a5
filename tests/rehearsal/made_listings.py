"""Which images a made-up data set has, in which split and under which name, and the files that list them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import made_captions
import numpy as np
from made_photographs import size_of

LARGEST_COCO_ID = 581_929
_LARGEST_ANNOTATION_ID = 829_717


@dataclass(frozen=True)
class Listing:
    """Images of a data set in the order of its Karpathy file; all lists have one entry an image."""

    folders: list[str]
    """Folder inside the archive: `train2014`, `val2014`, `flickr30k-images`, `Flicker8k_Dataset`."""
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
        seen: dict[str, int] = {}
        rows = []
        for row, split in enumerate(self.splits):
            seen[split] = seen.get(split, 0) + 1
            if images is None or seen[split] <= images:
                rows.append(row)
        return rows


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
        captions.append(_caption_counts(rng, len(names), surplus[folder]))
    return Listing(
        folders=folders,
        names=[
            f"COCO_{folder}_{number:012d}.jpg" for folder, number in zip(folders, ids.tolist(), strict=True)
        ],
        splits=mixed,
        ids=ids.tolist(),
        photographs=rng.integers(0, photographs, total),
        captions=np.concatenate(captions),
    )


def _caption_counts(rng: np.random.Generator, images: int, surplus: int) -> np.ndarray:
    """Five captions an image and `surplus` more: six for most images that have more, seven for a few."""
    sevens = min(surplus // 2, max(1, surplus // 50)) if surplus > 2 else 0
    more = rng.choice(images, surplus - sevens, replace=False)
    counts = np.full(images, 5)
    counts[more] += 1
    counts[more[:sevens]] += 1
    return counts


def flickr_listing(
    rng: np.random.Generator, folder: str, splits: Mapping[str, int], photographs: int
) -> Listing:
    """Images of Flickr30K or Flickr8k, sorted by name, their splits mixed."""
    total = sum(splits.values())
    numbers = np.sort(1_000_092 + rng.choice(8_000_000, total, replace=False))
    suffixes = rng.integers(0, 1000, total)
    mixed = rng.permutation(np.repeat(list(splits), list(splits.values()))).tolist()
    return Listing(
        folders=[folder] * total,
        names=[f"{n}{s:03d}.jpg" for n, s in zip(numbers.tolist(), suffixes.tolist(), strict=True)],
        splits=mixed,
        ids=list(range(total)),
        photographs=rng.integers(0, photographs, total),
        captions=np.full(total, 5),
    )


def annotation_ids(rng: np.random.Generator, listing: Listing) -> np.ndarray:
    """An id for every caption, in no order, not even among those of one image."""
    count = int(listing.captions.sum())
    return 1 + rng.choice(max(_LARGEST_ANNOTATION_ID, 2 * count), count, replace=False)


def write_karpathy(
    archive: zipfile.ZipFile, dataset: str, listing: Listing, captions: list[str], sentids: np.ndarray
) -> None:
    """Add `dataset_<dataset>.json` to an archive.

    Parameters
    ----------
    archive
        Open for writing.
    dataset
        `coco`, `flickr30k` or `flickr8k`; only COCO's entries have `filepath` and `cocoid`.
    listing
        The images.
    captions, sentids
        Text and number of every caption, those of one image after another.
    """
    with archive.open(f"dataset_{dataset}.json", "w", force_zip64=True) as stream:
        entries = _karpathy_entries(dataset, listing, captions, sentids.tolist())
        _write_object(stream, {"images": entries, "dataset": dataset})


def _karpathy_entries(
    dataset: str, listing: Listing, captions: list[str], sentids: list[int]
) -> Iterator[dict[str, Any]]:
    bounds = np.concatenate([[0], np.cumsum(listing.captions)]).tolist()
    coco = dataset == "coco"
    for row, (start, stop) in enumerate(pairwise(bounds)):
        entry: dict[str, Any] = {"filepath": listing.folders[row]} if coco else {}
        entry |= {
            "sentids": sentids[start:stop],
            "filename": listing.names[row],
            "imgid": row,
            "split": listing.splits[row],
            "sentences": [
                {
                    "tokens": made_captions.karpathy_tokens(captions[i]),
                    "raw": captions[i],
                    "imgid": row,
                    "sentid": sentids[i],
                }
                for i in range(start, stop)
            ],
        }
        if coco:
            entry["cocoid"] = listing.ids[row]
        yield entry


def write_annotations(
    archive: zipfile.ZipFile,
    folder: str,
    listing: Listing,
    captions: list[str],
    sentids: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Add `annotations/captions_<folder>.json` to an archive; its images and annotations are in no order."""
    bounds = np.concatenate([[0], np.cumsum(listing.captions)])
    rows = rng.permutation([row for row in range(len(listing)) if listing.folders[row] == folder]).tolist()
    images = (_coco_image(listing, row) for row in rows)
    of_row = np.repeat(np.arange(len(listing)), listing.captions)
    mine = rng.permutation(np.concatenate([np.arange(bounds[row], bounds[row + 1]) for row in rows])).tolist()
    owners, numbers = of_row.tolist(), sentids.tolist()
    annotations = (
        {"image_id": listing.ids[owners[i]], "id": numbers[i], "caption": captions[i]} for i in mine
    )
    with archive.open(f"annotations/captions_{folder}.json", "w", force_zip64=True) as stream:
        _write_object(
            stream,
            {
                "info": {"description": "Made-up captions in COCO's format", "version": "1.0", "year": 2014},
                "images": images,
                "licenses": [{"url": "", "id": n, "name": f"Licence {n}"} for n in range(1, 9)],
                "annotations": annotations,
            },
        )


def _coco_image(listing: Listing, row: int) -> dict[str, Any]:
    width, height = size_of(int(listing.photographs[row]))
    number, name, folder = listing.ids[row], listing.names[row], listing.folders[row]
    return {
        "license": 1 + number % 8,
        "file_name": name,
        "coco_url": f"http://images.cocodataset.org/{folder}/{name}",
        "height": height,
        "width": width,
        "date_captured": f"2013-11-{14 + number % 10} {number % 24:02d}:{number % 60:02d}:{number % 59:02d}",
        "flickr_url": f"http://farm{1 + number % 9}.staticflickr.com/{number % 9999}/{number}_z.jpg",
        "id": number,
    }


def _write_object(stream: IO[bytes], document: Mapping[str, Any]) -> None:
    """Write a JSON object whose iterators become lists, without holding these."""
    stream.write(b"{")
    for position, (key, value) in enumerate(document.items()):
        stream.write((", " if position else "").encode() + json.dumps(key).encode() + b": ")
        if isinstance(value, Iterator):
            _write_list(stream, value)
        else:
            stream.write(json.dumps(value).encode())
    stream.write(b"}")


def _write_list(stream: IO[bytes], items: Iterable[Any]) -> None:
    stream.write(b"[")
    batch: list[str] = []
    separator = ""
    for item in items:
        batch.append(json.dumps(item))
        if len(batch) == 500:
            stream.write((separator + ", ".join(batch)).encode())
            separator, batch = ", ", []
    if batch:
        stream.write((separator + ", ".join(batch)).encode())
    stream.write(b"]")


def members(
    listing: Listing, folder: str, photographs: Mapping[int, int | None], unlisted: int
) -> list[tuple[str, int | None]]:
    """What an archive of photographs holds: names, sorted, and the photograph of each, `None` for no bytes.

    Parameters
    ----------
    listing
        The images.
    folder
        Folder inside the archive; images of another are left out.
    photographs
        Row of the listing → its photograph; images that it lacks are left out.
    unlisted
        Photographs to add at the end under names that the listing does not have.
    """
    listed = sorted(
        (listing.names[row], number) for row, number in photographs.items() if listing.folders[row] == folder
    )
    return [*listed, *((f"99{number:010d}.jpg", number) for number in range(unlisted))]


def write_photographs(
    path: Path, folder: str, named: Iterable[tuple[str, int | None]], jpegs: Sequence[bytes]
) -> None:
    """Write an archive of `members`, stored and not deflated; photographs count modulo the number of `jpegs`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(f"{folder}/"), b"")
        for name, number in named:
            # A ZipInfo is dated 1980, not today, so that equal seeds write equal bytes.
            data = b"" if number is None else jpegs[number % len(jpegs)]
            archive.writestr(zipfile.ZipInfo(f"{folder}/{name}"), data)
