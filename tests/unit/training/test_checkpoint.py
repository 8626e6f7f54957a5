import pytest
import torch

from vsepp.errors import VseppError
from vsepp.training.checkpoint import (
    FILE,
    load_checkpoint,
    random_states,
    restore_random_states,
    save_checkpoint,
)

CPU = torch.device("cpu")


def test_a_checkpoint_is_read_back(tmp_path):
    content = {
        "run": "a",
        "model": {"w": torch.rand(3, 2)},
        "means": [torch.rand(2)],
        "history": [{"loss": 0.1}],
    }
    save_checkpoint(tmp_path / "state", content)
    read = load_checkpoint(tmp_path / "state", "a")
    assert read["history"] == content["history"]
    assert torch.equal(read["model"]["w"], content["model"]["w"])
    assert torch.equal(read["means"][0], content["means"][0])


def test_the_state_folder_holds_the_last_checkpoint_alone(tmp_path):
    for epoch in range(3):
        save_checkpoint(tmp_path, {"run": "a", "epoch": epoch})
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert load_checkpoint(tmp_path, "a")["epoch"] == 2


def test_without_a_checkpoint_there_is_nothing_to_go_on_from(tmp_path):
    assert load_checkpoint(tmp_path, "a") is None


def test_a_write_that_was_cut_short_leaves_the_one_before(tmp_path):
    save_checkpoint(tmp_path, {"run": "a", "epoch": 1})
    (tmp_path / f".{FILE}.part").write_bytes(b"half")
    assert load_checkpoint(tmp_path, "a")["epoch"] == 1


def test_another_runs_checkpoint_is_refused(tmp_path):
    save_checkpoint(tmp_path, {"run": "a"})
    with pytest.raises(VseppError, match="checkpoint of another run"):
        load_checkpoint(tmp_path, "b")


def test_a_damaged_checkpoint_is_refused_and_named(tmp_path):
    (tmp_path / FILE).write_bytes(b"not a checkpoint")
    with pytest.raises(VseppError, match=f"{FILE}: damaged checkpoint"):
        load_checkpoint(tmp_path, "a")


def test_no_object_is_unpickled(tmp_path):
    save_checkpoint(tmp_path, {"run": "a", "path": tmp_path})
    with pytest.raises(VseppError, match="damaged checkpoint"):
        load_checkpoint(tmp_path, "a")


def test_random_states_are_put_back():
    torch.manual_seed(3)
    states = random_states(CPU)
    first = torch.rand(4)
    restore_random_states(states, CPU)
    assert torch.equal(torch.rand(4), first)
