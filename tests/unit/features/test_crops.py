"""Boxes of crops and their pixels: fixed, random, of torchvision, whatever lies beside them."""

import math

import numpy as np
import pytest
import torch
from PIL import Image

from vsepp.base.spec import CropSpec
from vsepp.data.store import WholeImages
from vsepp.features.crops import crop_boxes, fixed_boxes, gather_crops, resized_window

SIDE, SIZE = 48, 40
CROP = CropSpec(kind="RC", size=SIZE)
RESIZED = CropSpec(kind="RC", size=SIZE, random="resized_crop", flip=True)
SCALED = CropSpec(kind="RC", size=SIZE, random="scaled_crop", flip=True)
IDS = np.arange(100_000, 140_000)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8)


def squares(ids: np.ndarray) -> np.ndarray:
    """The sizes of square images, one a caption."""
    return np.full((len(ids), 2), SIDE)


@pytest.fixture(scope="module")
def whole() -> WholeImages:
    """Lying, standing and square images, and one that is far longer than wide."""
    rng = np.random.default_rng(0)
    sizes = [(48, 64), (72, 48), (48, 48), (48, 300)]
    return WholeImages.in_memory([rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes])


def chi_square(values: np.ndarray, categories: int) -> float:
    """How many deviations the counts of equally likely values are from what they should be."""
    counts = np.bincount(values, minlength=categories)
    assert len(counts) == categories
    expected = len(values) / categories
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = categories - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


def test_1c_is_the_centre():
    boxes, flips = fixed_boxes(CropSpec(kind="1C", size=224), np.array([[256, 256], [256, 341]]))
    assert boxes.tolist() == [[[16, 16, 224, 224]], [[16, 58, 224, 224]]]
    assert flips.tolist() == [[False], [False]]


def test_random_crops_are_uniform_over_all_positions_and_half_of_them_flipped():
    boxes, flips = crop_boxes(IDS, 0, 0, CropSpec(kind="RC", size=SIZE, flip=True), squares(IDS))
    assert (boxes[:, 2:] == SIZE).all()
    # 9 × 9 positions together, so that rows and columns are seen to be independent too.
    assert abs(chi_square((boxes[:, 0] * 9 + boxes[:, 1]) * 2 + flips, 162)) < 4
    unflipped, _ = crop_boxes(IDS, 0, 0, CROP, squares(IDS))
    np.testing.assert_array_equal(boxes, unflipped)


@pytest.mark.parametrize(("draw", "epoch", "step"), [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (-1, 0, 0)])
def test_draws_epochs_and_neighbouring_captions_are_independent(draw, epoch, step):
    first, _ = crop_boxes(IDS, 0, 0, CROP, squares(IDS))
    second, _ = crop_boxes(IDS + step, draw, epoch, CROP, squares(IDS + step))
    assert abs(chi_square(first[:, 0] * 9 + second[:, 0], 81)) < 4
    assert abs(chi_square(first[:, 1] * 9 + second[:, 1], 81)) < 4


