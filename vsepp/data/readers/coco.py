"""MS-COCO 2014 with Karpathy's splits.

Roles: `train_images` and `val_images` (folder or zip archive, the JPEGs directly or below `train2014`,
`val2014`), `train_captions` and `val_captions` (`captions_*2014.json`) and `splits` (`dataset_coco.json`).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Literal

from vsepp import components
from vsepp.data.raw_files import Caption, CaptionedImage, RawCorpus, is_id, list_of, read_raw
from vsepp.data.readers import karpathy
from vsepp.errors import refuse
from vsepp.spec import CorpusSpec
from vsepp.user_files import shortly

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
    entries, where = karpathy.load(spec, "dataset_coco.json")
    annotations, files = {}, {}
    for name in ("train", "val"):
        annotations[name], files[name] = _annotations(spec, name)
    images: list[CaptionedImage] = []
    misplaced, unknown, of_another = [], [], []
    for entry, cocoid in entries:
        part = _part(entry.path, cocoid)
        if part is None:
            misplaced.append(f"{entry.listed_in}: {entry.path}, cocoid {shortly(cocoid)}")
            continue
        file, captions = files[part], []
        for sentid, _ in sorted(entry.captions) if options.captions == "by_id" else entry.captions:
            annotation = annotations[part].get(sentid)
            if annotation is None:
                unknown.append(f"sentid {sentid} of {entry.path} (not in {file})")
            elif annotation["image_id"] != cocoid:
                owner = annotation["image_id"]
                of_another.append(f"sentid {sentid}: image {owner} in {file}, {cocoid} in the split file")
            else:
                captions.append(Caption(sentid, annotation["caption"]))
        of_coco = {"image_id": str(cocoid), "container": f"{part}_images"}
        images.append(replace(entry, **of_coco, captions=tuple(captions), captions_in=f"{file}: annotation"))
    refuse(
        misplaced,
        f"{where}: images that belong to neither train2014 nor val2014, or whose file name is not that of their cocoid",
        "Expected COCO 2014.",
    )
    refuse(unknown, f"{where}: sentences that COCO does not have", "Fetch both releases again.")
    refuse(of_another, f"{where}: annotations of another image", "Fetch both releases again.")
    annotated = {str(annotation["image_id"]) for part in annotations.values() for annotation in part.values()}
    return RawCorpus(images, sorted(annotated - {image.image_id for image in images}))


def _annotations(spec: CorpusSpec, part: str) -> tuple[dict[int, dict[str, Any]], str]:
    """Annotations of a part by id, and the name of their file in messages."""
    file = read_raw(spec, f"{part}_captions", f"captions_{part}2014.json")
    document = file.json()
    rows = list_of(document, "annotations", file.where)
    malformed = [f"annotations[{row}]: {fault}" for row, one in enumerate(rows) if (fault := _fault(one))]
    refuse(malformed, f"{file.where}: malformed annotations", "Is it a captions_*.json file?")
    by_id = {annotation["id"]: annotation for annotation in rows}
    if len(by_id) != len(rows):
        counts = Counter(annotation["id"] for annotation in rows)
        repeated = [f"id {number}" for number, count in counts.items() if count > 1]
        refuse(repeated, f"{file.where}: annotation ids that occur more than once", "Fetch the file again.")
    return by_id, file.where


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
