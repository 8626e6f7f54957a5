"""The device that a job gets, on a machine without a GPU."""

import os

import pytest
import torch

from vsepp.base import devices
from vsepp.base.errors import VseppError
from vsepp.base.machine import present_device, use_cpu, use_machine

ON_CPU = {"device": "cpu", "instructions": torch.backends.cpu.get_cpu_capability()}


@pytest.fixture(autouse=True)
def no_gpu(tmp_path, monkeypatch):
    if devices.installed():
        pytest.skip("this machine has a GPU")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_auto_is_the_cpu_and_nothing_is_claimed(tmp_path, monkeypatch):
    monkeypatch.setenv(devices.VISIBLE, "3,5")
    for wanted, share in (("auto", 1), ("cpu", 1), ("auto", 4)):
        device, facts = use_machine(wanted, share=share)
        assert device.type == "cpu" and facts == {**ON_CPU, "threads": torch.get_num_threads()}
    assert os.environ[devices.VISIBLE] == "3,5"
    assert not list(tmp_path.iterdir())


def test_threads_are_set_and_told():
    before = torch.get_num_threads()
    try:
        assert use_cpu(3) == {**ON_CPU, "threads": 3} and torch.get_num_threads() == 3
        assert use_cpu() == {**ON_CPU, "threads": 3}
    finally:
        torch.set_num_threads(before)


def test_auto_says_that_it_takes_the_cpu_although_a_gpu_was_claimed(monkeypatch, caplog):
    # As with a driver that this torch does not go with: there are device files, and torch finds nothing.
    monkeypatch.setattr(devices, "installed", lambda: 6)
    monkeypatch.setenv(devices.VISIBLE, "5,3")
    device, facts = use_machine()
    assert device.type == facts["device"] == "cpu" and "gpu" not in facts
    assert "GPUs 5, 3 exist" in caplog.text
    with devices.claim("the next", ["5"]):
        pass  # it was given back
    with pytest.raises(VseppError, match="cuda"):
        use_machine("cuda")
    caplog.clear()
    use_machine("cpu")
    assert not caplog.text


@pytest.mark.parametrize("wanted", ["mps", "cuda:-1", "cuda:٣", "cuda:0,1"])
def test_what_names_no_device_that_is_promised_is_refused(wanted):
    for use in (use_machine, present_device):
        with pytest.raises(VseppError, match=f"device: got '{wanted}'"):
            use(wanted)


def test_under_torchrun_the_local_rank_decides(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert use_machine()[0].type == use_machine("cpu")[0].type == "cpu"
    with pytest.raises(VseppError, match="torch finds no GPU"):
        use_machine("cuda")
    monkeypatch.setattr(devices, "installed", lambda: 1)
    with pytest.raises(VseppError, match=r"rank 1 .* 1 GPUs"):
        use_machine()


@pytest.mark.parametrize("wanted", ["cuda", "cuda:7"])
def test_a_device_that_is_not_there_is_named_with_what_there_is(wanted):
    with pytest.raises(VseppError, match=f"device: got {wanted}, but torch finds 0 GPUs"):
        present_device(wanted)
    assert present_device("auto") == present_device("cpu") == torch.device("cpu")
