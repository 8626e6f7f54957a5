"""Published features instead of computed ones: `*_precomp` folders → `features.npy`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsepp.data.readers.precomp import CAPTIONS_PER_IMAGE, PREFIXES, feature_files, read_features
from vsepp.errors import VseppError, refuse
from vsepp.provenance.space import check_space
from vsepp.runtime.files import whole_file
from vsepp.runtime.progress import track
from vsepp.spec import CorpusSpec

if TYPE_CHECKING:
    from vsepp.data.tables import Table

# Same name as in `vsepp.features.extract`, which imports the encoders.
FILE = "features.npy"
BLOCK_IMAGES = 2048


def import_precomputed(spec: CorpusSpec, images: Table, out: Path) -> dict[str, Any]:
    """Write `out/features.npy`, float32 `(n_images, 1, dim)`, rows as in the images table.

    Parameters
    ----------
    spec
        The corpus, with the reader `precomp`.
    images
        Its images table.
    out
        Folder of the result.

    Returns
    -------
    dict
        `images` and `dim`.

    Raises
    ------
    VseppError
        If the table was read from other files, a value is NaN or infinite, or the five rows of an image differ.
    """
    if spec.reader.name != "precomp":
        raise VseppError(
            f"corpus {spec.name}: reader {spec.reader.name} has no published features; expected precomp"
        )
    paths = feature_files(spec)
    features = read_features(paths)
    dim = features["train"].shape[1]
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(images), 1, dim)}
    what = f"published features of {len(images)} images"
    out.mkdir(parents=True, exist_ok=True)
    check_space(out, 4 * len(images) * dim, what)
    blocks = chain.from_iterable(
        _blocks(rows, _rows_of_images(images, prefix, rows, paths[prefix]), paths[prefix])
        for prefix, rows in features.items()
    )
    with whole_file(out / FILE) as partial, partial.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for block in track(blocks, len(images), what, "image", each=BLOCK_IMAGES):
            stream.write(block.tobytes())
    return {"images": len(images), "dim": dim}


def _rows_of_images(images: Table, prefix: str, rows: np.ndarray, path: Path) -> np.ndarray:
    """Rows of a file that belong to each image of its split, int64 `(n, 1)` or, where its row is repeated, `(n, 5)`."""
    members = images["member"][images["split"] == PREFIXES[prefix]]
    first = np.array([int(member.rpartition("#")[2]) for member in members], np.int64)
    is_repeated = len(first) > 1 and not (first % CAPTIONS_PER_IMAGE).any()
    rows_of_images = first[:, None] + np.arange(CAPTIONS_PER_IMAGE if is_repeated else 1)
    if rows_of_images.max(initial=0) >= len(rows):
        raise VseppError(
            f"{path}: has {len(rows)} rows, but the images table names row {rows_of_images.max()}: it was read from another "
            "file. Run the step that reads the corpus again"
        )
    return rows_of_images


def _blocks(rows: np.ndarray, rows_of_images: np.ndarray, path: Path) -> Iterator[np.ndarray]:
    """Features of images, checked: float32 `(n, dim)`."""
    for start in range(0, len(rows_of_images), BLOCK_IMAGES):
        part = rows_of_images[start : start + BLOCK_IMAGES]
        block = rows[part]
        finite = np.isfinite(block).all(axis=(1, 2))
        refuse(
            [f"row {row}" for row in part[~finite, 0]],
            f"{path}: rows that hold NaN or infinite values",
            "The copy is damaged: fetch it again.",
        )
        equal = (block == block[:, :1]).all(axis=(1, 2))
        refuse(
            [f"row {row} and those after it" for row in part[~equal, 0]],
            f"{path}: as many rows as captions, but an image's five rows differ",
            "Expected five equal rows per image, or one row for five captions: fetch the folder again.",
        )
        yield block[:, 0]
