"""A tape holds the features that an encoder in the training step would give, bit for bit."""

import numpy as np
import pytest
import torch
from rounding import assert_near

from vsepp.base.errors import VseppError
from vsepp.base.spec import CropSpec
from vsepp.features.crops import CaptionCrops, crop_boxes
from vsepp.features.frozen import write_tape
from vsepp.features.images import Inline, Tape

CPU = torch.device("cpu")
SIDE, SIZE = 30, 24
CROPS = [
    CropSpec(kind="RC", size=SIZE),
    CropSpec(kind="RC", size=SIZE, random="resized_crop", flip=True),
]
# Captions of the table: three an image, ids that are not rows. Every third is in no training split.
IMAGE_ROWS = np.repeat(np.arange(60), 3)
CAPTION_IDS = 1000 + 7 * np.arange(180)
TRAINED = np.flatnonzero(np.arange(180) % 3)

pytestmark = pytest.mark.tape


@pytest.fixture(scope="module")
def store() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (60, SIDE, SIDE, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def encoder(make):
    return make("mini/vgg_mini")


def crops_of(crop=CROPS[0]) -> CaptionCrops:
    return CaptionCrops(crop, IMAGE_ROWS, CAPTION_IDS, 4)


def write(store, encoder, folder, state, *, crop=CROPS[0], rows=TRAINED) -> Tape:
    write_tape(store, encoder, crops_of(crop), rows, 2, folder, state, device=CPU)
    return Tape(folder, 2)


@pytest.mark.parametrize("crop", CROPS, ids=lambda crop: crop.random)
@pytest.mark.parametrize("architecture", ["mini/vgg_mini", "mini/resnet_mini"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_tape_and_inline_features_are_equal_bit_for_bit(tmp_path, store, make, architecture, crop, precision):
    # Two encoders, as tape and training are two processes.
    tape = write(
        store, make(architecture, precision=precision), tmp_path / "tape", tmp_path / "state", crop=crop
    )
    inline = Inline(store, make(architecture, precision=precision), crops_of(crop), CPU)
    generator = np.random.default_rng(2)
    for epoch in (1, 0):
        for size in (1, 50, len(TRAINED)):
            rows = generator.choice(TRAINED, size, replace=False)
            read, computed = tape.train(rows, epoch).values.numpy(), inline.train(rows, epoch).values.numpy()
            assert read.dtype == computed.dtype == np.float16
            np.testing.assert_array_equal(read.view(np.uint16), computed.view(np.uint16))
    assert not torch.equal(tape.train(TRAINED, 0).values, tape.train(TRAINED, 1).values)


def test_features_are_those_of_the_crop_of_the_captions_image(store, encoder):
    rows = np.array([5, 100])
    features = Inline(store, encoder, crops_of(), CPU).train(rows, 1).values
    boxes, _ = crop_boxes(CAPTION_IDS[rows], 4, 1, CROPS[0], np.full((2, 2), SIDE))
    for feature, row, (top, left, _, _) in zip(features, rows, boxes, strict=True):
        crop = store[IMAGE_ROWS[row], top : top + SIZE, left : left + SIZE]
        with torch.inference_mode():
            expected = encoder(encoder.normalise(torch.from_numpy(crop[None])))[0]
        assert_near(feature, expected, 1e-3)  # of 16 bits


def test_an_epoch_or_caption_that_a_tape_lacks_is_named(tmp_path, store, encoder):
    tape = write(store, encoder, tmp_path / "tape", tmp_path / "state")
    for absent in (0, 500):
        with pytest.raises(VseppError, match=rf"caption row {absent} \(1 of 2"):
            tape.train(np.array([TRAINED[0], absent]), 0)
    # Another array in the folder is no epoch.
    np.save(tmp_path / "tape" / "epoch-copy.npy", np.zeros((len(TRAINED), 128), np.float16))
    with pytest.raises(VseppError, match=r"epoch-002\.npy"):
        Tape(tmp_path / "tape", 3)
    np.save(tmp_path / "tape" / "epoch-001.npy", np.zeros((7, 128), np.float16))
    with pytest.raises(VseppError, match=r"epoch-001\.npy.*\b7\b"):
        Tape(tmp_path / "tape", 2)


@pytest.mark.parametrize(("value", "message"), [(70_000, r"7e\+04"), (float("nan"), "not finite")])
def test_values_beyond_16_bits_are_refused(tmp_path, store, make, value, message):
    encoder = make("mini/vgg_mini")
    with torch.no_grad():
        encoder.network[-3].bias[3] = value
    with pytest.raises(VseppError, match=rf"image row \d+.*{message}"):
        write(store, encoder, tmp_path / "tape", tmp_path / "state")
    with pytest.raises(VseppError, match=rf"image row \d+.*{message}"):
        Inline(store, encoder, crops_of(), CPU).train(np.arange(1, 3), 0)


def test_a_tape_that_cannot_fit_is_refused_before_its_first_byte(tmp_path, store, make):
    encoder = make("mini/vgg_mini")
    encoder.dim = 2**40
    with pytest.raises(VseppError, match=r"527,765\.\d+ GB"):
        write(store, encoder, tmp_path / "tape", tmp_path / "state")
    assert not list((tmp_path / "state").iterdir())
