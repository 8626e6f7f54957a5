"""Arrays are placed on a device whole or in parts, and rows are taken from either."""

import tracemalloc

import numpy as np
import pytest
import torch

from vsepp.base.placement import Placing, place, place_of, rows_of, upload

CPU = torch.device("cpu")


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
    values = rows_of(placed, rows)
    np.testing.assert_array_equal(values.numpy(), np.asarray(array)[rows])
    values += 1  # a copy of its own, that a step may write to
    np.testing.assert_array_equal(rows_of(placed, rows).numpy(), np.asarray(array)[rows])


def test_beside_what_is_placed_a_block_of_it_is_in_memory(tmp_path):
    shape = (300, 1 << 20)
    np.lib.format.open_memmap(tmp_path / "array.npy", "w+", np.uint8, shape)[::7] = 5
    array = np.load(tmp_path / "array.npy", mmap_mode="r")
    tracemalloc.start()
    try:
        placed = place(array, "numbers", Placing(CPU, "device"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 80 << 20 and placed.shape == shape
    assert torch.equal(placed, torch.from_numpy(np.array(array)))


@pytest.mark.gpu
def test_on_a_gpu_rows_come_from_it_and_an_upload_waits_for_nothing(array, cuda):
    placed, rows = place(array, "numbers", Placing(cuda)), np.array([70_000, 0, 0])
    assert placed.device == cuda
    torch.cuda.set_sync_debug_mode("error")
    try:
        values, brought = rows_of(placed, rows), upload(np.array(array[:3]), cuda)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    np.testing.assert_array_equal(values.cpu().numpy(), np.asarray(array)[rows])
    np.testing.assert_array_equal(brought.cpu().numpy(), np.asarray(array[:3]))
