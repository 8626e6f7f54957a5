"""Features that a pass of a frozen encoder wrote, by row of the images table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from vsepp.base.errors import VseppError
from vsepp.base.placement import Placed, rows_of
from vsepp.features.frozen import FILE
from vsepp.models.sets import ImageBatch


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
