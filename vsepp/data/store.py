"""The image store: all photographs of a corpus, decoded and resized once (`vsepp.data.decode`),
then memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsepp.data.arrays import open_rows

if TYPE_CHECKING:
    from vsepp.base.placement import Placed

FILE = "images.npy"
SIZES = "sizes.npy"


@dataclass(frozen=True, eq=False)
class WholeImages:
    """Images that kept their aspect ratio, one after the other."""

    pixels: Placed
    """uint8 `(bytes,)`, in its file or on a device."""
    sizes: np.ndarray
    """int64 `(n_images, 2)`, height and width of each image."""
    offsets: np.ndarray
    """int64 `(n_images + 1,)`, byte at which each image begins, and at which the last image ends."""

    @classmethod
    def from_pixels(cls, pixels: Placed, sizes: np.ndarray) -> WholeImages:
        """Images from their pixels, one image after the other, and their sizes."""
        return cls(pixels, np.asarray(sizes, np.int64), offsets_of(sizes))

    @classmethod
    def in_memory(cls, images: Sequence[np.ndarray]) -> WholeImages:
        """Images in arrays uint8 `(height, width, 3)`."""
        pixels = np.concatenate([image.ravel() for image in images])
        return cls.from_pixels(pixels, np.array([image.shape[:2] for image in images]))

    def __len__(self) -> int:
        """Number of images."""
        return len(self.sizes)

    def __getitem__(self, row: int) -> Any:
        """An image, uint8 `(height, width, 3)`, where the pixels are."""
        height, width = self.sizes[row].tolist()
        return self.pixels[self.offsets[row] : self.offsets[row + 1]].reshape(height, width, 3)


def open_store(folder: Path) -> np.ndarray | WholeImages:
    """Map the images of a store, read-only: uint8 `(n_images, side, side, 3)`, or images that
    kept their aspect ratio.

    Raises
    ------
    VseppError
        If there is no store, or the files are not a store.
    """
    images, sizes = open_rows(folder / FILE, np.uint8), open_rows(folder / SIZES, np.int32, (2,))
    return images if images.ndim == 4 else WholeImages.from_pixels(images, np.asarray(sizes))


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    """Byte at which each image begins, from all heights and widths, and at which the last image ends."""
    return np.concatenate([[0], (3 * np.asarray(sizes, np.int64).prod(axis=1)).cumsum()])
