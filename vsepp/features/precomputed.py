"""Published features instead of computed ones: `*_precomp` folders → `features.npy`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vsepp.data.arrays import NpyRows
from vsepp.data.containers import Container, role_path
from vsepp.data.readers.precomp import CAPTIONS_PER_IMAGE, PREFIXES, ROLE, feature_files, member_of
from vsepp.errors import VseppError, refuse
from vsepp.features.growing import GrowingRows
from vsepp.provenance.publish import publish
from vsepp.provenance.space import check_space
from vsepp.runtime.progress import track
from vsepp.spec import CorpusSpec

if TYPE_CHECKING:
    from vsepp.data.tables import Table

log = logging.getLogger("vsepp")

# Same name as in `vsepp.features.extract`, which imports the encoders.
FILE = "features.npy"
BLOCK_IMAGES = 2048
# Tolerance of a row's length around 1: published rows are float32, and some were once stored in 16 bits.
_UNIT = 1e-3


class _Part(NamedTuple):
    """The part of a file of features that the images table names."""

    rows: NpyRows
    images: int
    step: int
    """Rows of the file per image."""


def import_precomputed(spec: CorpusSpec, images: Table, out: Path, state: Path) -> dict[str, Any]:
    """Write `out/features.npy`, float32 `(n_images, 1, dim)`, rows as in the images table.

    Works in `state` and continues from what is there; the file is moved to `out` only when complete.

    Parameters
    ----------
    spec
        The corpus, with the reader `precomp`.
    images
        Its images table.
    out
        Folder of the result.
    state
        Working folder that survives a kill, for these inputs only.

    Returns
    -------
    dict
        `images`, `dim`, `rows_per_image` (split → 1 or 5) and `unit_length` (fraction of the rows whose L2 norm is 1).

    Raises
    ------
    VseppError
        If the table was read from other files, a value is NaN or infinite, or the disk is full.
    """
    if spec.reader.name != "precomp":
        raise VseppError(
            f"corpus {spec.name}: reader {spec.reader.name} has no published features; expected precomp"
        )
    parts = _parts(spec, images)
    dim = next(iter(parts.values())).rows.dim
    state.mkdir(parents=True, exist_ok=True)
    # Chunks of one: rows are copied, each stands by itself.
    written = GrowingRows(state / FILE, (len(images), 1, dim), np.float32, 1)
    what = f"published features of {len(images)} images"
    check_space(state, written.missing_bytes, what)
    missing = list(_missing(parts.values(), written.done))
    blocks = chain.from_iterable(_blocks(part, start) for part, start in missing)
    count = sum(-(-(part.images - start) // BLOCK_IMAGES) for part, start in missing)
    for block in track(blocks, count, what, "block"):
        written.append(block[:, None])
    facts: dict[str, Any] = {
        "images": len(images),
        "dim": dim,
        "rows_per_image": {PREFIXES[prefix]: part.step for prefix, part in parts.items()},
        "unit_length": _unit_length(written.path),
    }
    if facts["unit_length"] < 1:
        log.warning(
            "corpus %s: %.1f %% of the published features have unit length; all are used as they are, as in the released code",
            spec.name,
            100 * facts["unit_length"],
        )
    publish({written.path: out / FILE})
    return facts


def raw_features(spec: CorpusSpec) -> dict[str, Path]:
    """Files that the features are read from, by role: the three arrays, or the archive that holds them."""
    container = Container(role_path(spec, ROLE))
    if not container.is_folder:
        return {ROLE: container.path}
    return {prefix: Path(rows.where) for prefix, rows in feature_files(spec).items()}


def _parts(spec: CorpusSpec, images: Table) -> dict[str, _Part]:
    """The part of each file that the table names, checked against the file."""
    parts = {}
    expected: list[str] = []
    for prefix, rows in feature_files(spec).items():
        split = PREFIXES[prefix]
        members = np.asarray(images["member"])[np.asarray(images["split"]) == split].tolist()
        step = _rows_per_image(members, len(rows))
        needed = len(members) * step
        # With `first_images`, the table may name fewer images than the file has.
        cut = spec.first_images.get(split) == len(members)
        if not members or needed > len(rows) or (needed != len(rows) and not cut):
            raise VseppError(
                f"{rows.where}: has {len(rows)} rows, but the images table needs {needed} for its "
                f"{len(members)} images of {split}: it was read from another file. Run the step that reads the "
                "corpus again"
            )
        parts[prefix] = _Part(rows, len(members), step)
        expected += [member_of(prefix, number * step) for number in range(len(members))]
    found = list(images["member"])
    wrong = [f"row {row}: {one!r}" for row, one in enumerate(found) if [one] != expected[row : row + 1]]
    refuse(
        wrong,
        f"corpus {spec.name}: rows of the images table that are not in the order of the files",
        "Run the step that reads the corpus again.",
    )
    return parts


def _rows_per_image(members: list[str], rows: int) -> int:
    """1 or 5: the distance between the rows of the table's first two images. A single image has the whole file."""
    if len(members) < 2:
        return CAPTIONS_PER_IMAGE if rows == CAPTIONS_PER_IMAGE else 1
    return CAPTIONS_PER_IMAGE if members[1].endswith(f"#{CAPTIONS_PER_IMAGE}") else 1


def _missing(parts: Iterable[_Part], done: int) -> Iterator[tuple[_Part, int]]:
    """Parts that are not complete, and the image from which to continue each."""
    for part in parts:
        start = min(done, part.images)
        done -= start
        if start < part.images:
            yield part, start


def _blocks(part: _Part, start: int) -> Iterator[np.ndarray]:
    """Features of a part's images from `start` on: float32 `(n, dim)`, checked."""
    stop, size = part.images * part.step, BLOCK_IMAGES * part.step
    for block in part.rows.blocks(start * part.step, stop, size):
        features = block[:: part.step]
        wrong = np.flatnonzero(~np.isfinite(features).all(axis=1))
        refuse(
            [f"row {(start + image) * part.step}" for image in wrong],
            f"{part.rows.where}: rows that hold NaN or infinite values",
            "The copy is damaged: fetch it again.",
        )
        yield features
        start += len(features)


def _unit_length(path: Path) -> float:
    """Fraction of the rows whose L2 norm is 1."""
    features = np.load(path, mmap_mode="r")[:, 0]
    unit = 0
    for start in range(0, len(features), BLOCK_IMAGES):
        norms = np.linalg.norm(features[start : start + BLOCK_IMAGES], axis=1)
        unit += int((abs(norms - 1) < _UNIT).sum())
    return unit / len(features)
