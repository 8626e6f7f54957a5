"""Your own pictures: a folder, and a table of captions.

Roles: `images` (a folder or zip archive) and `captions` (a table of images, captions and optionally splits,
as `vsepp.data.caption_files` reads it). A picture has one row per caption.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.spec import CorpusSpec
from vsepp.data.caption_files import CaptionTable, columns_of, read_captions
from vsepp.data.raw import Caption, CaptionedImage, RawCorpus, image_ids

FILES = ("images", "captions")
EXIF_ORIENTATION = "applied"
"""Pictures as their owner sees them; photographs of the papers are turned or not as
`exif_orientation` says."""


@dataclass(frozen=True)
class Options:
    """How the table is read."""

    columns: str = ""
    """Names of columns that are not known: `image=file,caption=words`."""


def read(spec: CorpusSpec, files: Mapping[str, Path]) -> RawCorpus:
    """Read the pictures in the order of the table; errors as in
    `vsepp.data.caption_files` and `images_of`."""
    options = components.options("reader", spec.reader)
    table = read_captions(files["captions"], columns_of(options.columns))
    return RawCorpus(images_of(table), left_out=table.problems)


def images_of(table: CaptionTable) -> list[CaptionedImage]:
    """Pictures in the order of a table.

    A caption's id is its row, from 1. Without a column `split` a tenth of the pictures is `test` and a tenth
    `val`, by a hash of their names: a picture keeps its split when others are added.

    Raises
    ------
    VseppError
        If a split is unknown or differs from the picture's other rows.
    """
    images: dict[str, CaptionedImage] = {}
    captions: dict[str, list[Caption]] = {}
    for row in table.rows:
        name = row.image
        split = _drawn(name.strip()) if row.split is None else row.split
        image = CaptionedImage(
            image_id=str(PurePosixPath(name.strip()).with_suffix("")),
            path=name,
            container="images",
            split=split,
            captions=(),
            listed_in=row.where,
            captions_in=f"{table.where}: row",
        )
        first = images.setdefault(name, image)
        if first.split != split:
            raise VseppError(
                f"{row.where}: {name} is in {split}, but in {first.split} in {first.listed_in}; give it one"
            )
        captions.setdefault(name, []).append(Caption(row.number, row.caption, row.where))
    return image_ids([replace(image, captions=tuple(captions[name])) for name, image in images.items()])


def _drawn(name: str) -> str:
    """The split of a picture if the table gives none."""
    return {0: "test", 1: "val"}.get(
        int(hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest(), 16) % 10, "train"
    )
