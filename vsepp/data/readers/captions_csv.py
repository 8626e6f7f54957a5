"""Your own pictures: a folder, and a CSV of captions.

Roles: `images` (a folder or zip archive) and `captions` (a CSV with the columns `image`, `caption` and optionally
`split`). A picture has one row per caption.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from vsepp.base.errors import VseppError
from vsepp.base.files import LARGEST_TEXT
from vsepp.base.spec import CorpusSpec
from vsepp.data.raw import Caption, CaptionedImage, RawCorpus, read_raw

FILES = ("images", "captions")
COLUMNS = ("image", "caption")
EXIF_ORIENTATION = "applied"
"""Pictures as their owner sees them; photographs of the papers are turned or not as `exif_orientation` says."""


def read(spec: CorpusSpec, files: Mapping[str, Path]) -> RawCorpus:
    """Read the pictures in the order of the CSV; see `load`."""
    return RawCorpus(load(files["captions"])[0])


def load(path: Path) -> tuple[list[CaptionedImage], bool]:
    """Pictures in the order of a CSV, and whether it gives their splits.

    A caption's id is its row, from 1. Without a column `split` a tenth of the pictures is `test` and a tenth `val`, by a
    hash of their names: a picture keeps its split when others are added.

    Raises
    ------
    VseppError
        If a column is missing, if a row names no picture, or if a split is unknown or differs from the picture's other rows.
    """
    file = read_raw(path, "captions.csv")
    rows = csv.DictReader(io.StringIO(file.text(), newline=""), strict=True)
    images: dict[str, CaptionedImage] = {}
    captions: dict[str, list[Caption]] = {}
    number = 0
    limit = csv.field_size_limit(LARGEST_TEXT)  # Python's own is 128 KiB for a caption
    try:
        columns = rows.fieldnames or ()
        if missing := [name for name in COLUMNS if name not in columns]:
            raise VseppError(
                f"{file.where}: no column {' and '.join(missing)}; its first line has {', '.join(columns)}"
            )
        if repeated := [name for name, count in Counter(columns).items() if count > 1]:
            raise VseppError(f"{file.where}: columns given twice: {', '.join(repeated)}; keep one of each")
        for number, row in enumerate(rows, start=1):
            where = f"{file.where}: row {number}"
            name = (row["image"] or "").strip()
            if problem := _problem(row, name):
                raise VseppError(f"{where}: {problem}")
            split = row["split"].strip() if "split" in row else _drawn(name)
            image = CaptionedImage(
                image_id=str(PurePosixPath(name).with_suffix("")),
                path=name,
                container="images",
                split=split,
                captions=(),
                listed_in=where,
                captions_in=f"{file.where}: row",
            )
            first = images.setdefault(name, image)
            if first.split != split:
                raise VseppError(
                    f"{where}: {name} is in {split}, but in {first.split} in {first.listed_in}; give it one"
                )
            captions.setdefault(name, []).append(Caption(number, row["caption"]))
    except csv.Error as error:
        raise VseppError(
            f"{file.where}: row {number + 1}: {error}; look for a quote that is not closed"
        ) from error
    finally:
        csv.field_size_limit(limit)  # it holds for all of this process
    whole = [replace(image, captions=tuple(captions[name])) for name, image in images.items()]
    return whole, "split" in columns


def _problem(row: Mapping[Any, Any], name: str) -> str | None:
    """What is wrong with a row."""
    if None in row:
        return "more cells than columns, is a caption with a comma not in quotes?"
    if not PurePosixPath(name).name:
        return "names no image"
    return "fewer cells than columns" if None in row.values() else None


def _drawn(name: str) -> str:
    """The split of a picture if the CSV gives none."""
    return {0: "test", 1: "val"}.get(int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10, "train")
