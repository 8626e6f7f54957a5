import re
import shutil
from types import SimpleNamespace

import pytest
import torch
from processes import no_room

from vsepp.provenance.space import refused_by_system
from vsepp.training import checkpoint
from vsepp.training.checkpoint import FILE, PREVIOUS, Checkpoints


def save(checkpoints, number):
    """A checkpoint whose content tells its number."""
    content = {"number": number, "w": torch.full((50,), float(number)), "sizes": {("MH", 16, None): 0.4}}
    checkpoints.save(content, f"epoch {number}")


@pytest.fixture
def two(tmp_path):
    """Folder of two checkpoints, numbers 1 and 2."""
    checkpoints = Checkpoints(tmp_path / "state")
    for number in (0, 1, 2):
        save(checkpoints, number)
    return tmp_path / "state"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_last_two_checkpoints_are_kept_and_the_newest_is_read(two):
    assert names(two) == [PREVIOUS, FILE]
    again = Checkpoints(two)
    content = again.load()
    assert content["number"] == 2 and content["sizes"] == {("MH", 16, None): 0.4}
    assert torch.equal(content["w"], torch.full((50,), 2.0))
    assert again.written == content["where"] == "epoch 2"
    (two / FILE).unlink()  # a kill between the two moves of a write
    assert Checkpoints(two).load()["number"] == 1


def test_a_wrong_bit_anywhere_is_found_or_of_no_consequence(two, tmp_path):
    numbers = set()
    for place in range(5, (two / FILE).stat().st_size, 61):
        folder = shutil.copytree(two, tmp_path / str(place))
        damaged = bytearray((folder / FILE).read_bytes())
        damaged[place] ^= 1
        (folder / FILE).write_bytes(damaged)
        content = Checkpoints(folder).load()
        assert torch.equal(content["w"], torch.full((50,), float(content["number"])))
        numbers.add(content["number"])
    assert numbers == {1, 2}  # there is padding


def test_the_one_before_a_damaged_one_outlives_the_next_write(two, caplog):
    (two / FILE).write_bytes(b"damaged")
    again = Checkpoints(two)
    assert again.load()["number"] == 1
    assert "checkpoint.pt: damaged checkpoint" in caplog.text
    save(again, 3)
    (two / FILE).write_bytes(b"damaged")
    assert Checkpoints(two).load()["number"] == 1


def test_all_damaged_is_said_loudly_and_leaves_an_empty_folder(two, caplog):
    for name in (FILE, PREVIOUS):
        (two / name).write_bytes(b"not a checkpoint")
    assert Checkpoints(two).load() is None
    assert "TRAINING STARTS AGAIN FROM THE BEGINNING" in caplog.text
    assert names(two) == []


def test_no_object_is_unpickled(tmp_path, caplog):
    Checkpoints(tmp_path).save({"path": tmp_path}, "epoch 1")
    assert Checkpoints(tmp_path).load() is None
    assert "damaged checkpoint" in caplog.text


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    with no_room(1000), pytest.raises(OSError, match="File too large") as caught:
        save(checkpoints, 2)
    assert re.search(r"no space left on the disk, .* are free", refused_by_system(caught.value, tmp_path))
    assert names(tmp_path) == [FILE]
    assert Checkpoints(tmp_path).load()["number"] == 1


def test_one_is_due_after_each_interval(tmp_path, monkeypatch):
    clock = iter([0.0, 59.0, 60.0, 70.0, 129.0, 130.0])
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    checkpoints = Checkpoints(tmp_path, interval=60)
    assert not checkpoints.due() and checkpoints.due()
    save(checkpoints, 1)
    assert not checkpoints.due() and checkpoints.due()
