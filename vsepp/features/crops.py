"""Which part of a stored image an encoder sees, and how it is cut out.

A crop is a box `(top, left, height, width)` in pixels of the stored image and a flag that says whether it is
mirrored. The boxes of random crops are a function of (draw, epoch, caption id) alone, computed by hashing:
there is no generator with a state, so any process can compute the crop of any pair at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from vsepp.base.errors import VseppError
from vsepp.base.hashed import CROP_FLIP, CROP_LEFT, CROP_SCALE, CROP_SHAPES, CROP_TOP, keys_of, uniform
from vsepp.base.placement import Placed, Placing, place, place_of
from vsepp.base.spec import CropSpec
from vsepp.data.store import WholeImages

if TYPE_CHECKING:
    from vsepp.data.tables import ParquetTable

StoredImages = Placed | WholeImages
"""Images of a store: uint8 `(n_images, side, side, 3)`, as an array, a memory map or a tensor on any device;
or with their aspect ratio kept."""

REGIONS = 10
"""Windows of an image that are its regions: the whole, and 3 × 3 of half its height and width."""

# Defaults of torchvision's RandomResizedCrop, which the released code uses.
SCALE = (0.08, 1.0)
ASPECT = (3 / 4, 4 / 3)
ATTEMPTS = 10
# Shares of both sides that VSE∞'s code crops.
SCALED = (0.6, 1.0)
CPU = torch.device("cpu")


def place_images(images: StoredImages, placing: Placing) -> StoredImages:
    """Bring stored images to the device, or leave them in their files; see `vsepp.base.placement.place`."""
    pixels = _pixels(images)
    assert not isinstance(pixels, torch.Tensor)  # in their files
    placed = place(pixels, "image store", placing)
    return replace(images, pixels=placed) if isinstance(images, WholeImages) else placed


def place_of_images(images: StoredImages) -> str:
    """`device` or `mapped`, for a manifest."""
    return place_of(_pixels(images))


def _pixels(images: StoredImages) -> Placed:
    return images.pixels if isinstance(images, WholeImages) else images


def sizes_of(images: StoredImages, rows: np.ndarray) -> np.ndarray:
    """Height and width of stored images at rows `(n,)`: int64 `(n, 2)`."""
    if isinstance(images, WholeImages):
        return images.sizes[rows]
    return np.full((len(rows), 2), images.shape[1], np.int64)


def fixed_boxes(crop: CropSpec, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of 1C, 10C or regions.

    1C is the centre. 10C is, in this order: top left, top right, bottom left, bottom right, centre, then the
    same five mirrored, at the corners of the stored image or, with `crop.corners: square`, of the square at
    its centre. Regions are the whole image, then 3 × 3 windows of half its height and width, line by line.

    Parameters
    ----------
    crop
        Kind `1C`, `10C` or `regions`.
    sizes
        int64 `(n, 2)`, height and width of each stored image, pixels.

    Returns
    -------
    tuple
        Boxes int64 `(n, k, 4)` and flips bool `(n, k)`; k is 1 or 10; regions have other sizes than the
        crop's. Half of an odd margin is rounded to even, as by torchvision's `CenterCrop`.
    """
    if crop.kind == "regions":
        return _windows(sizes), np.zeros((len(sizes), REGIONS), bool)
    room = _room(crop, sizes)
    centre = np.rint(room / 2).astype(np.int64)
    if crop.kind == "1C":
        corners, flips = [centre], [False]
    else:
        first, last = np.zeros_like(room), room
        if crop.corners == "square":
            margin = sizes - sizes.min(axis=1, keepdims=True)
            first = np.rint(margin / 2).astype(np.int64)
            last = first + room - margin
        places = [(first, first), (first, last), (last, first), (last, last)]
        five = [*(np.stack([top[:, 0], left[:, 1]], axis=1) for top, left in places), centre]
        corners, flips = five + five, [False] * 5 + [True] * 5
    starts = np.stack(corners, axis=1)
    boxes = np.concatenate([starts, np.full_like(starts, crop.size)], axis=2)
    return boxes, np.tile(flips, (len(sizes), 1))


