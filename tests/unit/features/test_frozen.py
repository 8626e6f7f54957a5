import numpy as np
import pytest
import torch

from vsepp.data.placement import Placement
from vsepp.errors import VseppError
from vsepp.features.crops import fixed_boxes
from vsepp.features.frozen import ENCODE_BATCH, start_encoding
from vsepp.features.needs import pass_bytes, pass_explained
from vsepp.models.encoder import build_encoder
from vsepp.spec import CropSpec, EncoderSpec

CPU = torch.device("cpu")
SIZE = 40


def make(architecture: str, size: int = SIZE, **running):
    torch.manual_seed(0)
    spec = EncoderSpec(
        name="vgg",
        architecture=architecture,
        weights="random",
        input_size=size,
        store_side=size,
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
        **running,
    )
    return build_encoder(spec)


def store(count: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def encode(images, encoder, rows, device=CPU) -> np.ndarray:
    boxes, flips = fixed_boxes(CropSpec(kind="1C", size=images.shape[1]), images.shape[1])
    return start_encoding(
        images, encoder, rows, np.repeat(boxes, len(rows), 0), np.repeat(flips, len(rows)), device
    )()


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
        ("mini/vgg_mini", 40, 150, {"memory_format": "contiguous"}),
        ("mini/resnet_mini", 40, 150, {"memory_format": "contiguous"}),
        ("mini/vgg_mini", 40, 150, {"precision": "bf16"}),
        ("mini/resnet_mini", 40, 150, {"precision": "bf16"}),
        ("mini/resnet_mini", 40, 150, {"precision": "bf16", "memory_format": "contiguous"}),
        ("torchvision/resnet18", 40, 150, {}),
        ("torchvision/resnet18", 96, 20, {}),
        ("torchvision/resnet18", 96, 20, {"precision": "bf16"}),
        ("torchvision/mobilenet_v2", 96, 20, {}),
        pytest.param("mini/vgg_mini", 40, 150, {"compile": "default"}, marks=pytest.mark.slow),
        pytest.param("mini/resnet_mini", 40, 150, {"compile": "default"}, marks=pytest.mark.slow),
    ],
)
def test_a_feature_is_the_same_bits_in_any_position_beside_any_others(
    architecture, size, count, running, threads
):
    encoder = make(architecture, size, **running)
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


@pytest.mark.parametrize("architecture", ["mini/vgg_mini", "mini/resnet_mini"])
def test_features_in_bf16_are_those_in_fp32_but_for_its_rounding(architecture):
    images = store(60)
    exact = encode(images, make(architecture), np.arange(60))
    rounded = encode(images, make(architecture, precision="bf16"), np.arange(60))
    assert rounded.dtype == np.float32
    lengths = np.linalg.norm(exact, axis=1)
    # Inputs of a product are rounded by at most 2^-8; errors of a dozen layers add up like random ones.
    assert (np.linalg.norm(rounded - exact, axis=1) < 2.0**-6 * lengths).all()
    assert not np.array_equal(rounded, exact)


@pytest.mark.parametrize("architecture", ["mini/vgg_mini", "mini/resnet_mini"])
def test_memory_format_and_tf32_change_nothing_but_last_bits_on_a_cpu(architecture):
    images, rows = store(20), np.arange(20)
    features = encode(images, make(architecture), rows)
    contiguous = encode(images, make(architecture, memory_format="contiguous"), rows)
    np.testing.assert_allclose(contiguous, features, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(encode(images, make(architecture, precision="tf32"), rows), features)


@pytest.mark.gpu
@pytest.mark.parametrize("architecture", ["mini/vgg_mini", "mini/resnet_mini"])
@pytest.mark.parametrize(
    ("running", "bound"),
    [
        ({}, 1e-5),
        ({"precision": "tf32"}, 2.0**-9),
        ({"precision": "bf16"}, 2.0**-6),
        ({"compile": "default"}, 1e-5),
    ],
)
def test_features_of_a_gpu_are_those_of_a_cpu_but_for_its_rounding(architecture, running, bound):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    images, rows = store(60), np.arange(60)
    exact = encode(images, make(architecture), rows)
    found = encode(images, make(architecture, **running), rows, torch.device("cuda"))
    assert (np.linalg.norm(found - exact, axis=1) < bound * np.linalg.norm(exact, axis=1)).all()


@pytest.mark.parametrize("count", [0, 1, ENCODE_BATCH, ENCODE_BATCH + 1])
def test_any_number_of_crops(count):
    assert encode(store(3), make("mini/vgg_mini"), np.arange(count) % 3).shape == (count, 128)


def test_a_feature_that_is_not_finite_is_refused_with_its_image():
    encoder = make("mini/vgg_mini")
    with torch.no_grad():
        encoder.network[0].bias[0] = float("nan")
    with pytest.raises(VseppError, match="feature of image row 2 is not finite"):
        encode(store(3), encoder, np.array([2, 1]))


def test_a_pass_without_memory_says_what_it_needs_and_what_to_lower():
    encoder = make("mini/vgg_mini")
    placement = Placement(CPU, "device")
    placement.choose(1 << 20, "image store")
    with (
        pytest.raises(VseppError) as caught,
        pass_explained("1C features", encoder.spec, placement, writers=4),
    ):
        torch.empty(1 << 60, dtype=torch.uint8)
    said = str(caught.value)
    for part in (
        "1C features: out of memory on cpu",
        f"sees {ENCODE_BATCH} crops at a time, for which it needs about {pass_bytes(encoder) / 2**30:.2f} GiB",
        "Set resources.data_on (--data-on) to mapped; or lower resources.tape_writers (--writers), now 4; or take a "
        "smaller encoder than mini/vgg_mini or a smaller input_size than 40",
    ):
        assert part in said
    with pytest.raises(RuntimeError, match="shape"), pass_explained("1C features", encoder.spec, placement):
        torch.ones(2).view(3)
