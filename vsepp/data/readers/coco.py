"""MS-COCO 2014 with Karpathy's splits.

Roles: `train_images` and `val_images` (folder or zip archive, the JPEGs directly or below `train2014`,
`val2014`), `train_captions` and `val_captions` (`captions_*2014.json`) and `splits` (`dataset_coco.json`).
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import replace
from typing import Any

from pycocotools.coco import COCO

from vsepp.data.raw import Caption, CaptionedImage, RawCorpus, RawFiles, list_of, parsed_json
from vsepp.data.readers import karpathy
from vsepp.errors import refuse
from vsepp.spec import CorpusSpec

CITATION = (
    "Lin et al., 2014: Microsoft COCO: common objects in context; Chen et al., 2015: Microsoft COCO captions"
)

_PART = re.compile(r"(train|val)2014")


def read(spec: CorpusSpec) -> RawCorpus:
    """Read COCO: split, order and caption ids from Karpathy's file, the text from COCO's own annotations.

    An image's id is its COCO id; a caption's id is the `sentid`, which is also the id of its annotation.

    Raises
    ------
    VseppError
        On malformed files; on a sentence id that COCO does not have, or has for another image.
    """
    raw = RawFiles(spec)
    entries, where = karpathy.load(raw, "dataset_coco.json")
    annotations, files = {}, {}
    for part in ("train", "val"):
        annotations[part], files[part] = _annotations(raw, part)
    images: list[CaptionedImage] = []
    misplaced, unknown, foreign = [], [], []
    for entry, cocoid in entries:
        found = _PART.search(entry.path)
        if found is None or type(cocoid) is not int:
            misplaced.append(f"{entry.listed_in}: {entry.path}, cocoid {cocoid!r}")
            continue
        part, file = found[1], files[found[1]]
        captions = []
        for sentid, _ in entry.captions:
            annotation = annotations[part].get(sentid)
            if annotation is None:
                unknown.append(f"sentid {sentid} of {entry.path} (not in {file})")
            elif annotation["image_id"] != cocoid:
                of_image = annotation["image_id"]
                foreign.append(f"sentid {sentid}: image {of_image} in {file}, {cocoid} in the split file")
            else:
                captions.append(Caption(sentid, annotation["caption"]))
        ours = {"image_id": str(cocoid), "container": f"{part}_images"}
        images.append(replace(entry, **ours, captions=tuple(captions), captions_in=f"{file}: annotation"))
    refuse(misplaced, f"{where}: images that belong to neither train2014 nor val2014", "Expected COCO 2014.")
    refuse(unknown, f"{where}: sentences that COCO does not have", "Fetch both releases again.")
    refuse(foreign, f"{where}: annotations of another image", "Fetch both releases again.")
    annotated = {str(annotation["image_id"]) for part in annotations.values() for annotation in part.values()}
    unlisted = sorted(annotated - {image.image_id for image in images})
    return RawCorpus(images, unlisted, raw.sums)


def _annotations(raw: RawFiles, part: str) -> tuple[dict[int, dict[str, Any]], str]:
    """Annotations of a part by id, and the name of their file in messages."""
    file = raw.read(f"{part}_captions", f"captions_{part}2014.json")
    document = parsed_json(file)
    rows = list_of(document, "annotations", file.where)
    malformed = [
        f"annotations[{row}]"
        for row, annotation in enumerate(rows)
        if not isinstance(annotation, dict) or not {"id", "image_id", "caption"} <= annotation.keys()
    ]
    refuse(
        malformed,
        f"{file.where}: annotations without id, image_id or caption",
        "Is it a captions_*.json file?",
    )
    # Given parsed, since COCO would open the file in the machine's own encoding.
    coco = COCO()
    coco.dataset = document
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
    if len(coco.anns) != len(rows):
        ids = [annotation["id"] for annotation in rows]
        seen: set[int] = set()
        repeated = [f"id {i}" for i in ids if i in seen or seen.add(i)]  # type: ignore[func-returns-value]
        refuse(repeated, f"{file.where}: annotation ids that occur more than once", "Fetch the file again.")
    return coco.anns, file.where
