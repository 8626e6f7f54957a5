import logging

import numpy as np
import pytest
import torch

from vsepp.errors import VseppError
from vsepp.runtime.placing import Placing, fits, place, place_of, rows_of, upload

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
GIB = 1 << 30


@pytest.fixture
def array(tmp_path):
    # More than one chunk of a copy, and a last one that is not full.
    np.save(tmp_path / "array.npy", np.random.default_rng(0).integers(0, 256, (70_001, 1024), np.uint8))
    return np.load(tmp_path / "array.npy", mmap_mode="r")


@pytest.mark.parametrize(
    ("data_on", "where"), [("auto", "mapped"), ("device", "device"), ("mapped", "mapped")]
)
def test_rows_are_those_of_the_file_in_every_place(array, data_on, where):
    placed = place(array, "numbers", Placing(CPU, data_on))
    assert place_of(placed) == where and (placed is array) == (where == "mapped")
    rows = np.array([70_000, 0, 65_536, 65_535, 0])
    found = rows_of(placed, rows)
    np.testing.assert_array_equal(found.numpy(), np.asarray(array)[rows])
    found += 1  # a copy of its own, that a step may write to
    np.testing.assert_array_equal(rows_of(placed, rows).numpy(), np.asarray(array)[rows])


@pytest.mark.parametrize(
    ("size", "placing", "expected"),
    [
        (7 * GIB, Placing(GPU), True),
        (9 * GIB, Placing(GPU), False),
        (4 * GIB, Placing(GPU, share=2), True),
        (5 * GIB, Placing(GPU, share=2), False),
        (15 * GIB, Placing(GPU, "device", share=2), True),
    ],
)
def test_data_take_at_most_half_of_what_is_free_shared_among_jobs(caplog, size, placing, expected):
    with caplog.at_level(logging.INFO, "vsepp"):
        assert fits(size, 16 * GIB, "image store", placing) == expected
    assert ("read from its file" in caplog.text) == (not expected)


def test_a_demand_that_does_not_fit_is_an_error_with_sizes_and_what_to_set_instead():
    said = r"image store: 18\.25 GB, and cuda:0 has 17\.18 GB free; set resources\.data_on to auto or mapped"
    with pytest.raises(VseppError, match=said):
        fits(17 * GIB, 16 * GIB, "image store", Placing(GPU, "device"))


def test_an_unknown_place_is_refused():
    with pytest.raises(VseppError, match="got 'moon'; expected one of auto, device, mapped"):
        Placing(CPU, "moon")


def test_what_to_lower_follows_from_where_data_lie():
    assert Placing(CPU).what_to_lower() == []
    assert Placing(GPU, "mapped", share=3).what_to_lower() == ["lower resources.runs_per_gpu, now 3"]
    assert Placing(GPU).what_to_lower() == ["set resources.data_on to mapped"]
    assert Placing(GPU).what_to_lower(["mapped"]) == []


@pytest.mark.gpu
def test_on_a_gpu_rows_come_from_it_and_an_upload_waits_for_nothing(array, cuda):
    placed, rows = place(array, "numbers", Placing(cuda)), np.array([70_000, 0, 0])
    assert placed.device == cuda
    torch.cuda.set_sync_debug_mode("error")
    try:
        found, brought = rows_of(placed, rows), upload(np.asarray(array[:3]), cuda)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    np.testing.assert_array_equal(found.cpu().numpy(), np.asarray(array)[rows])
    np.testing.assert_array_equal(brought.cpu().numpy(), np.asarray(array[:3]))
