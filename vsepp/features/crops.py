"""Which part of a decoded image an encoder sees, and how it is cut out.

A crop is a box `(top, left, height, width)` in pixels of the stored image and a flag that says whether it is
mirrored. The boxes of random crops are a function of (draw, epoch, caption id) alone, computed by hashing: there is no
generator with a state, so any process can compute the crop of any pair at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vsepp.base.errors import VseppError
from vsepp.base.hashed import CROP_FLIP, CROP_LEFT, CROP_SCALE, CROP_SHAPES, CROP_TOP, keys_of, uniform
from vsepp.base.placement import Placed, Placing, place, place_of, rows_of, upload
from vsepp.base.spec import CropSpec
from vsepp.data.store import WholeImages

if TYPE_CHECKING:
    from vsepp.data.tables import Table

StoredImages = Placed | WholeImages
"""Images of a store: uint8 `(n_images, side, side, 3)`, as an array, a memory map or a tensor on any device; or with their aspect
ratio kept."""

REGIONS = 10
"""Windows of an image that are its regions: the whole, and 3 × 3 of half its height and width."""

# Defaults of torchvision's RandomResizedCrop, which the released code uses.
SCALE = (0.08, 1.0)
ASPECT = (3 / 4, 4 / 3)
ATTEMPTS = 10
# Shares of both sides that VSE∞'s code crops.
SCALED = (0.6, 1.0)

# Images resized together: few on a CPU, so that results between the two passes stay in its cache; many on a GPU, for fewer
# launches and uploads.
_RESIZED_AT_ONCE = {"cpu": 16}
_RESIZED_ELSEWHERE = 256


def place_images(images: StoredImages, placing: Placing) -> StoredImages:
    """Bring stored images to the device, or leave them in their files; see `vsepp.base.placement.place`."""
    pixels = images.pixels if isinstance(images, WholeImages) else images
    assert not isinstance(pixels, torch.Tensor)  # in their files
    placed = place(pixels, "image store", placing)
    return replace(images, pixels=placed) if isinstance(images, WholeImages) else placed


def place_of_images(images: StoredImages) -> str:
    """`device` or `mapped`, for a manifest."""
    return place_of(images.pixels if isinstance(images, WholeImages) else images)


def sizes_of(images: StoredImages, rows: np.ndarray) -> np.ndarray:
    """Height and width of stored images at rows `(n,)`: int64 `(n, 2)`."""
    if isinstance(images, WholeImages):
        return images.sizes[rows]
    return np.full((len(rows), 2), images.shape[1], np.int64)


def fixed_boxes(crop: CropSpec, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of 1C, 10C or regions.

    1C is the centre. 10C is, in this order: top left, top right, bottom left, bottom right, centre, then the
    same five mirrored, at the corners of the stored image or, with `crop.corners: square`, of the square at its centre. Regions are
    the whole image, then 3 × 3 windows of half its height and width, line by line.

    Parameters
    ----------
    crop
        Kind `1C`, `10C` or `regions`.
    sizes
        int64 `(n, 2)`, height and width of each stored image, pixels.

    Returns
    -------
    tuple
        Boxes int64 `(n, k, 4)` and flips bool `(n, k)`; k is 1 or 10; regions have other sizes than the crop's. Half of an odd
        margin is rounded to even, as by torchvision's `CenterCrop`.
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
    aspect first, as torchvision's `RandomResizedCrop` does; `scaled_crop` one share of both sides (`crop` is what the paper's text
    says, with a flip `resized_crop` what the released code does, and `scaled_crop` what VSE∞'s does).

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
    def from_table(cls, captions: Table, crop: CropSpec, draw: int) -> CaptionCrops:
        """Take images and ids from a captions table."""
        return cls(
            crop,
            np.asarray(captions["image_index"]).astype(np.int64),
            np.asarray(captions["caption_id"]),
            draw,
        )

    def of(
        self, epoch: int, caption_rows: np.ndarray, images: StoredImages
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Images int64 `(n,)`, boxes int64 `(n, 4)` and flips bool `(n,)` of rows of the captions table, in an epoch."""
        rows = self.image_rows[caption_rows]
        ids = self.caption_ids[caption_rows]
        return rows, *crop_boxes(ids, self.draw, epoch, self.crop, sizes_of(images, rows))


def _room(crop: CropSpec, sizes: np.ndarray) -> np.ndarray:
    """Number of pixels by which a crop can move down and to the right, int64 `(n, 2)`."""
    if len(sizes) and (smallest := sizes.min()) < crop.size:
        raise VseppError(
            f"crop {crop.kind}: {crop.size} pixels do not fit into images of {smallest}; give a larger store_side"
        )
    return sizes - crop.size


