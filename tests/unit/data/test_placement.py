import logging

import numpy as np
import pytest
import torch

from vsepp.data.host_memory import available_memory
from vsepp.data.placed import in_file
from vsepp.data.placement import Placement, _forget_failure, _lock
from vsepp.errors import VseppError

CPU = torch.device("cpu")
PLACES = ["auto", "device", "pinned", "mapped"]


@pytest.fixture
def file(tmp_path):
    # More than one chunk of a copy, and a last one that is not full.
    array = np.random.default_rng(0).integers(0, 256, (70_001, 1024), np.uint8)
    np.save(tmp_path / "array.npy", array)
    return tmp_path / "array.npy"


@pytest.mark.parametrize("where", PLACES)
def test_rows_are_those_of_the_file_in_every_place(file, where):
    array = np.load(file, mmap_mode="r")
    placed = Placement(CPU, where).place(array, "numbers")
    assert placed.where == ("mapped" if where == "auto" else where)
    assert isinstance(placed.array, np.ndarray) == (placed.where == "mapped")
    assert len(placed) == len(array)
    np.testing.assert_array_equal(np.asarray(placed.array), array)
    rows = np.array([70_000, 0, 65_536, 65_535, 0])
    found = placed.rows(rows)
    np.testing.assert_array_equal(found.numpy(), np.asarray(array)[rows])
    found += 1  # a copy of its own, that a step may write to
    np.testing.assert_array_equal(placed.rows(rows).numpy(), np.asarray(array)[rows])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
@pytest.mark.parametrize("shape", [(5, 3), (1, 1, 4), (0, 3)])
def test_types_and_shapes_survive(dtype, shape):
    array = np.random.default_rng(1).normal(0, 100, shape).astype(dtype)
    placed = Placement(CPU, "device").place(array, "numbers")
    assert placed.array.numpy().dtype == dtype
    np.testing.assert_array_equal(placed.array.numpy(), array)


def test_a_file_is_placed_once_and_another_one_is_left_alone(file, tmp_path):
    placement = Placement(CPU, "pinned")
    first = placement.place(np.load(file, mmap_mode="r"), "store")
    assert placement.place(np.load(file, mmap_mode="r"), "store again") is first
    assert placement.find(np.load(file, mmap_mode="r"), "store") is first
    assert list(placement.chosen) == ["store"]
    np.save(tmp_path / "other.npy", np.zeros(3))
    assert placement.find(np.load(tmp_path / "other.npy", mmap_mode="r"), "other").where == "mapped"
    # Arrays without a file are never taken for each other.
    one, two = np.zeros(3), np.ones(3)
    assert placement.place(one, "one").array.sum() == 0
    assert placement.place(two, "two").array.sum() == 3
    assert in_file(one, "one").array is one


@pytest.mark.parametrize("where", ["device", "pinned"])
def test_a_demand_that_does_not_fit_is_an_error_with_sizes_and_what_to_set_instead(where):
    placement = Placement(CPU, where)
    with pytest.raises(
        VseppError, match=rf"--data-on {where}: image store takes 1048576\.00 GiB, but the host"
    ) as e:
        placement.choose(1 << 50, "image store")
    assert "GiB available" in str(e.value)
    assert "mapped or auto" in str(e.value)
    assert placement.chosen == {}


def test_what_was_chosen_is_told_with_the_reason():
    placement = Placement(CPU)
    assert placement.choose(1 << 50, "image store") == "mapped"
    assert placement.chosen == {"image store": "mapped: 1048576.00 GiB; the device is a CPU"}
    demanded = Placement(CPU, "device")
    assert demanded.choose(1 << 20, "tape") == "device"
    assert demanded.chosen["tape"].startswith("device: 0.00 GiB; the host has")
    assert demanded.resident_bytes == {}, "nothing lies on a GPU"


def test_processes_share_the_memory_of_the_host():
    size = int(available_memory() * 0.3)
    Placement(CPU, "pinned").choose(size, "store")
    for crowded in (Placement(CPU, "pinned", share=2), Placement(CPU, "pinned", processes=2)):
        with pytest.raises(VseppError, match="shared by 2 processes"):
            crowded.choose(size, "store")


def test_an_unknown_place_is_refused():
    with pytest.raises(VseppError, match="got 'disk'; expected one of auto, device, pinned, mapped"):
        Placement(CPU, "disk")


