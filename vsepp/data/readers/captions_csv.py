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

from vsepp.data.raw import Caption, CaptionedImage, RawCorpus, RawFiles, decoded
from vsepp.declared import SPLITS
from vsepp.errors import VseppError, refuse
from vsepp.spec import CorpusSpec

COLUMNS = ("image", "caption")
EXIF_ORIENTATION = "applied"
"""As their owner sees them; photographs of the papers are turned or not as `exif_orientation` says."""


def read(spec: CorpusSpec) -> RawCorpus:
    """Read the pictures in the order of the CSV.

    A caption's id is its row, from 1. Without a column `split` a tenth of the pictures is `test` and a tenth `val`, by a
    hash of their names: a picture keeps its split when others are added.

    Raises
    ------
    VseppError
        If a column is missing, if a row names no picture, or if a split is unknown or not that of the picture's other rows.
    """
    files = RawFiles(spec)
    file = files.read("captions", "captions.csv")
    files.note_end(file)
    rows = csv.DictReader(io.StringIO(decoded(file), newline=""), strict=True)
    captions: dict[str, list[Caption]] = {}
    splits: dict[str, tuple[str, int]] = {}
    wrong, number = [], 0
    try:
        if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
            raise VseppError(
                f"{file.where}: no column {' and '.join(missing)}; its first line has {', '.join(rows.fieldnames or ())}"
            )
        if repeated := [name for name, count in Counter(rows.fieldnames or ()).items() if count > 1]:
            raise VseppError(f"{file.where}: columns given twice: {', '.join(repeated)}; keep one of each")
        for number, row in enumerate(rows, start=1):
            name = (row["image"] or "").strip()
            split = (row["split"] or "").strip() if "split" in row else _drawn(name)
            first, seen = splits.setdefault(name, (split, number))
            if None in row:
                wrong.append(
                    f"row {number}: more cells than columns, is a caption with a comma not in quotes?"
                )
            elif not name:
                wrong.append(f"row {number}: names no image")
            elif None in row.values():
                wrong.append(f"row {number}: fewer cells than columns")
            elif split not in SPLITS:
                wrong.append(f"row {number}: split {split!r}")
            elif split != first:
                wrong.append(f"row {number}: {name} is in {split}, but in row {seen} in {first}")
            else:
                captions.setdefault(name, []).append(Caption(number, row["caption"]))
    except csv.Error as error:
        raise VseppError(
            f"{file.where}: row {number + 1}: {error}; look for a quote that is not closed"
        ) from error
    refuse(
        wrong,
        f"{file.where}: rows that cannot be read",
        f"Expected an image, a caption and one of {', '.join(SPLITS)}.",
    )
    images = [
        CaptionedImage(
            image_id=str(PurePosixPath(name).with_suffix("")),
            path=name,
            container="images",
            split=splits[name][0],
            captions=tuple(found),
            listed_in=f"{file.where}: row {splits[name][1]}",
            captions_in=f"{file.where}: row",
        )
        for name, found in captions.items()
    ]
    return RawCorpus(images, sums=files.sums, read_as=files.read_as)


def _drawn(name: str) -> str:
    """The split of a picture if the CSV gives none."""
    return {0: "test", 1: "val"}.get(int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10, "train")
