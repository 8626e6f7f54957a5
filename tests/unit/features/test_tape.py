from dataclasses import replace

import numpy as np
import pytest
import torch

from vsepp.errors import VseppError
from vsepp.features.crops import crop_boxes
from vsepp.features.growing import GrowingRows, append_behind
from vsepp.features.tape import InlineFeatures, Tape, start_random_crop_features
from vsepp.features.tape_writer import CHUNK_CAPTIONS, TapeJob, write_tape
from vsepp.models.encoder import build_encoder
from vsepp.spec import CropSpec, EncoderSpec

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


def make(architecture: str, **running):
    torch.manual_seed(0)
    return build_encoder(
        EncoderSpec(
            name="vgg",
            architecture=architecture,
            weights="random",
            input_size=SIZE,
            store_side=SIDE,
            mean=(0.5, 0.5, 0.5),
            std=(0.25, 0.25, 0.25),
            **running,
        )
    )


@pytest.fixture(scope="module")
def encoder():
    return make("mini/vgg_mini")


def write(store, encoder, folder, state, *, crop=CROPS[0], rows=TRAINED, epochs=range(2)) -> Tape:
    job = TapeJob(crop, rows, IMAGE_ROWS[rows], CAPTION_IDS[rows], encoder.dim, 4, epochs, folder, state)
    write_tape(job, store, encoder, device=CPU)
    return Tape.open(folder)


@pytest.mark.parametrize("crop", CROPS, ids=lambda crop: crop.random)
@pytest.mark.parametrize("architecture", ["mini/vgg_mini", "mini/resnet_mini"])
@pytest.mark.parametrize(
    "running",
    [
        {},
        {"precision": "bf16"},
        {"precision": "tf32", "memory_format": "contiguous"},
        pytest.param({"compile": "default", "precision": "bf16"}, marks=pytest.mark.slow),
    ],
    ids=lambda running: "-".join(running.values()) or "default",
)
def test_tape_and_inline_features_are_equal_bit_for_bit(tmp_path, store, architecture, crop, running):
    # Two encoders, as tape and training are two processes.
    encoder = make(architecture, **running)
    tape = write(store, encoder, tmp_path / "tape", tmp_path / "state", crop=crop)
    inline = InlineFeatures(store, make(architecture, **running), crop, IMAGE_ROWS, CAPTION_IDS, 4, CPU)
    assert tape.dim == inline.dim == 128
    generator = np.random.default_rng(2)
    for epoch in (1, 0):
        for size in (1, 50, len(TRAINED)):
            rows = generator.choice(TRAINED, size, replace=False)
            read, computed = tape.rows(epoch, rows).numpy(), inline.rows(epoch, rows).numpy()
            assert read.dtype == computed.dtype == np.float16
            np.testing.assert_array_equal(read.view(np.uint16), computed.view(np.uint16))
    assert not torch.equal(tape.rows(0, TRAINED), tape.rows(1, TRAINED))


def test_rc_reads_its_part_of_the_tape_of_rc_with_rv(tmp_path, store, encoder):
    small = TRAINED[::2]
    whole = write(store, encoder, tmp_path / "whole", tmp_path / "state")
    part = write(store, encoder, tmp_path / "part", tmp_path / "state", rows=small)
    np.testing.assert_array_equal(whole.rows(1, small), part.rows(1, small))


def test_features_are_those_of_the_crop_of_the_captions_image(store, encoder):
    rows = np.array([5, 100])
    features = start_random_crop_features(
        store, encoder, CROPS[0], IMAGE_ROWS[rows], CAPTION_IDS[rows], 4, 1, CPU
    )()
    boxes, _ = crop_boxes(CAPTION_IDS[rows], 4, 1, CROPS[0], SIDE)
    for feature, row, (top, left, _, _) in zip(features, rows, boxes, strict=True):
        crop = store[IMAGE_ROWS[row], top : top + SIZE, left : left + SIZE]
        with torch.inference_mode():
            expected = encoder.eval()(encoder.normalise(torch.from_numpy(crop[None])))[0]
        np.testing.assert_allclose(feature, expected.numpy(), rtol=2e-3, atol=1e-3)


def test_a_tape_says_which_epoch_or_caption_it_lacks(tmp_path, store, encoder):
    tape = write(store, encoder, tmp_path / "tape", tmp_path / "state")
    with pytest.raises(VseppError, match=r"tape: the tape has no epoch 2; it has \[0, 1\]"):
        tape.rows(2, TRAINED[:1])
    for absent in (0, 3, 500):
        with pytest.raises(VseppError, match=rf"tape: the tape has no caption row {absent} \(1 of 2"):
            tape.rows(0, np.array([TRAINED[0], absent]))
    with pytest.raises(VseppError, match=r"captions\.npy: missing"):
        Tape.open(tmp_path / "state")


