from types import SimpleNamespace

import pytest
import torch
from processes import no_room

from vsepp.base.errors import VseppError
from vsepp.training import checkpoint
from vsepp.training.checkpoint import FILE, Checkpoints


def save(checkpoints, number):
    """A checkpoint whose content tells its number."""
    content = {"number": number, "w": torch.full((50,), float(number))}
    checkpoints.save(content, f"epoch {number}")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_last_checkpoint_is_kept_and_read(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    save(checkpoints, 2)
    assert names(tmp_path) == [FILE]
    again = Checkpoints(tmp_path)
    content = again.load()
    assert content["number"] == 2
    assert torch.equal(content["w"], torch.full((50,), 2.0))
    assert again.written == content["where"] == "epoch 2"


def test_a_damaged_one_is_an_error_that_names_the_file(tmp_path):
    assert Checkpoints(tmp_path).load() is None
    (tmp_path / FILE).write_bytes(b"not a checkpoint")
    with pytest.raises(VseppError, match=FILE):
        Checkpoints(tmp_path).load()


def test_no_object_is_unpickled(tmp_path):
    Checkpoints(tmp_path).save({"path": tmp_path}, "epoch 1")
    with pytest.raises(VseppError, match=FILE):
        Checkpoints(tmp_path).load()


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    with no_room(1000), pytest.raises(OSError, match="File too large"):
        save(checkpoints, 2)
    assert names(tmp_path) == [FILE]
    assert Checkpoints(tmp_path).load()["number"] == 1


def test_one_is_due_after_each_interval(tmp_path, monkeypatch):
    clock = iter([0.0, 59.0, 60.0, 70.0, 129.0, 130.0])
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    checkpoints = Checkpoints(tmp_path, interval=60)
    assert not checkpoints.due() and checkpoints.due()
    save(checkpoints, 1)
    assert not checkpoints.due() and checkpoints.due()
