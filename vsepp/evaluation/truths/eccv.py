"""ECCV Caption: positives that five models found and people verified, for 1,261 images and 1,332 captions of COCO's test set.

The gallery is all of the test set. Two of the positives are captions that the test set does not have: no model finds them, and they count
as not found.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.base.files import read_json, reading, shortly
from vsepp.evaluation.gallery import Gallery
from vsepp.evaluation.truth import Truth

CITATION = "Chun, Kim, Park, Chang and Oh, ECCV Caption: Correcting False Negatives by Collecting Machine-and-Human-verified Image-Caption Associations for MS-COCO, ECCV 2022"
FILES = {
    "gallery": "original_image_to_caption.json",
    "i2t": "eccv_image_to_caption.json",
    "t2i": "eccv_caption_to_image.json",
}
PACKAGE = "eccv_caption"


def installed() -> Mapping[str, Path]:
    """Role → file of the package `eccv-caption`, where it is installed; its code is not run."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        return {}
    return {role: Path(package.origin).parent / "data" / file for role, file in FILES.items()}


def read(files: Mapping[str, Path]) -> Truth:
    """The truth, from files by their role.

    Raises
    ------
    VseppError
        If a file is no object of id → ids, or the files do not fit each other.
    """
    pairs = {role: _pairs(path) for role, path in files.items()}
    with reading(files["i2t"].parent, "the files of ECCV Caption; fetch them again"):
        return Gallery.from_ids(*pairs["gallery"]).truth("eccv", i2t=pairs["i2t"], t2i=pairs["t2i"])


def _pairs(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Ids of queries and of their positives, `(n,)` each."""
    expected = "a JSON object of each query's id → the ids of its positives"
    with reading(path, expected):
        listed = read_json(path, expected)
        whole = isinstance(listed, dict) and all(
            query.isascii()
            and query.isdecimal()
            and isinstance(items, list)
            and all(type(item) is int for item in items)
            for query, items in listed.items()
        )
        if not whole:
            raise VseppError(f"got {shortly(listed)}; expected {expected}")
        counts = [len(items) for items in listed.values()]
        queries = np.repeat(np.array(list(listed), np.int64), counts)
        return queries, np.array([item for items in listed.values() for item in items], np.int64)
