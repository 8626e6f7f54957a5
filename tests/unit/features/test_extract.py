"""Features of all images under a fixed crop: one crop, the mean of ten, regions, the cells of a grid."""

import numpy as np
import pytest
import torch
from rounding import assert_near

from vsepp.base.errors import VseppError
from vsepp.base.spec import CropSpec
from vsepp.features.crops import fixed_boxes
from vsepp.features.frozen import encode_crops, extract_features

CPU = torch.device("cpu")
SIDE, SIZE = 30, 24
COUNT = 45


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> np.ndarray:
    path = tmp_path_factory.mktemp("store") / "images.npy"
    np.save(path, np.random.default_rng(0).integers(0, 256, (COUNT, SIDE, SIDE, 3), dtype=np.uint8))
    return np.load(path, mmap_mode="r")


@pytest.fixture(scope="module")
def encoder(make):
    return make("mini/resnet_mini")


def naive(store, encoder, row: int, kind: str) -> np.ndarray:
    """One image at a time, crops sliced by hand."""
    whole = store[row]
    if kind == "1C":
        crops = [whole[3:27, 3:27]]
    else:
        five = [whole[:24, :24], whole[:24, 6:], whole[6:, :24], whole[6:, 6:], whole[3:27, 3:27]]
        crops = five + [part[:, ::-1] for part in five]
    with torch.inference_mode():
        pixels = encoder.normalise(torch.from_numpy(np.stack(crops)))
        return encoder.eval()(pixels).numpy().astype(np.float64).mean(axis=0)


@pytest.mark.parametrize("kind", ["1C", "10C"])
def test_features_are_the_mean_over_the_crops(tmp_path, store, encoder, kind):
    extract_features(store, encoder, CropSpec(kind, SIZE), tmp_path, tmp_path / "state", device=CPU)
    features = np.load(tmp_path / "features.npy")
    assert features.shape == (COUNT, 1, 128) and features.dtype == np.float32
    for row in (0, 17, 44):
        assert_near(features[row, 0], naive(store, encoder, row, kind), 1e-5)


def test_crops_that_do_not_fit_the_images_are_refused():
    with pytest.raises(VseppError, match=r"50 pixels .* 48"):
        fixed_boxes(CropSpec("1C", 50), np.array([[48, 48]]))


def test_regions_are_the_whole_image_and_nine_windows_each_encoded_alone(tmp_path, store, encoder):
    extract_features(store[:3], encoder, CropSpec("regions", SIZE), tmp_path, tmp_path / "state", device=CPU)
    features = np.load(tmp_path / "features.npy")
    side, half = store.shape[1], store.shape[1] // 2
    steps = [0, (side - half) // 2, side - half]
    boxes = [(0, 0, side, side), *((top, left, half, half) for top in steps for left in steps)]
    assert features.shape == (3, len(boxes), 128)
    for row, region in ((0, 0), (1, 5), (2, 9)):
        box, flip = np.array([boxes[region]]), np.zeros(1, bool)
        alone = encode_crops(store, encoder, np.array([row]), box, flip, CPU)
        np.testing.assert_array_equal(features[row, region], alone[0].numpy())