def _windows(sizes: np.ndarray) -> np.ndarray:
    """Boxes of the regions of images of `sizes` `(n, 2)`: int64 `(n, REGIONS, 4)`."""
    half = sizes // 2
    steps = np.stack([np.zeros_like(sizes), (sizes - half) // 2, sizes - half], axis=1)
    windows = [
        np.concatenate([steps[:, row, :1], steps[:, column, 1:], half], axis=1)
        for row in range(3)
        for column in range(3)
    ]
    return np.stack([np.concatenate([np.zeros_like(sizes), sizes], axis=1), *windows], axis=1)


def crop_boxes(
    caption_ids: np.ndarray, draw: int, epoch: int, crop: CropSpec, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of random crops, one per caption.

    `crop` is one window of the crop's size at a uniform integer position; `resized_crop` draws area and
    aspect first, as torchvision's `RandomResizedCrop` does; `scaled_crop` one share of both sides (`crop`
    is what the paper's text says, with a flip `resized_crop` what the released code does, and
    `scaled_crop` what VSE∞'s does).

    Parameters
    ----------
    caption_ids
        int64 `(n,)`, unique names of captions, not their rows.
    draw, epoch
        Seed of the random crops, and the epoch from 0.
    crop
        Kind `RC`.
    sizes
        int64 `(n, 2)`, height and width of each caption's stored image, pixels.

    Returns
    -------
    tuple
        Boxes int64 `(n, 4)` and flips bool `(n,)`.
    """
    keys = keys_of(caption_ids, draw, epoch)
    room = _room(crop, sizes)
    # Uniform on 0 ... room, both included.
    shares = np.stack([uniform(keys, CROP_TOP), uniform(keys, CROP_LEFT)], axis=1)
    if crop.random == "resized_crop":
        shapes, random = _resized_shapes(keys, sizes)
        room = sizes - shapes
        starts = np.where(random[:, None], (shares * (room + 1)).astype(np.int64), room // 2)
    elif crop.random == "scaled_crop":
        least, most = SCALED
        scale = least + (most - least) * uniform(keys, CROP_SCALE)
        shapes = (sizes * scale[:, None]).astype(np.int64)
        starts = (shares * (sizes - shapes + 1)).astype(np.int64)
    else:
        shapes = np.full_like(sizes, crop.size)
        starts = (shares * (room + 1)).astype(np.int64)
    flips = uniform(keys, CROP_FLIP) < 0.5 if crop.flip else np.zeros(len(keys), bool)
    return np.concatenate([starts, shapes], axis=1), flips


@dataclass(frozen=True, eq=False)
class CaptionCrops:
    """The random crops of the images of all captions."""

    crop: CropSpec
    """A crop of kind `RC`."""
    image_rows: np.ndarray
    """int64 `(n_captions,)`, the image of every row of the captions table."""
    caption_ids: np.ndarray
    """int64 `(n_captions,)`, the id of every row of the captions table."""
    draw: int
    """Seed of the random crops."""

    @classmethod
    def from_table(cls, captions: ParquetTable, crop: CropSpec, draw: int) -> CaptionCrops:
        """Take images and ids from a captions table."""
        return cls(
            crop,
            np.asarray(captions["image_index"]).astype(np.int64),
            np.asarray(captions["caption_id"]),
            draw,
        )

    def boxes(
        self, epoch: int, caption_rows: np.ndarray, images: StoredImages
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Images int64 `(n,)`, boxes int64 `(n, 4)` and flips bool `(n,)` of rows of the captions
        table, in an epoch."""
        rows = self.image_rows[caption_rows]
        ids = self.caption_ids[caption_rows]
        return rows, *crop_boxes(ids, self.draw, epoch, self.crop, sizes_of(images, rows))


def _room(crop: CropSpec, sizes: np.ndarray) -> np.ndarray:
    """Number of pixels by which a crop can move down and to the right, int64 `(n, 2)`."""
    if len(sizes) and (smallest := sizes.min()) < crop.size:
        raise VseppError(
            f"crop {crop.kind}: {crop.size} pixels do not fit into images of {smallest}; give a larger "
            "store_side"
        )
    return sizes - crop.size


def _resized_shapes(keys: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Heights and widths of `RandomResizedCrop`, int64 `(n, 2)`, and which are random, `(n,)`.

    The first of ten attempts that fits, else the largest crop at the centre with an
    aspect in the drawn range.
    """
    uniforms = np.stack([uniform(keys, number) for number in CROP_SHAPES]).reshape(ATTEMPTS, 2, -1)
    least, most = SCALE
    narrowest, widest = ASPECT
    area = sizes.prod(axis=1) * (least + uniforms[:, 0] * (most - least))
    aspect = np.exp(np.log(narrowest) + uniforms[:, 1] * (np.log(widest) - np.log(narrowest)))
    attempts = np.rint(np.stack([np.sqrt(area / aspect), np.sqrt(area * aspect)], axis=-1)).astype(np.int64)
    fits = ((attempts > 0) & (attempts <= sizes)).all(axis=2)
    first = attempts[fits.argmax(axis=0), np.arange(len(keys))]
    height, width = sizes.T
    largest = np.stack(
        [np.minimum(height, np.rint(width / narrowest)), np.minimum(width, np.rint(height * widest))],
        axis=1,
    )
    random = fits.any(axis=0)
    return np.where(random[:, None], first, largest.astype(np.int64)), random


def gather_crops(
    images: StoredImages,
    rows: np.ndarray,
    boxes: np.ndarray,
    flips: np.ndarray,
    size: int,
    device: torch.device = CPU,
) -> torch.Tensor:
    """Cut crops out of stored images.

    Parameters
    ----------
    images
        Stored images. From files only the windows are read.
    rows
        int64 `(n,)`, the image of each crop.
    boxes, flips
        int64 `(n, 4)` and bool `(n,)`, as `crop_boxes` gives them.
    size
        Pixels. Boxes of another size are resized to it, as by `resized_window`.
    device
        Where crops are resized, wherever the images are.

    Returns
    -------
    torch.Tensor
        uint8 `(n, size, size, 3)`, where the images are (an array is on the CPU).
    """
    pixels = _pixels(images)
    place = pixels.device if isinstance(pixels, torch.Tensor) else CPU
    crops = torch.empty((len(rows), size, size, 3), dtype=torch.uint8, device=place)
    places = zip(rows.tolist(), boxes.tolist(), flips.tolist(), strict=True)
    for crop, (row, (top, left, height, width), flip) in zip(crops, places, strict=True):
        window = images[row][top : top + height, left : left + width]
        if not isinstance(window, torch.Tensor):
            window = torch.from_numpy(np.array(window))  # torch takes no read-only map
        if (height, width) != (size, size):
            # On a GPU, torch resizes no bytes.
            window = window.to(device)
            window = resized_window(window if device.type == "cpu" else window.float(), size)
        crop.copy_(window.flip(1) if flip else window)
    return crops


def resized_window(window: torch.Tensor, size: int) -> torch.Tensor:
    """Resize a part of an image as if there were nothing around it: bilinear,
    antialiased, as PIL's `BILINEAR`.

    Parameters
    ----------
    window
        uint8 or float32 `(height, width, 3)`, levels. The results of the two types
        differ by at most one level.
    size
        Height and width of the result, pixels.

    Returns
    -------
    torch.Tensor
        Whole levels `(size, size, 3)` in the window's type.
    """
    image = window[None].permute(0, 3, 1, 2)  # channels last, which is faster
    resized = nn.functional.interpolate(image, (size, size), mode="bilinear", antialias=True)
    return resized[0].permute(1, 2, 0).round()
