import numpy as np
import pytest
import torch
from closeness import assert_near

from vsepp.base.errors import VseppError
from vsepp.base.spec import CropSpec
from vsepp.data.arrays import open_rows
from vsepp.features.crops import fixed_boxes
from vsepp.features.frozen import CHUNK_IMAGES, encode_crops, extract_features
from vsepp.features.images import Features
from vsepp.models.encoder import build_encoder

CPU = torch.device("cpu")
SIDE, SIZE = 30, 24
COUNT = CHUNK_IMAGES + 5


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
    part = store[:40]
    extract_features(
        part, encoder, CropSpec(kind=kind, size=SIZE), tmp_path / "out", tmp_path / "state", device=CPU
    )
    features = np.load(tmp_path / "out" / "features.npy")
    assert features.shape == (40, 1, 128)
    assert features.dtype == np.float32
    for row in (0, 17, 39):
        assert_near(features[row, 0], naive(store, encoder, row, kind), 1e-5)


def test_a_killed_extraction_goes_on_and_ends_with_equal_features(tmp_path, store, encoder):
    crop = CropSpec(kind="1C", size=SIZE)
    extract_features(store, encoder, crop, tmp_path / "whole", tmp_path / "state-1", device=CPU)
    expected = (tmp_path / "whole" / "features.npy").read_bytes()
    # What a kill in the second chunk leaves: the header, the first chunk, some bytes of the next row.
    state = tmp_path / "state-2"
    state.mkdir()
    header = len(expected) - COUNT * 128 * 4
    marked = bytearray(expected[: header + (CHUNK_IMAGES + 1) * 128 * 4 + 3])
    marked[header : header + 4] = np.float32(-7).tobytes()
    (state / "features.npy").write_bytes(marked)
    extract_features(store, encoder, crop, tmp_path / "resumed", state, device=CPU)
    resumed = np.load(tmp_path / "resumed" / "features.npy")
    assert resumed[0, 0, 0] == -7, "the first chunk was not computed again"
    resumed[0, 0, 0] = np.load(tmp_path / "whole" / "features.npy")[0, 0, 0]
    np.testing.assert_array_equal(resumed, np.load(tmp_path / "whole" / "features.npy"))


def test_cached_features_by_image_row(tmp_path, store, encoder):
    extract_features(
        store[:9], encoder, CropSpec(kind="1C", size=SIZE), tmp_path, tmp_path / "state", device=CPU
    )
    whole = np.load(tmp_path / "features.npy")
    assert whole.shape == (9, 1, 128)
    features = Features(open_rows(tmp_path / "features.npy", np.float32, (None, None)), sets=False)
    np.testing.assert_array_equal(features.eval(np.array([8, 0, 8])).values, whole[[8, 0, 8], 0])


def test_crops_of_another_size_than_the_encoders_are_refused(tmp_path, store, encoder):
    with pytest.raises(VseppError, match="28 pixels, but encoder 'mini/resnet_mini' takes 24"):
        extract_features(store, encoder, CropSpec(kind="1C", size=28), tmp_path, tmp_path, device=CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["1C", "10C"])
def test_features_of_a_gpu_do_not_depend_on_where_the_images_lie(tmp_path, store, encoder, kind, cuda):
    crop = CropSpec(kind=kind, size=SIZE)
    for name, images in (("file", store), ("device", torch.from_numpy(np.array(store)).to(cuda))):
        extract_features(images, encoder, crop, tmp_path / name, tmp_path / "state", device=cuda)
    encoder.cpu()
    first, second = ((tmp_path / name / "features.npy").read_bytes() for name in ("file", "device"))
    assert first == second


def test_regions_are_the_whole_image_and_nine_windows_each_encoded_alone(tmp_path, store, encoder):
    extract_features(store[:3], encoder, CropSpec("regions", SIZE), tmp_path, tmp_path / "state", device=CPU)
    found = np.load(tmp_path / "features.npy")
    side, half = store.shape[1], store.shape[1] // 2
    steps = [0, (side - half) // 2, side - half]
    boxes = [(0, 0, side, side), *((top, left, half, half) for top in steps for left in steps)]
    assert found.shape == (3, len(boxes), 128)
    for row, region in ((0, 0), (1, 5), (2, 9)):
        box, flip = np.array([boxes[region]]), np.zeros(1, bool)
        alone = encode_crops(store, encoder, np.array([row]), box, flip, CPU)
        np.testing.assert_array_equal(found[row, region], alone[0].numpy())


def test_the_cells_of_a_grid_have_the_features_as_their_mean(tmp_path, store, encoder):
    crop = CropSpec("1C", SIZE)
    of_cells = build_encoder(encoder.spec, grid=True)
    of_cells.network.load_state_dict(encoder.network.state_dict())
    for name, network in (("pooled", encoder), ("grid", of_cells)):
        extract_features(store, network, crop, tmp_path / name, tmp_path / "state" / name, device=CPU)
    pooled, grid = (np.load(tmp_path / name / "features.npy") for name in ("pooled", "grid"))
    assert pooled.shape[1] == 1 and grid.shape[1] == 4
    np.testing.assert_allclose(grid.mean(axis=1), pooled[:, 0], atol=1e-5)


def test_windows_of_an_image_keep_within_it_whatever_its_shape():
    sizes = np.array([[46, 46], [47, 61], [300, 99]])
    boxes, flips = fixed_boxes(CropSpec("regions", 40), sizes)
    ends = boxes[:, :, :2] + boxes[:, :, 2:]
    assert (boxes >= 0).all() and (ends <= sizes[:, None]).all() and not flips.any()
    assert (ends[:, 9] == sizes).all() and (boxes[:, 0, 2:] == sizes).all()
    assert (boxes[:, 1:, 2:] == (sizes // 2)[:, None]).all()
