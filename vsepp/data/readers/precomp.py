"""The folders of features that the paper's authors published: `coco_precomp`, `f30k_precomp`, `10crop_precomp`.

Role `folder`: the folder, with `{train,dev,test}_ims.npy` (CNN features, float32 `(n, dim)`, L2-normalised) and
`{train,dev,test}_caps.txt` (one caption per line, five per image). There are no photographs. Some folders repeat each image's row five times, once per caption; others have it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from vsepp.data.containers import role_path
from vsepp.data.raw_files import Caption, CaptionedImage, RawCorpus, RawFiles, lines_of
from vsepp.errors import VseppError, refuse
from vsepp.spec import CorpusSpec
from vsepp.user_files import reading, require_file

CITATION = "Faghri, Fleet, Kiros and Fidler, 2018: VSE++, features released with its code"

ROLE = "folder"
# Split in the files' names → our name of it, in the order of the images table.
PREFIXES = {"train": "train", "dev": "val", "test": "test"}
CAPTIONS_PER_IMAGE = 5
_ROWS = "float32 (n, dim), as numpy.save writes them"


def read(spec: CorpusSpec) -> RawCorpus:
    """Read train, val (`dev`) and test.

    An image's id is `train-0`, its path `train_ims.npy#0`: file and row of its feature, the first of five if
    rows are repeated. A caption's id is its number over the three files, from 0.

    Raises
    ------
    VseppError
        If files are missing or malformed, or if counts do not fit.
    """
    files = RawFiles(spec)
    paths = feature_files(spec)
    images: list[CaptionedImage] = []
    first_id = 0
    for prefix, rows in read_features(paths).items():
        file = files.read(ROLE, f"{prefix}_caps.txt")
        file.tell_end()
        texts = lines_of(file.text())
        step = _rows_per_image(paths[prefix], rows, len(texts), file.where)
        images += _images(prefix, texts, first_id, paths[prefix], len(rows) // step, step, file.where)
        first_id += len(texts)
    return RawCorpus(images, files)


def feature_files(spec: CorpusSpec) -> dict[str, Path]:
    """The three files of features by prefix: `train`, `dev`, `test`.

    Raises
    ------
    VseppError
        Naming all files of the folder that are missing.
    """
    folder = role_path(spec, ROLE)
    wanted = [f"{prefix}_{what}" for prefix in PREFIXES for what in ("ims.npy", "caps.txt")]
    missing = [name for name in wanted if not (folder / name).exists()]
    refuse(missing, f"{folder}: files are missing", f"Expected a folder with {', '.join(wanted)}.")
    return {prefix: folder / f"{prefix}_ims.npy" for prefix in PREFIXES}


def read_features(paths: Mapping[str, Path]) -> dict[str, np.ndarray]:
    """Memory maps of the files of features, float32 `(n, dim)`, by prefix.

    Raises
    ------
    VseppError
        If one is not such an array, or their `dim` differs.
    """
    features = {}
    for prefix, path in paths.items():
        require_file(path, _ROWS)
        with reading(path, _ROWS):
            features[prefix] = rows = np.load(path, mmap_mode="r", allow_pickle=False)
        if rows.ndim != 2 or rows.dtype != np.dtype("<f4"):
            raise VseppError(f"{path}: expected {_ROWS}, found {rows.dtype} {rows.shape}")
    if len({rows.shape[1] for rows in features.values()}) > 1:
        dims = ", ".join(f"{paths[prefix]} has {rows.shape[1]}" for prefix, rows in features.items())
        raise VseppError(f"features of one encoder must have one dimension: {dims}; fetch the folder again")
    return features


def member_of(prefix: str, row: int) -> str:
    """File and row of a feature, as in the images table."""
    return f"{prefix}_ims.npy#{row}"


def _images(
    prefix: str, texts: list[str], first_id: int, path: Path, count: int, step: int, captions_in: str
) -> list[CaptionedImage]:
    images = []
    for number in range(count):
        lines = range(number * CAPTIONS_PER_IMAGE, (number + 1) * CAPTIONS_PER_IMAGE)
        images.append(
            CaptionedImage(
                image_id=f"{prefix}-{number}",
                path=member_of(prefix, number * step),
                container="",
                split=PREFIXES[prefix],
                captions=tuple(Caption(first_id + line, texts[line]) for line in lines),
                listed_in=f"{path}: row {number * step}",
                captions_in=f"{captions_in}: lines {lines[0] + 1} to {lines[-1] + 1}: caption",
            )
        )
    return images


def _rows_per_image(path: Path, rows: np.ndarray, captions: int, captions_in: str) -> int:
    """1, or 5 if an image's row is repeated for each caption."""
    if len(rows) * CAPTIONS_PER_IMAGE == captions:
        return 1
    if len(rows) == captions and captions % CAPTIONS_PER_IMAGE == 0:
        return CAPTIONS_PER_IMAGE
    raise VseppError(
        f"{path} has {len(rows)} rows and {captions_in} {captions} captions; expected "
        f"{CAPTIONS_PER_IMAGE} captions per row, or one row per caption and {CAPTIONS_PER_IMAGE} per image; "
        "they are not of the same release: fetch both again"
    )
