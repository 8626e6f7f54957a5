"""MS-COCO 2014 with Karpathy's splits.

Roles: `train_images` and `val_images` (folder or zip archive, the JPEGs directly or below `train2014`,
`val2014`), `train_captions` and `val_captions` (`captions_*2014.json`) and `splits` (`dataset_coco.json`).
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Literal

from pycocotools.coco import COCO

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.files import shortly
from vsepp.base.spec import CorpusSpec
from vsepp.data.raw_files import Caption, CaptionedImage, RawCorpus, is_id, list_of, read_raw
from vsepp.data.readers import karpathy

CITATION = (
    "Lin et al., 2014: Microsoft COCO: common objects in context; Chen et al., 2015: Microsoft COCO captions"
)

_PART = re.compile(r"(train|val)2014")
_NAME = re.compile(r"COCO_(train|val)2014_([0-9]{12})\.jpg")


@dataclass(frozen=True)
class Options:
    """How the split file is read."""

    captions: Literal["as_listed", "by_id"] = "as_listed"
    """An image's captions in the order of its `sentids`, or by rising id. If a corpus uses the first five, the order
    decides which of six or seven are used: the field's id lists have the five lowest."""


def read(spec: CorpusSpec) -> RawCorpus:
    """Read COCO: split, order and caption ids from Karpathy's file, the text from COCO's own annotations.

    An image's id is its COCO id; a caption's id is the `sentid`, which is also the id of its annotation.

    Raises
    ------
    VseppError
        On malformed files; on a sentence id that COCO does not have, or has for another image; on a file name that
        belongs to another image.
    """
    options = components.options("reader", spec.reader)
    entries = karpathy.load(spec, "dataset_coco.json")
    released, files = {}, {}
    for name in ("train", "val"):
        released[name], files[name] = _annotations(spec, name)
    images: list[CaptionedImage] = []
    for entry, cocoid in entries:
        part = _part(entry.path, cocoid)
        if part is None:
            raise VseppError(
                f"{entry.listed_in}: {shortly(entry.path)}, cocoid {shortly(cocoid)}: belongs to neither train2014 nor val2014, or "
                "its file name is not that of its cocoid; expected COCO 2014"
            )
        file, captions = files[part], []
        for sentid, _ in sorted(entry.captions) if options.captions == "by_id" else entry.captions:
            annotation = released[part].anns.get(sentid)
            if annotation is None or annotation["image_id"] != cocoid:
                found = f"is of image {annotation['image_id']}" if annotation else "is not there"
                raise VseppError(
                    f"{entry.listed_in}: sentid {sentid} {found} in {file}, expected image {cocoid}; fetch both releases again"
                )
            captions.append(Caption(sentid, annotation["caption"]))
        of_coco = {"image_id": str(cocoid), "container": f"{part}_images"}
        images.append(replace(entry, **of_coco, captions=tuple(captions), captions_in=f"{file}: annotation"))
    annotated = {str(image_id) for coco in released.values() for image_id in coco.imgToAnns}
    return RawCorpus(images, sorted(annotated - {image.image_id for image in images}))


def _annotations(spec: CorpusSpec, part: str) -> tuple[COCO, str]:
    """Annotations of a part, indexed by id and by image, and the name of their file in messages."""
    file = read_raw(spec, f"{part}_captions", f"captions_{part}2014.json")
    annotations = list_of(file.json(), "annotations", file.where)
    for row, annotation in enumerate(annotations):
        if fault := _fault(annotation):
            raise VseppError(f"{file.where}: annotations[{row}]: {fault}; is it a captions_*.json file?")
    coco = COCO()
    coco.dataset = {"annotations": annotations}
    with contextlib.redirect_stdout(io.StringIO()):  # it reports its progress
        coco.createIndex()
    if len(coco.anns) < len(annotations):  # of two annotations of one id it keeps the last
        row = next(
            row for row, annotation in enumerate(annotations) if coco.anns[annotation["id"]] is not annotation
        )
        raise VseppError(
            f"{file.where}: annotations[{row}]: id {annotations[row]['id']} is there twice; fetch the file again"
        )
    return coco, file.where


def _part(path: str, cocoid: Any) -> str | None:
    """`train` or `val`, by the folder that the split file gives or else by the name; `None` if they do not fit the id."""
    folder, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
    found = _PART.search(name) if folder == "." else _PART.fullmatch(folder)
    said = _NAME.fullmatch(name)
    if found is None or not is_id(cocoid) or (said and (said[1], int(said[2])) != (found[1], cocoid)):
        return None
    return found[1]


def _fault(annotation: Any) -> str | None:
    """What is wrong with the structure of an annotation."""
    if not isinstance(annotation, dict):
        return f"expected an object, found {shortly(annotation)}"
    for key in ("id", "image_id"):
        if not is_id(annotation.get(key)):
            return f"{key}: expected a whole number from 0, of at most 63 bits, found {shortly(annotation.get(key))}"
    if not isinstance(annotation.get("caption"), str):
        return f"caption: expected text, found {shortly(annotation.get('caption'))}"
    return None