def test_memory_that_the_driver_does_not_lock_leaves_an_array_in_its_file(file, caplog):
    array, refusal = np.load(file, mmap_mode="r"), torch.cuda.CudaError(2)
    placement = Placement(CPU)
    with caplog.at_level(logging.WARNING, logger="vsepp"):
        placed = placement._not_locked(array, "image store", refusal)
    assert placed.where == "mapped" and placed.array is array
    assert "image store: 0.07 GiB of the host's memory could not be locked (out of memory" in caplog.text
    assert placement.chosen["image store"].startswith("mapped: 0.07 GiB; could not be locked")
    with pytest.raises(VseppError, match=r"--data-on pinned: image store.* to mapped or auto"):
        Placement(CPU, "pinned")._not_locked(array, "image store", refusal)


@pytest.fixture
def kernel(tmp_path):
    """What the kernel says on a machine with 16 GiB available, and room for groups of processes."""
    (tmp_path / "meminfo").write_text("MemTotal: 33554432 kB\nMemAvailable:   16777216 kB\nCached: 5 kB\n")
    (tmp_path / "cgroup").write_text("0::/slurm/job_7\n")
    groups = tmp_path / "groups"
    (groups / "slurm/job_7").mkdir(parents=True)
    return tmp_path / "meminfo", tmp_path / "cgroup", groups


def limit(folder, most, current, cache):
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{current}\n")
    (folder / "memory.stat").write_text(f"anon 7\ninactive_file {cache}\nactive_file 0\n")


def test_memory_is_what_the_machine_and_the_groups_limits_leave(kernel):
    assert available_memory(*kernel) == 16 << 30
    groups = kernel[2]
    limit(groups / "slurm/job_7", "max", 5, 0)
    assert available_memory(*kernel) == 16 << 30
    limit(groups / "slurm/job_7", 8 << 30, 3 << 30, 1 << 30)
    assert available_memory(*kernel) == 6 << 30, "files that the kernel keeps do not count as taken"
    limit(groups / "slurm", 5 << 30, 3 << 30, 0)
    assert available_memory(*kernel) == 2 << 30, "a limit further up counts too"
    limit(groups / "slurm", 2 << 30, 3 << 30, 0)
    assert available_memory(*kernel) == 0


def test_a_kernel_that_tells_nothing_leaves_no_room(tmp_path):
    nothing = tmp_path / "nothing"
    assert available_memory(nothing, nothing, nothing) == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("where", PLACES)
def test_rows_are_those_of_the_file_in_every_place_of_a_gpu_machine(file, where):
    cuda = torch.device("cuda", torch.cuda.current_device())
    array = np.load(file, mmap_mode="r")
    placement = Placement(cuda, where)
    placed = placement.place(array, "numbers")
    assert placed.where == ("device" if where == "auto" else where)
    if placed.where == "pinned":
        assert placed.array.is_pinned()
    rows = np.array([70_000, 0, 65_536, 65_535, 0])
    found = placed.rows(rows)
    np.testing.assert_array_equal(found.cpu().numpy(), np.asarray(array)[rows])
    assert placed.locked == (placed.where == "pinned")
    assert found.is_pinned() == placed.locked, "so that no second copy is made on the way to the GPU"
    assert placement.resident_bytes == ({"numbers": array.nbytes} if placed.where == "device" else {})
    with pytest.raises(VseppError, match=r"--data-on device: store takes .* is free|has .* GiB free"):
        Placement(cuda, "device").choose(1 << 50, "store")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_auto_leaves_room_for_the_step_and_goes_to_the_host_then():
    cuda = torch.device("cuda", torch.cuda.current_device())
    _, there = torch.cuda.mem_get_info(cuda)
    placement = Placement(cuda, leave=there)
    assert placement.choose(1 << 20, "store") == "pinned"
    assert placement.choose(1 << 50, "large store") == "mapped"
    assert "keeps" in placement.chosen["large store"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("where", ["auto", "pinned"])
def test_a_refusal_to_lock_memory_breaks_nothing_that_comes_after_it(file, where):
    cuda = torch.device("cuda", torch.cuda.current_device())
    array = torch.zeros(1 << 20, dtype=torch.uint8)
    _lock(array)
    with pytest.raises(torch.cuda.CudaError) as refused:
        _lock(array)  # what is locked cannot be locked again
    placement = Placement(cuda, where)
    _forget_failure(cuda)
    if where == "auto":
        mapped = np.load(file, mmap_mode="r")
        assert placement._not_locked(mapped, "store", refused.value).where == "mapped"
    else:
        with pytest.raises(VseppError, match="could not be locked"):
            placement._not_locked(np.zeros(3), "store", refused.value)
    assert torch.ones(5, device=cuda).sum().item() == 5
