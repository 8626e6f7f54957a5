"""MS-COCO 2014 with Karpathy's splits.

Roles: `train_images` and `val_images` (folder or zip archive, the JPEGs directly or below `train2014`,
`val2014`), `train_captions` and `val_captions` (`captions_*2014.json`) and `splits` (`dataset_coco.json`).
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pycocotools.coco import COCO
from pydantic import FailFast
from typing_extensions import TypedDict  # pydantic takes none of Python 3.11's own

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.files import shortly
from vsepp.base.spec import CorpusSpec
from vsepp.data.raw import Caption, CaptionedImage, RawCorpus, RawId, read_raw
from vsepp.data.readers import karpathy

CITATION = (
    "Lin et al., 2014: Microsoft COCO: common objects in context; Chen et al., 2015: Microsoft COCO captions"
)
FILES = ("train_images", "val_images", "train_captions", "val_captions", "splits")

_PART = re.compile(r"(train|val)2014")
_NAME = re.compile(r"COCO_(train|val)2014_([0-9]{12})\.jpg")


@dataclass(frozen=True)
class Options:
    """How the split file is read."""

    captions: Literal["as_listed", "by_id"] = "as_listed"
    """An image's captions in the order of its `sentids`, or by rising id. If a corpus uses the first five,
    the order decides which of six or seven are used: the field's id lists have the five lowest."""


class Annotation(TypedDict):
    """A caption."""

    id: RawId
    image_id: RawId
    caption: Any


@dataclass(frozen=True)
class Annotations:
    """A file of captions."""

    annotations: Annotated[list[Annotation], FailFast()]


def read(spec: CorpusSpec, files: Mapping[str, Path]) -> RawCorpus:
    """Read COCO: split, order and caption ids from Karpathy's file, the text from COCO's own annotations.

    An image's id is its COCO id; a caption's id is the `sentid`, which is also the id of its annotation.

    Raises
    ------
    VseppError
        On malformed files; on a sentence id that COCO does not have, or has for another image; on a file name
        that belongs to another image.
    """
    options = components.options("reader", spec.reader)
    entries = karpathy.load(files["splits"], "dataset_coco.json")
    released, sources = {}, {}
    for part in ("train", "val"):
        released[part], sources[part] = _annotations(files[f"{part}_captions"], f"captions_{part}2014.json")
    images: list[CaptionedImage] = []
    for entry, cocoid in entries:
        part = _part(entry, cocoid)
        source, captions = sources[part], []
        for sentid, *_ in sorted(entry.captions) if options.captions == "by_id" else entry.captions:
            annotation = released[part].anns.get(sentid)
            if annotation is None or annotation["image_id"] != cocoid:
                actual = f"is of image {annotation['image_id']}" if annotation else "is not there"
                raise VseppError(
                    f"{entry.listed_in}: sentid {sentid} {actual} in {source}, expected image {cocoid}; "
                    "fetch both releases again"
                )
            captions.append(Caption(sentid, annotation["caption"]))
        images.append(
            replace(
                entry,
                image_id=str(cocoid),
                # The folder or archive of a part may hold its photographs below any name.
                path=PurePosixPath(entry.path).name,
                container=f"{part}_images",
                captions=tuple(captions),
                captions_in=f"{source}: annotation",
            )
        )
    annotated = {str(image_id) for coco in released.values() for image_id in coco.imgToAnns}
    return RawCorpus(images, sorted(annotated - {image.image_id for image in images}))


def _annotations(path: Path, member: str) -> tuple[COCO, str]:
    """Annotations of a part, indexed by id and by image, and the name of their file in messages."""
    file = read_raw(path, member)
    annotations = file.json(Annotations).annotations
    coco = COCO()
    coco.dataset = {"annotations": annotations}
    with contextlib.redirect_stdout(io.StringIO()):  # it reports its progress
        coco.createIndex()
    for row, annotation in enumerate(annotations):
        if coco.anns[annotation["id"]] is not annotation:  # of two annotations of one id it keeps the last
            raise VseppError(
                f"{file.where}: annotations[{row}]: id {annotation['id']} is there twice; fetch the file "
                "again"
            )
    return coco, file.where


def _part(entry: CaptionedImage, cocoid: int | None) -> str:
    """`train` or `val`, by the folder that the split file gives or else by the name."""
    path = PurePosixPath(entry.path)
    folder = str(path.parent)
    part = _PART.search(path.name) if folder == "." else _PART.fullmatch(folder)
    name = _NAME.fullmatch(path.name)
    if part is None or cocoid is None or (name and (name[1], int(name[2])) != (part[1], cocoid)):
        raise VseppError(
            f"{entry.listed_in}: {shortly(entry.path)}, cocoid {cocoid}: belongs to neither train2014 nor "
            "val2014, or its file name is not that of its cocoid; expected COCO 2014"
        )
    return part[1]
