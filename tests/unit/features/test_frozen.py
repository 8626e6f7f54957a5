"""A feature is a function of its crop alone, whatever it is computed beside, in the run's precision."""

import numpy as np
import pytest
import torch
from rounding import assert_near

from vsepp.base.spec import CropSpec
from vsepp.features.crops import fixed_boxes, sizes_of
from vsepp.features.frozen import encode_crops

CPU = torch.device("cpu")
SIZE = 40
MINI = ("mini/vgg_mini", "mini/resnet_mini")


def store(count: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def encode(images, encoder, rows, device=CPU) -> np.ndarray:
    boxes, flips = fixed_boxes(CropSpec(kind="1C", size=images.shape[1]), sizes_of(images, rows))
    crops = rows, boxes[:, 0], flips[:, 0]
    return encode_crops(images, encoder.to(device).eval(), *crops, device).cpu().numpy()


@pytest.fixture(scope="module")
def whole(make):
    """Makes encoders that see whole images."""
    return lambda architecture, size=SIZE, **changes: make(
        architecture, input_size=size, store_side=size, **changes
    )


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("architecture", "size", "count", "running"),
    [
        ("mini/vgg_mini", 40, 150, {}),
        ("mini/resnet_mini", 40, 150, {}),
        ("mini/resnet_mini", 40, 150, {"precision": "bf16"}),
        ("torchvision/resnet18", 96, 20, {}),
    ],
)
def test_a_feature_is_the_same_bits_in_any_position_beside_any_others(
    whole, architecture, size, count, running, threads
):
    encoder = whole(architecture, size, **running)
    images = store(count, size)
    threads(1)
    together = encode(images, encoder, np.arange(count))
    assert np.unique(together, axis=0).shape[0] == count
    order = np.random.default_rng(1).permutation(count)
    np.testing.assert_array_equal(encode(images, encoder, order), together[order])
    np.testing.assert_array_equal(encode(images, encoder, np.array([count - 2])), together[[count - 2]])
    threads(2)
    np.testing.assert_array_equal(encode(images, encoder, order[: count // 2]), together[order[: count // 2]])


@pytest.mark.parametrize("architecture", MINI)
def test_features_are_the_encoders_own_in_float32_whatever_the_callers_precision(whole, architecture):
    encoder, images = whole(architecture), store(5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = encode(images, encoder, np.arange(5))
    with torch.inference_mode():
        expected = encoder(encoder.normalise(torch.from_numpy(images)))
    assert features.dtype == np.float32
    # The batch is filled up, and products may add in another order in a batch of another size.
    assert_near(features, expected, 1e-5)


@pytest.mark.parametrize("architecture", MINI)
def test_how_an_encoder_is_run_changes_no_more_than_its_rounding(whole, architecture):
    images, rows = store(60), np.arange(60)
    exact = encode(images, whole(architecture), rows)
    np.testing.assert_array_equal(encode(images, whole(architecture, precision="tf32"), rows), exact)
    rounded = encode(images, whole(architecture, precision="bf16"), rows)
    # Inputs of a product are rounded by at most 2^-8; errors of a dozen layers add up like random ones.
    assert_near(rounded, exact, 2.0**-6)
    assert rounded.dtype == np.float32 and not np.array_equal(rounded, exact)
