"""Features of all images of a corpus under a fixed crop: 1C or 10C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from vsepp.data.placed import Place, Placed, in_file
from vsepp.errors import VseppError
from vsepp.features.crops import fixed_boxes
from vsepp.features.frozen import ENCODE_BATCH, start_encoding
from vsepp.features.growing import GrowingRows, append_behind
from vsepp.models.encoder import ImageEncoder
from vsepp.runtime.progress import track
from vsepp.provenance.publish import publish
from vsepp.provenance.space import check_space
from vsepp.spec import CropSpec

FILE = "features.npy"
# Images between two places that a killed step can go on from; a multiple of what the encoder sees at once.
CHUNK_IMAGES = 4 * ENCODE_BATCH


def extract_features(
    store: np.ndarray | torch.Tensor,
    encoder: ImageEncoder,
    crop: CropSpec,
    out: Path,
    state: Path,
    *,
    device: torch.device,
) -> None:
    """Write `out/features.npy`, float32 `(n_images, 1, dim)`, rows as in the store.

    While a chunk is computed, a thread checks and writes the one before it.

    10C is the mean of the features of ten crops, before any normalisation. Works in `state` and goes on from
    what lies there; `out` gets the file only when it is whole.

    Parameters
    ----------
    store
        uint8 `(n_images, side, side, 3)`, an array, a memory map or a tensor on any device.
    encoder
        Put into evaluation mode and moved to `device`.
    crop
        Kind `1C` or `10C`, of the encoder's input size.
    out
        Folder of the result.
    state
        Folder that outlives a kill, for these inputs alone.
    device
        Where to compute.

    Raises
    ------
    VseppError
        When the crop does not fit the images or the encoder, or the disk is full.
    """
    boxes, flips = fixed_boxes(crop, store.shape[1])
    check_size(encoder, crop)
    count, crops = len(store), len(boxes)
    state.mkdir(parents=True, exist_ok=True)
    rows = GrowingRows(state / FILE, (count, 1, encoder.dim), np.float32, CHUNK_IMAGES)
    what = f"{crop.kind} features of {count} images"
    check_space(state, rows.missing_bytes, what)
    starts = range(rows.done, count, CHUNK_IMAGES)

    def chunks() -> Iterator[tuple[int, Callable[[], np.ndarray]]]:
        for start in track(starts, len(starts), what, "chunk"):
            images = np.arange(start, min(start + CHUNK_IMAGES, count))
            all_boxes, all_flips = np.tile(boxes, (len(images), 1)), np.tile(flips, len(images))
            found = start_encoding(store, encoder, np.repeat(images, crops), all_boxes, all_flips, device)
            yield start, partial(_means, found, len(images), crops)

    append_behind(rows, chunks())
    publish({rows.path: out / FILE})


def _means(features: Callable[[], np.ndarray], images: int, crops: int) -> np.ndarray:
    """Mean over the crops of every image, float32 `(images, 1, dim)`."""
    return features().reshape(images, crops, -1).mean(axis=1, keepdims=True)


def check_size(encoder: ImageEncoder, crop: CropSpec) -> None:
    """Refuse crops of another size than the encoder's input."""
    if crop.size != encoder.spec.input_size:
        raise VseppError(
            f"crop {crop.kind}: {crop.size} pixels, but encoder {encoder.spec.architecture!r} sees "
            f"{encoder.spec.input_size}; give the crop the encoder's input_size"
        )


class CachedFeatures:
    """Features that `extract_features` wrote, by row of the images table."""

    def __init__(self, folder: Path, features: Placed) -> None:
        self.folder = folder
        self._features = features

    @classmethod
    def open(cls, folder: Path, place: Place = in_file) -> CachedFeatures:
        """Map the features of a folder, and put them in their place.

        Raises
        ------
        VseppError
            When the file is missing or not of the expected shape.
        """
        path = folder / FILE
        if not path.is_file():
            raise VseppError(f"{path}: missing; run the step that extracts features again")
        features = np.load(path, mmap_mode="r")
        if features.ndim != 3 or features.dtype != np.float32:
            raise VseppError(
                f"{path}: expected float32 (n_images, regions, dim), got {features.dtype} {features.shape}"
            )
        if features.shape[1] != 1:
            raise VseppError(f"{path}: expected one region an image, got {features.shape[1]}")
        return cls(folder, place(features, "image features"))

    def __len__(self) -> int:
        """Number of images."""
        return len(self._features)

    @property
    def dim(self) -> int:
        """D_φ."""
        return self._features.array.shape[2]

    def rows(self, image_rows: np.ndarray) -> torch.Tensor:
        """Features float32 `(n, dim)` of rows `(n,)` of the images table, where they were placed.

        Raises
        ------
        VseppError
            When a row is beyond the last.
        """
        if len(image_rows) and not 0 <= image_rows.min() <= image_rows.max() < len(self):
            raise VseppError(
                f"{self.folder}: has features of {len(self)} images, asked for rows {image_rows.min()} to "
                f"{image_rows.max()}; it belongs to another corpus"
            )
        return self._features.rows(image_rows)[:, 0]