def _resized_shapes(keys: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Heights and widths of `RandomResizedCrop`, int64 `(n, 2)`, and which are random, `(n,)`.

    The first of ten attempts that fits, else the largest crop at the centre with an aspect in the drawn range.
    """
    uniforms = np.stack([uniform(keys, number) for number in CROP_SHAPES]).reshape(ATTEMPTS, 2, -1)
    area = sizes.prod(axis=1) * (SCALE[0] + uniforms[:, 0] * (SCALE[1] - SCALE[0]))
    aspect = np.exp(np.log(ASPECT[0]) + uniforms[:, 1] * (np.log(ASPECT[1]) - np.log(ASPECT[0])))
    attempts = np.rint(np.stack([np.sqrt(area / aspect), np.sqrt(area * aspect)], axis=-1)).astype(np.int64)
    fits = ((attempts > 0) & (attempts <= sizes)).all(axis=2)
    first = attempts[fits.argmax(axis=0), np.arange(len(keys))]
    height, width = sizes.T
    largest = np.stack(
        [np.minimum(height, np.rint(width / ASPECT[0])), np.minimum(width, np.rint(height * ASPECT[1]))],
        axis=1,
    )
    random = fits.any(axis=0)
    return np.where(random[:, None], first, largest.astype(np.int64)), random


def gather_crops(
    images: StoredImages, rows: np.ndarray, boxes: np.ndarray, flips: np.ndarray, size: int
) -> torch.Tensor:
    """Cut crops out of stored images.

    Parameters
    ----------
    images
        Stored images. From files only the windows are read, unless square images are resized.
    rows
        int64 `(n,)`, the image of each crop.
    boxes, flips
        int64 `(n, 4)` and bool `(n,)`, as `crop_boxes` gives them.
    size
        Pixels. Boxes of another size are resized to it: bilinear, antialiased.

    Returns
    -------
    torch.Tensor
        uint8 `(n, size, size, 3)`, on the images' device (an array is on the CPU).
    """
    pixels = images.pixels if isinstance(images, WholeImages) else images
    device = pixels.device if isinstance(pixels, torch.Tensor) else torch.device("cpu")
    if (boxes[:, 2:] == size).all():
        crops = _cut(images, rows, boxes, device)
        if not flips.any():
            return crops
        return torch.where(upload(flips, device)[:, None, None, None], crops.flip(2), crops)
    at_once = _RESIZED_AT_ONCE.get(device.type, _RESIZED_ELSEWHERE)
    resized = []
    for part in (slice(start, start + at_once) for start in range(0, len(rows), at_once)):
        if isinstance(images, WholeImages):
            cut = _cut(images, rows[part], boxes[part], device)
            within = np.concatenate([np.zeros_like(boxes[part, :2]), boxes[part, 2:]], axis=1)
        else:
            cut, within = rows_of(images, rows[part]), boxes[part]
        resized.append(_resized(cut, within, flips[part], size))
    return torch.cat(resized)


def _cut(images: StoredImages, rows: np.ndarray, boxes: np.ndarray, device: torch.device) -> torch.Tensor:
    """The boxes of images at the top left of uint8 `(n, height, width, 3)`, as large as the largest box; pixels beyond a box are unset."""
    height, width = boxes[:, 2:].max(axis=0).tolist()
    crops = torch.empty((len(rows), height, width, 3), dtype=torch.uint8, device=device)
    target: Any = crops if device.type == "cuda" else crops.numpy()
    for number, (row, (top, left, high, wide)) in enumerate(zip(rows.tolist(), boxes.tolist(), strict=True)):
        target[number, :high, :wide] = images[row][top : top + high, left : left + wide]
    return crops


def _resized(images: torch.Tensor, boxes: np.ndarray, flips: np.ndarray, size: int) -> torch.Tensor:
    """Resize a box of every image `(n, height, width, 3)` to `(n, size, size, 3)`: first its lines, then its columns."""
    _, height, width, _ = images.shape
    lines, weights = _filter(boxes[:, 0], boxes[:, 2], size, height)
    columns = _weighted_lines(images, lines, weights).transpose(1, 2)
    lines, weights = _filter(boxes[:, 1], boxes[:, 3], size, width)
    lines[flips], weights[flips] = lines[flips][:, ::-1], weights[flips][:, ::-1]
    pixels = _weighted_lines(columns, lines, weights).transpose(1, 2)
    return pixels.round_().clamp_(0, 255).to(torch.uint8).contiguous()


def _filter(start: np.ndarray, extent: np.ndarray, size: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Lines that each resized line is the weighted sum of: int64 `(n, size, k)`, and their weights float32, which sum to 1.

    Weights fall linearly with the distance between a line's middle and that of the resized one, to 0 as far away as a resized
    line is wide, as in PIL's `BILINEAR` and torch's `antialias=True`; lines outside the box have none. Four lines become two:

        line            0     1     2     3        each resized line is 2 wide
        middle         0.5   1.5   2.5   3.5       middles of the resized ones are at 1 and 3
        distance to 1  0.5   0.5   1.5   2.5
        1 − d / 2      .75   .75   .25    0        divided by their sum, 1.75

    Parameters
    ----------
    start, extent
        int64 `(n,)`, first line and number of lines of each image's box.
    size, side
        Lines of a resized image, and of an image.
    """
    width = (extent / size)[:, None, None]
    start, end = start[:, None, None], (start + extent)[:, None, None]
    middle = start + (np.arange(size)[:, None] + 0.5) * width
    reach = np.maximum(width, 1.0)
    lines = np.floor(middle - reach).astype(np.int64) + np.arange(int(np.ceil(2 * reach.max())) + 1)
    weights = np.maximum(1 - np.abs(lines + 0.5 - middle) / reach, 0) * ((lines >= start) & (lines < end))
    weights /= weights.sum(axis=2, keepdims=True)
    return lines.clip(0, side - 1), weights.astype(np.float32)


def _weighted_lines(images: torch.Tensor, lines: np.ndarray, weights: np.ndarray) -> torch.Tensor:
    """Weighted sums of lines of every image: `(n, side, width, 3)` to float32 `(n, size, width, 3)`."""
    count, side = images.shape[:2]
    every_line = images.flatten(2).flatten(0, 1)
    places = upload(lines + side * np.arange(count)[:, None, None], images.device)
    factors = upload(weights, images.device)
    sums = torch.zeros((*lines.shape[:2], every_line.shape[1]), device=images.device)
    for k in range(lines.shape[2]):
        addend = every_line.index_select(0, places[:, :, k].flatten()).view(sums.shape)
        sums.addcmul_(addend.float(), factors[:, :, k, None])
    return sums.unflatten(2, images.shape[2:])
