"""Your own pictures: a folder, and a CSV of captions.

Roles: `images` (a folder or zip archive) and `captions` (a CSV with the columns `image`, `caption` and optionally
`split`). A picture has one row per caption.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter
from pathlib import PurePosixPath
from typing import Any

from vsepp.base.declared import SPLITS
from vsepp.base.errors import VseppError
from vsepp.base.files import LARGEST_TEXT
from vsepp.base.spec import CorpusSpec
from vsepp.data.raw_files import Caption, CaptionedImage, RawCorpus, read_raw

COLUMNS = ("image", "caption")
EXIF_ORIENTATION = "applied"
"""Pictures as their owner sees them; photographs of the papers are turned or not as `exif_orientation` says."""


def read(spec: CorpusSpec) -> RawCorpus:
    """Read the pictures in the order of the CSV.

    A caption's id is its row, from 1. Without a column `split` a tenth of the pictures is `test` and a tenth `val`, by a
    hash of their names: a picture keeps its split when others are added.

    Raises
    ------
    VseppError
        If a column is missing, if a row names no picture, or if a split is unknown or differs from the picture's other rows.
    """
    file = read_raw(spec, "captions", "captions.csv")
    csv.field_size_limit(LARGEST_TEXT)  # Python's own limit is 128 KiB for a caption
    rows = csv.DictReader(io.StringIO(file.text(), newline=""), strict=True)
    captions: dict[str, list[Caption]] = {}
    first: dict[str, tuple[str, int]] = {}  # picture → its split and row
    number = 0
    try:
        columns = rows.fieldnames or ()
        if missing := [name for name in COLUMNS if name not in columns]:
            raise VseppError(
                f"{file.where}: no column {' and '.join(missing)}; its first line has {', '.join(columns)}"
            )
        if repeated := [name for name, count in Counter(columns).items() if count > 1]:
            raise VseppError(f"{file.where}: columns given twice: {', '.join(repeated)}; keep one of each")
        for number, row in enumerate(rows, start=1):
            name = (row["image"] or "").strip()
            split = (row["split"] or "").strip() if "split" in row else _drawn(name)
            if problem := _problem(row, name, split, *first.setdefault(name, (split, number))):
                raise VseppError(f"{file.where}: row {number}: {problem}")
            captions.setdefault(name, []).append(Caption(number, row["caption"]))
    except csv.Error as error:
        raise VseppError(
            f"{file.where}: row {number + 1}: {error}; look for a quote that is not closed"
        ) from error
    images = [
        CaptionedImage(
            image_id=str(PurePosixPath(name).with_suffix("")),
            path=name,
            container="images",
            split=first[name][0],
            captions=tuple(of_image),
            listed_in=f"{file.where}: row {first[name][1]}",
            captions_in=f"{file.where}: row",
        )
        for name, of_image in captions.items()
    ]
    return RawCorpus(images)


def _problem(row: dict[Any, Any], name: str, split: str, first_split: str, first_row: int) -> str | None:
    """What is wrong with a row, given the split and the row in which its picture was first listed."""
    if None in row:
        return "more cells than columns, is a caption with a comma not in quotes?"
    if not name:
        return "names no image"
    if None in row.values():
        return "fewer cells than columns"
    if split not in SPLITS:
        return f"got split {split!r}; expected one of {', '.join(SPLITS)}"
    if split != first_split:
        return f"{name} is in {split}, but in row {first_row} in {first_split}"
    return None


def _drawn(name: str) -> str:
    """The split of a picture if the CSV gives none."""
    return {0: "test", 1: "val"}.get(int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10, "train")
