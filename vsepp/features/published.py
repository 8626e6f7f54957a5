"""Published features instead of computed ones: folders that the reader `precomp` reads → `features.npy`.

Regions are large (36 GB for COCO) and are copied all the same. All numbers must be read once anyway, because
a NaN would spoil a training; the copy is one array with a row an image, where the originals are three files,
in an archive or not, some with each row five times; and its manifest vouches for what is trained on. It costs
the disk again, and little time: of 20,000 images of 36 × 2,048 numbers (7.1 GB in files, 5.9 GB as a copy),
reading and checks took 20 to 24 s on two cores, copying them with it 33 to 34 s. Copying holds blocks, and a
training maps the copy and reads the rows of a step: both were measured with 20,000 images of 36 vectors.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.base.files import check_space, whole_file
from vsepp.base.progress import track
from vsepp.base.spec import CorpusSpec
from vsepp.data.arrays import NpyRows
from vsepp.data.container import Container
from vsepp.data.raw import read_raw
from vsepp.data.readers.precomp import (
    CAPTIONS_PER_IMAGE,
    FOLDER,
    PREFIXES,
    feature_files,
    member_of,
    rows_per_image,
)
from vsepp.data.tables import ParquetTable, read_tables

log = logging.getLogger("vsepp")

# Same name as in `vsepp.features.frozen`, which imports the encoders.
FILE = "features.npy"
# Bytes of features that are read at a time; a few copies of them are in memory besides.
BLOCK_BYTES = 64 << 20
# Tolerance of a row's length around 1: published rows are float32, and some were once stored in 16 bits.
_UNIT = 1e-3


class _Part(NamedTuple):
    """The part of a file of features that the images table names."""

    rows: NpyRows
    images: int
    step: int
    """Rows of the file per image."""


def make_published(spec: CorpusSpec, corpus: Path, files: Mapping[str, Path], out: Path) -> dict[str, Any]:
    """Write the published features of a corpus, whose folder has the images table; `files` are its raw files.
    See `import_precomputed`."""
    images, _ = read_tables(corpus)
    return import_precomputed(spec, images, files, out)


def import_precomputed(
    spec: CorpusSpec, images: ParquetTable, files: Mapping[str, Path], out: Path
) -> dict[str, Any]:
    """Write `out/features.npy`, float32 `(n_images, vectors, dim)`, rows as in the images table.

    Parameters
    ----------
    spec
        The corpus, with the reader `precomp`.
    images
        Its images table.
    files
        The reader's name of a file → its path.
    out
        Folder of the result.

    Returns
    -------
    dict
        `images`, `vectors`, `dim`, `rows_per_image` (split → 1 or 5) and, where an image is one vector,
        `unit_length` (fraction of the rows with an L2 norm of 1).

    Raises
    ------
    VseppError
        If the table was read from other files, a value is NaN or infinite, the five rows of an image differ,
        a set of vectors is all zeros, or the disk has too little space.
    OSError
        If the disk fills up meanwhile; nothing is left of the file.
    """
    parts = _parts(spec, images, files)
    first = next(iter(parts.values())).rows
    count = len(images)
    shape = count, first.vectors, first.dim
    what = f"published features of {count} images"
    at_once = max(1, BLOCK_BYTES // (4 * CAPTIONS_PER_IMAGE * first.vectors * first.dim))
    out.mkdir(parents=True, exist_ok=True)
    check_space(out, 4 * math.prod(shape), what)
    blocks = chain.from_iterable(_blocks(part, at_once) for part in parts.values())
    unit = 0
    with whole_file(out / FILE) as partial, partial.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for block in track(blocks, count, what, "image", per_item=at_once):
            stream.write(np.ascontiguousarray(block).data)
            if first.vectors == 1:
                unit += int((abs(np.linalg.norm(block, axis=2) - 1) < _UNIT).sum())
    facts = {
        "images": count,
        "vectors": first.vectors,
        "dim": first.dim,
        "rows_per_image": {PREFIXES[prefix]: part.step for prefix, part in parts.items()},
    }
    if first.vectors > 1:  # regions are published as a detector gave them
        return facts
    if unit < count:
        log.warning(
            "corpus %s: %.1f %% of the published features have unit length; all are used as they are, as in "
            "the released code",
            spec.name,
            100 * unit / count,
        )
    return {**facts, "unit_length": unit / count}


def raw_features(files: Mapping[str, Path]) -> dict[str, Path]:
    """Files that the features are read from, by role: the three arrays, or the archive that holds them."""
    container = Container(files[FOLDER])
    if not container.is_folder:
        return {FOLDER: container.path}
    return {prefix: Path(rows.where) for prefix, rows in feature_files(container).items()}


def _parts(spec: CorpusSpec, images: ParquetTable, files: Mapping[str, Path]) -> dict[str, _Part]:
    """The part of each file that the table names, checked against the file."""
    parts = {}
    expected: list[str] = []
    container = Container(files[FOLDER])
    for prefix, rows in feature_files(container).items():
        split = PREFIXES[prefix]
        members = np.asarray(images["member"])[np.asarray(images["split"]) == split].tolist()
        step = rows_per_image(rows, read_raw(container.path, f"{prefix}_caps.txt"))
        needed = len(members) * step
        # With `first_images`, the table may name fewer images than the file has.
        shortened = spec.first_images.get(split) == len(members)
        if not members or needed > len(rows) or (needed != len(rows) and not shortened):
            raise VseppError(
                f"{rows.where}: has {len(rows)} rows, but the images table needs {needed} for its "
                f"{len(members)} images of {split}: it was read from another file. Run the step that reads "
                "the corpus again"
            )
        parts[prefix] = _Part(rows, len(members), step)
        expected += [member_of(prefix, number * step) for number in range(len(members))]
    for row, member in enumerate(images["member"]):
        if [member] != expected[row : row + 1]:
            raise VseppError(
                f"corpus {spec.name}: row {row} of the images table, {member!r}, is not in the order of the "
                "files; run the step that reads the corpus again"
            )
    return parts


def _blocks(part: _Part, at_once: int) -> Iterator[np.ndarray]:
    """Features of a part's images, checked: float32 `(n, vectors, dim)`."""
    first = 0
    for block in part.rows.blocks(part.images * part.step, at_once * part.step):
        repeated = block.reshape(-1, part.step, part.rows.vectors, part.rows.dim)
        wrong = ~np.isfinite(repeated).all(axis=(1, 2, 3))
        if wrong.any():
            raise VseppError(
                f"{_first_row(part, first, wrong)} holds NaN or infinite values; the copy is damaged: fetch "
                "it again"
            )
        wrong = np.logical_not((repeated == repeated[:, :1]).all(axis=(1, 2, 3)))
        if wrong.any():
            raise VseppError(
                f"{_first_row(part, first, wrong)} and those after it differ, but there are as many rows as "
                "captions; expected five equal rows per image, or one row for five captions: fetch the "
                "folder again"
            )
        wrong = np.logical_not(repeated[:, 0].any(axis=(1, 2)))
        if part.rows.vectors > 1 and wrong.any():
            raise VseppError(
                f"{_first_row(part, first, wrong)} is of an image without regions: its {part.rows.vectors} "
                "vectors are all zeros; fetch the folder again, or extract them again"
            )
        yield repeated[:, 0]
        first += len(block)


def _first_row(part: _Part, first: int, wrong: np.ndarray) -> str:
    """File and row of the first wrong image of a block that begins at row `first`."""
    return f"{part.rows.where}: row {first + part.step * int(wrong.argmax())}"