def test_scaled_crops_have_one_share_from_six_tenths_of_both_sides_anywhere():
    sizes = np.tile([1000, 500], (len(IDS), 1))
    boxes, flips = crop_boxes(IDS, 0, 0, SCALED, sizes)
    top, left, height, width = boxes.T
    assert (np.abs(height / 2 - width) <= 0.5).all() and flips.mean() == pytest.approx(0.5, abs=0.01)
    assert abs(chi_square((height - 600) // 40, 10)) < 4
    room = sizes - boxes[:, 2:]
    tenths = [10 * start // (room[:, side] + 1) for side, start in enumerate((top, left))]
    assert all(abs(tenth.mean() - 4.5) < 0.1 for tenth in tenths)
    assert (tenths[0] * 10 + tenths[1]).max() == 99


@pytest.mark.parametrize("crop", [CROP, RESIZED, SCALED])
def test_a_captions_crop_depends_on_nothing_else_that_is_asked_for(crop):
    order = np.random.default_rng(1).permutation(len(IDS))
    boxes, flips = crop_boxes(IDS, 3, 7, crop, squares(IDS))
    again, flips_again = crop_boxes(IDS[order], 3, 7, crop, squares(IDS[order]))
    np.testing.assert_array_equal(again, boxes[order])
    np.testing.assert_array_equal(flips_again, flips[order])
    alone, flip_alone = crop_boxes(IDS[17:18], 3, 7, crop, squares(IDS[17:18]))
    np.testing.assert_array_equal(alone[0], boxes[17])
    assert flip_alone[0] == flips[17]


def test_crops_stay_what_they_are_between_versions():
    # Written down once: a tape and a step on another machine must agree.
    crop = CropSpec(kind="RC", size=224, flip=True)
    boxes, flips = crop_boxes(np.array([0, 1, 2, 3, 2**40]), 5, 3, crop, np.full((5, 2), 256))
    assert boxes[:, :2].tolist() == [[29, 8], [15, 11], [32, 1], [7, 8], [18, 19]]
    assert flips.tolist() == [False, False, True, False, False]
    boxes, _ = crop_boxes(np.array([0, 1]), 5, 3, RESIZED, np.full((2, 2), SIDE))
    assert boxes.tolist() == [[23, 8, 23, 18], [1, 1, 46, 46]]


@pytest.mark.parametrize("size", [(48, 48), (48, 64), (48, 4800), (4800, 48)], ids=str)
def test_resized_crops_are_those_of_torchvision(size):
    """Compare with torchvision's own draws, by the distribution of each side and of the position.

    Of an image that is far longer than wide no drawn box fits, and a part of its centre is taken.
    """
    from torchvision.transforms import RandomResizedCrop

    torch.manual_seed(0)
    transform = RandomResizedCrop(SIZE)
    image = torch.zeros(3, *size)
    draws = np.array([transform.get_params(image, transform.scale, transform.ratio) for _ in range(2000)])
    boxes, _ = crop_boxes(IDS, 0, 0, RESIZED, np.broadcast_to(size, (len(IDS), 2)))
    grid = np.arange(max(size) + 1)
    for ours, theirs in zip(boxes.T, draws.T, strict=True):
        distance = np.abs(
            np.searchsorted(np.sort(ours), grid, "right") / len(ours)
            - np.searchsorted(np.sort(theirs), grid, "right") / len(theirs)
        ).max()
        # Kolmogorov–Smirnov at about 1e-4.
        assert distance < 2.2 * math.sqrt(1 / len(ours) + 1 / len(theirs))
    assert (boxes[:, :2] >= 0).all() and (boxes[:, :2] + boxes[:, 2:] <= size).all()


def levels_apart(pixels: torch.Tensor, others: torch.Tensor) -> float:
    return (pixels.double() - others.double()).abs().max().item()


@pytest.mark.parametrize("size", [SIZE, 16])  # 16: reductions by more than two
def test_bytes_floats_and_pil_resize_alike(images, size):
    boxes, flips = crop_boxes(np.arange(60), 0, 0, RESIZED, squares(np.arange(60)))
    rows = np.arange(60) % 5
    crops = gather_crops(images, rows, boxes, flips, size)
    for crop, row, (top, left, height, width), flip in zip(crops, rows, boxes, flips, strict=True):
        part = images[row, top : top + height, left : left + width].copy()
        image = Image.fromarray(part).resize((size, size), Image.Resampling.BILINEAR)
        of_pil = torch.tensor(np.asarray(image))
        of_bytes = resized_window(torch.from_numpy(part), size)
        of_floats = resized_window(torch.from_numpy(part).float(), size)
        # Bytes and PIL round after the lines and after the columns, floats once.
        assert levels_apart(of_bytes, of_floats) <= 1 and levels_apart(of_pil, of_floats) <= 1
        assert levels_apart(of_bytes, of_pil) <= 2
        assert torch.equal(crop, of_bytes.flip(1) if flip else of_bytes)


def test_crops_of_whole_images_are_those_of_each_image_alone(whole):
    rows = np.arange(80) % 4
    for crop in (CROP, RESIZED):
        boxes, flips = crop_boxes(np.arange(80), 0, 0, crop, whole.sizes[rows])
        together = gather_crops(whole, rows, boxes, flips, SIZE)
        in_memory = WholeImages.from_pixels(torch.from_numpy(whole.pixels), whole.sizes)
        assert torch.equal(gather_crops(in_memory, rows, boxes, flips, SIZE), together)
        for number, row in enumerate(rows):
            top, left, height, width = boxes[number]
            part = torch.tensor(whole[row][top : top + height, left : left + width])
            assert part.shape == (height, width, 3)
            expected = resized_window(part, SIZE)
            expected = expected.flip(1) if flips[number] else expected
            np.testing.assert_array_equal(together[number], expected)


def test_corners_are_those_of_the_image_or_of_its_square(whole):
    lying = whole.sizes[:1]
    of_image, _ = fixed_boxes(CropSpec(kind="10C", size=SIZE), lying)
    of_square, _ = fixed_boxes(CropSpec(kind="10C", size=SIZE, corners="square"), lying)
    assert of_image[0, :5, :2].tolist() == [[0, 0], [0, 24], [8, 0], [8, 24], [4, 12]]
    assert of_square[0, :5, :2].tolist() == [[0, 8], [0, 16], [8, 8], [8, 16], [4, 12]]
    assert (of_image[:, 5:] == of_image[:, :5]).all()
