"""Features of all images of a corpus under a fixed crop: 1C or 10C, or of their regions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsepp.base.errors import VseppError
from vsepp.base.files import check_space
from vsepp.base.placement import Placed, Placing, rows_of
from vsepp.base.progress import track
from vsepp.base.publish import publish
from vsepp.base.spec import CropSpec, FeaturesSpec
from vsepp.features.crops import REGIONS, Images, fixed_boxes, sizes_of
from vsepp.features.frozen import ENCODE_BATCH, check_size, encode_crops, finite, open_pass
from vsepp.features.resumable_array import GrowingRows
from vsepp.models.encoder import ImageEncoder
from vsepp.models.sets import ImageBatch

FILE = "features.npy"
# Images between two points from which a killed step can continue; a multiple of the encoder's batch.
CHUNK_IMAGES = 4 * ENCODE_BATCH


def make_features(
    spec: FeaturesSpec, store: Path, encoder: Path, out: Path, state: Path, placing: Placing
) -> dict[str, Any]:
    """Write the features of all images of a store; `store` and `encoder` are folders. See `extract_features`."""
    images, network, facts = open_pass(spec.encoder, store, encoder, placing, grid=spec.grid)
    extract_features(images, network, spec.crop, out, state, device=placing.device)
    return facts


def extract_features(
    store: Images,
    encoder: ImageEncoder,
    crop: CropSpec,
    out: Path,
    state: Path,
    *,
    device: torch.device,
) -> None:
    """Write `out/features.npy`, float32 `(n_images, vectors, dim)`, rows as in the store.

    Vectors are one, the cells of a grid, or the regions; see `features_of`. Works in `state` and continues
    from what is there; the file is moved to `out` only when complete.

    Parameters
    ----------
    store
        Stored images.
    encoder
        Put into evaluation mode and moved to `device`.
    crop
        Kind `1C`, `10C` or `regions`, of the encoder's input size.
    out
        Folder of the result.
    state
        Working folder that survives a kill, for these inputs only.
    device
        Where to compute.

    Raises
    ------
    VseppError
        If the crop does not fit the images or the encoder, a feature is not finite, or the disk is full.
    """
    check_size(encoder, crop)
    encoder.to(device).eval()
    state.mkdir(parents=True, exist_ok=True)
    vectors = REGIONS if crop.kind == "regions" else encoder.vectors()
    images = np.arange(len(store))
    written = GrowingRows(state / FILE, (len(images), vectors, encoder.dim), np.float32, CHUNK_IMAGES)
    what = f"{crop.kind} features of {len(images)} images"
    check_space(state, written.missing_bytes, what)
    starts = range(written.done, len(images), CHUNK_IMAGES)
    for start in track(starts, len(images) - written.done, what, "image", each=CHUNK_IMAGES):
        some = images[start : start + CHUNK_IMAGES]
        written.append(features_of(store, encoder, some, crop, device))
    publish({written.path: out / FILE})


def features_of(
    store: Images,
    encoder: ImageEncoder,
    images: np.ndarray,
    crop: CropSpec,
    device: torch.device,
    *,
    fill: bool = True,
) -> np.ndarray:
    """Features of some images: float32 `(n, vectors, dim)`.

    10C gives one vector, the mean over ten crops before any normalisation; an encoder's grid gives its cells.

    Parameters
    ----------
    store
        Stored images.
    encoder
        In evaluation mode and on `device`.
    images
        int64 `(n,)`, rows of the store.
    crop
        Kind `1C`, `10C` or `regions`.
    device
        Where to compute.
    fill
        See `encode_crops`.
    """
    boxes, flips = fixed_boxes(crop, sizes_of(store, images))
    crops = flips.shape[1]
    rows = np.repeat(images, crops)
    features = encode_crops(store, encoder, rows, boxes.reshape(-1, 4), flips.ravel(), device, fill=fill)
    found = finite(features.cpu().numpy(), rows, encoder)
    of_image = found.reshape(len(images), -1, encoder.dim)
    return of_image.mean(axis=1, keepdims=True) if crop.kind == "10C" else of_image


@dataclass(frozen=True, eq=False)
class CachedFeatures:
    """Features that `extract_features` wrote, by row of the images table."""

    folder: Path
    features: Placed
    """float32 `(n_images, vectors, dim)`."""

    @classmethod
    def open(cls, folder: Path) -> CachedFeatures:
        """Map the features of a folder.

        Raises
        ------
        VseppError
            If the file is missing or not of the expected shape.
        """
        path = folder / FILE
        if not path.is_file():
            raise VseppError(f"{path}: missing; run the step that extracts features again")
        features = np.load(path, mmap_mode="r")
        if features.ndim != 3 or features.dtype != np.float32:
            raise VseppError(
                f"{path}: expected float32 (n_images, vectors, dim), got {features.dtype} {features.shape}"
            )
        if 0 in features.shape:
            raise VseppError(f"{path}: holds no features, its shape is {features.shape}")
        return cls(folder, features)

    def __len__(self) -> int:
        """Number of images."""
        return len(self.features)

    @property
    def dim(self) -> int:
        """D_φ."""
        return self.features.shape[2]

    @property
    def vectors(self) -> int:
        """Vectors of an image."""
        return self.features.shape[1]

    def rows(self, image_rows: np.ndarray) -> ImageBatch:
        """Features float32 of rows `(n,)` of the images table, on the GPU if they are there: `(n, dim)`, or sets.

        Raises
        ------
        VseppError
            If a row is out of range.
        """
        if len(image_rows) and not 0 <= image_rows.min() <= image_rows.max() < len(self):
            raise VseppError(
                f"{self.folder}: has features of {len(self)} images, asked for rows {image_rows.min()} to "
                f"{image_rows.max()}; it belongs to another corpus"
            )
        values = rows_of(self.features, image_rows)
        if self.vectors == 1:
            return ImageBatch(values[:, 0])
        return ImageBatch(values, torch.full((len(values),), self.vectors))