def test_a_killed_step_goes_on_within_the_epoch(tmp_path, encoder):
    count = CHUNK_CAPTIONS + 100
    store = np.random.default_rng(1).integers(0, 256, (50, SIDE, SIDE, 3), dtype=np.uint8)
    rows = np.arange(count)
    job = TapeJob(
        CROPS[0], rows, rows % 50, rows + 5, 128, 0, range(2), tmp_path / "whole", tmp_path / "state-1"
    )
    write_tape(job, store, encoder, device=CPU)
    # What a kill in the second chunk of the first epoch leaves.
    state = tmp_path / "state-2"
    state.mkdir()
    expected = (tmp_path / "whole" / "epoch-000.npy").read_bytes()
    header = len(expected) - count * 128 * 2
    marked = bytearray(expected[: header + (CHUNK_CAPTIONS + 3) * 128 * 2 + 1])
    marked[header : header + 2] = np.float16(-7).tobytes()
    (state / "epoch-000.npy").write_bytes(marked)
    write_tape(replace(job, out=tmp_path / "resumed", state=state), store, encoder, device=CPU)
    resumed = np.load(tmp_path / "resumed" / "epoch-000.npy")
    assert resumed[0, 0] == -7, "the first chunk was not computed again"
    np.testing.assert_array_equal(resumed[1:], np.load(tmp_path / "whole" / "epoch-000.npy")[1:])
    assert (tmp_path / "resumed" / "epoch-001.npy").read_bytes() == (
        tmp_path / "whole" / "epoch-001.npy"
    ).read_bytes()


def test_a_stale_epoch_in_the_output_is_not_taken_for_a_new_one(tmp_path, store, encoder):
    fresh = write(store, encoder, tmp_path / "fresh", tmp_path / "state")
    stale = tmp_path / "tape"
    stale.mkdir()
    np.save(stale / "epoch-000.npy", np.zeros((len(TRAINED), 128), np.float16))
    tape = write(store, encoder, stale, tmp_path / "state")
    np.testing.assert_array_equal(tape.rows(0, TRAINED), fresh.rows(0, TRAINED))


def test_epochs_moved_before_a_kill_are_kept(tmp_path, store, encoder):
    write(store, encoder, tmp_path / "tape", tmp_path / "state")
    # As if the kill had come between the first epoch's move and the second's.
    (tmp_path / "tape" / "epoch-001.npy").rename(tmp_path / "state" / "epoch-001.npy")
    (tmp_path / "state" / "complete").touch()
    before = (tmp_path / "tape" / "epoch-000.npy").stat().st_ino
    tape = write(store, encoder, tmp_path / "tape", tmp_path / "state")
    assert (tmp_path / "tape" / "epoch-000.npy").stat().st_ino == before
    assert tape.rows(1, TRAINED).any()
    assert list((tmp_path / "state").iterdir()) == []


def test_a_feature_too_large_for_16_bits_is_refused(store):
    encoder = make("mini/vgg_mini")
    with torch.no_grad():
        encoder.network[-3].bias[3] = 70_000
    with pytest.raises(VseppError, match=r"caption 1007, image row 0: a feature of 7e\+04 does not fit"):
        start_random_crop_features(store, encoder, CROPS[0], np.array([0]), np.array([1007]), 0, 0, CPU)()


def test_captions_out_of_order_are_refused(tmp_path, store, encoder):
    with pytest.raises(VseppError, match="ascending order"):
        write(store, encoder, tmp_path, tmp_path / "state", rows=TRAINED[::-1])


def test_what_follows_a_chunk_that_failed_is_not_written_in_its_place(tmp_path):
    def fails():
        raise VseppError("the feature is not finite")

    def ones():
        return np.ones((4, 3), np.float16)

    rows = GrowingRows(tmp_path / "rows.npy", (12, 3), np.float16, 4)
    append_behind(rows, [(0, ones)])
    with pytest.raises(VseppError, match="not finite"):
        append_behind(rows, [(4, fails), (8, ones)])
    assert rows.done == 4
    append_behind(rows, [(4, ones), (8, ones)])
    assert rows.done == 12


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_inline_features_stay_on_the_gpu_rounded_as_on_the_tape_and_nothing_waits(store):
    cuda = torch.device("cuda", torch.cuda.current_device())
    encoder = make("mini/vgg_mini")
    inline = InlineFeatures(
        torch.from_numpy(store).to(cuda), encoder, CROPS[0], IMAGE_ROWS, CAPTION_IDS, 4, cuda
    )
    inline.rows(0, TRAINED)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = inline.rows(1, TRAINED)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected = start_random_crop_features(
        store, encoder, CROPS[0], IMAGE_ROWS[TRAINED], CAPTION_IDS[TRAINED], 4, 1, cuda
    )()
    assert found.dtype == torch.float16 and found.device == cuda and not found.is_inference()
    np.testing.assert_array_equal(found.cpu().numpy().view(np.uint16), expected.view(np.uint16))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(("value", "said"), [(70_000, "does not fit"), (float("nan"), "is not finite")])
def test_inline_features_of_a_gpu_that_do_not_fit_are_refused_at_the_next_step(store, value, said):
    cuda = torch.device("cuda", torch.cuda.current_device())
    encoder = make("mini/vgg_mini")
    inline = InlineFeatures(store, encoder, CROPS[0], IMAGE_ROWS, CAPTION_IDS, 4, cuda)
    inline.rows(0, np.array([1]))
    with torch.no_grad():
        encoder.network[-3].bias[3] = value
    inline.rows(0, np.array([4]))
    with pytest.raises(VseppError, match=rf"image row 1\b.*{said}"):
        inline.rows(0, np.array([7]))
