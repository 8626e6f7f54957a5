"""Crisscrossed Captions: people's ratings, from 0 to 5, of pairs of COCO's test captions and images.

Positives are pairs rated at least 3 (caption and image, two captions) or 2.5 (two images). In caption → caption retrieval all captions of
the query's own image are positives too: only one of them was rated, and no source says how its authors count the others.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.base.files import bytes_of, reading
from vsepp.evaluation.gallery import Gallery
from vsepp.evaluation.truth import IdPairs, Ratings, Truth

CITATION = "Parekh, Baldridge, Cer, Waters and Yang, Crisscrossed Captions: Extended Intramodal and Intermodal Semantic Similarity Judgments for MS-COCO, EACL 2021"
FILES = {"sits": "sits_test.csv", "sts": "sts_test.csv", "sis": "sis_test.csv"}
LEAST = {"sits": 3.0, "sts": 3.0, "sis": 2.5}
"""File → the lowest rating of a positive."""
_LARGEST = 1 << 27
"""Most bytes that are read from a compressed file; the largest file has 4 MB."""
_IDS = {
    "caption": re.compile(r"COCO_val2014:sentid:([0-9]{1,12})"),
    "image": re.compile(r"COCO_val2014_([0-9]{12})\.jpg"),
}
_KINDS = {"sits": ("caption", "image"), "sts": ("caption", "caption"), "sis": ("image", "image")}
"""File → what its two columns of ids hold."""


class _Rated(NamedTuple):
    """Columns of a file's rows, `(n,)` each."""

    first: np.ndarray
    """Ids."""
    second: np.ndarray
    ratings: np.ndarray
    own: np.ndarray
    """Whether the pair is a caption and its own image."""


def installed() -> Mapping[str, Path]:
    """Empty: no package has the files."""
    return {}


def read(files: Mapping[str, Path]) -> Truth:
    """The truth, from files by their role, as they are or compressed by gzip.

    Raises
    ------
    VseppError
        Naming the file and the row that is no rating of a pair, or if the files do not fit each other.
    """
    rated = {name: _ratings(path, *_KINDS[name]) for name, path in files.items()}
    with reading(files["sits"].parent, "the files of Crisscrossed Captions; fetch them again"):
        return _truth(rated)


def _truth(rated: Mapping[str, _Rated]) -> Truth:
    """The truth, from the ratings of each file."""
    (captions, images, ratings, own), sts, sis = rated["sits"], rated["sts"], rated["sis"]
    gallery = Gallery.from_ids(images[own], captions[own])
    captions_by_image: dict[int, list[int]] = {}
    for caption, image in zip(captions[own].tolist(), images[own].tolist(), strict=True):
        captions_by_image.setdefault(image, []).append(caption)
    beside = np.array([pair for group in captions_by_image.values() for pair in permutations(group, 2)]).T
    alike = {
        name: np.stack([pairs.first, pairs.second])[:, pairs.ratings >= LEAST[name]]
        for name, pairs in rated.items()
    }
    asked, asking = alike["sits"]
    return gallery.truth(
        "cxc",
        i2t=(asking, asked),
        t2i=(asked, asking),
        t2t=_asking(*np.concatenate([alike["sts"], beside], axis=1)),
        i2i=_asking(*alike["sis"]),
        # In a pair of one kind either item may ask. In a pair of an image and a caption the image asks: with captions as queries,
        # simulated estimates spread less than the published ones.
        ratings={
            "sts": Ratings("t2t", *_turned(sts.first, sts.second), np.tile(sts.ratings, 2)),
            "sis": Ratings("i2i", *_turned(sis.first, sis.second), np.tile(sis.ratings, 2)),
            "sits": Ratings("i2t", images, captions, ratings),
        },
    )


def _turned(first: np.ndarray, second: np.ndarray) -> IdPairs:
    """Pairs of one kind, and the same pairs the other way round: `(2n,)` from `(n,)` each."""
    return np.r_[first, second], np.r_[second, first]


def _asking(first: np.ndarray, second: np.ndarray) -> IdPairs:
    """Pairs of one kind, in which each item asks for the other; each pair once, however often it was rated."""
    asking, asked = np.unique(_turned(first, second), axis=1)
    return asking, asked


def _ratings(path: Path, *kinds: str) -> _Rated:
    """Both ids and the rating of each row, and whether its pair is a caption and its own image."""
    expected = "the columns of a file of Crisscrossed Captions: two ids, agg_score, sampling_method"
    rows: list[tuple[int, int, float, bool]] = []
    with reading(path, expected):
        data = bytes_of(path, expected)
        if data[:2] == b"\x1f\x8b":
            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(_LARGEST)
        text = data.decode("utf-8")
        lines = csv.reader(io.StringIO(text, newline=""), strict=True)
        next(lines, None)
        for number, line in enumerate(lines, start=2):
            try:
                first, second, rating, method = line
                ids = [_id(value, kind) for value, kind in zip((first, second), kinds, strict=True)]
                if not re.fullmatch(r"[0-9.e-]+", rating) or not 0 <= float(rating) <= 5:
                    raise ValueError
            except ValueError:
                raise VseppError(f"row {number}: got {','.join(line)[:80]!r}; expected {expected}") from None
            rows.append((*ids, float(rating), method == "c2i_original"))  # type: ignore[arg-type]  # two ids
        if not rows:
            raise VseppError(f"has no rows; expected {expected}")
    return _Rated(*map(np.array, zip(*rows, strict=True)))


def _id(value: str, kind: str) -> int:
    """COCO's number in `COCO_val2014:sentid:411553` or `COCO_val2014_000000205866.jpg`."""
    match = _IDS[kind].fullmatch(value)
    if match is None:
        raise ValueError
    return int(match[1])
