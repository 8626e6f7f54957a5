import numpy as np
import pytest
import torch

from vsepp.errors import VseppError
from vsepp.features.crops import fixed_boxes
from vsepp.features.frozen import ENCODE_BATCH, encode_crops
from vsepp.models.encoders import build_encoder
from vsepp.spec import CropSpec, EncoderSpec

CPU = torch.device("cpu")
SIZE = 40


def make(architecture: str, size: int = SIZE):
    torch.manual_seed(0)
    spec = EncoderSpec(
        name="vgg",
        architecture=architecture,
        weights="random",
        input_size=size,
        store_side=size,
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
    )
    return build_encoder(spec)


def store(count: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def encode(images, encoder, rows) -> np.ndarray:
    boxes, flips = fixed_boxes(CropSpec(kind="1C", size=images.shape[1]), images.shape[1])
    return encode_crops(
        images, encoder, rows, np.repeat(boxes, len(rows), 0), np.repeat(flips, len(rows)), CPU
    )


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("architecture", "size", "count"),
    [
        ("mini/vgg_mini", 40, 150),
        ("mini/resnet_mini", 40, 150),
        ("torchvision/resnet18", 40, 150),
        ("torchvision/resnet18", 96, 20),
        ("torchvision/mobilenet_v2", 96, 20),
    ],
)
def test_a_feature_is_the_same_bits_in_any_position_beside_any_others(architecture, size, count, threads):
    encoder = make(architecture, size)
    images = store(count, size)
    threads(1)
    together = encode(images, encoder, np.arange(count))
    assert np.unique(together, axis=0).shape[0] == count
    order = np.random.default_rng(1).permutation(count)
    np.testing.assert_array_equal(encode(images, encoder, order), together[order])
    np.testing.assert_array_equal(encode(images, encoder, np.array([count - 2])), together[[count - 2]])
    threads(2)
    np.testing.assert_array_equal(encode(images, encoder, order[: count // 2]), together[order[: count // 2]])


@pytest.mark.parametrize("architecture", ["mini/vgg_mini", "mini/resnet_mini"])
def test_features_are_the_encoders_own_in_evaluation_mode_and_float32(architecture):
    encoder = make(architecture).train()
    images = store(5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = encode(images, encoder, np.arange(5))
    statistics = [value.clone() for value in encoder.buffers()]
    with torch.inference_mode():
        expected = encoder.eval()(encoder.normalise(torch.from_numpy(images))).numpy()
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6)
    assert features.dtype == np.float32
    for before, after in zip(statistics, encoder.buffers(), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("count", [0, 1, ENCODE_BATCH, ENCODE_BATCH + 1])
def test_any_number_of_crops(count):
    assert encode(store(3), make("mini/vgg_mini"), np.arange(count) % 3).shape == (count, 128)


def test_a_feature_that_is_not_finite_is_refused_with_its_image():
    encoder = make("mini/vgg_mini")
    with torch.no_grad():
        encoder.network[0].bias[0] = float("nan")
    with pytest.raises(VseppError, match="feature of image row 2 is not finite"):
        encode(store(3), encoder, np.array([2, 1]))
