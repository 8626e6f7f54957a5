import itertools
import math
import shutil
import types

import pytest
import torch
from processes import no_room

from vsepp.errors import VseppError
from vsepp.training import checkpoint
from vsepp.training.checkpoint import FILE, PREVIOUS, Checkpoints

SPEC = {"run": {"loss": {"margin": 0.2}, "splits": ["train"]}, "code": "abc"}


def save(checkpoints, number, best=0):
    """A checkpoint whose content tells its number."""
    checkpoints.save(
        {"number": number, "w": torch.full((50,), float(number))},
        best,
        {"w": torch.full((50,), float(best))},
        f"epoch {number}",
    )


def number(folder, identity=SPEC):
    content = Checkpoints(folder, identity).load()
    return None if content is None else content["number"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_checkpoint_is_read_back(tmp_path):
    content = {
        "model": {"w": torch.rand(3, 2)},
        "means": [torch.rand(2)],
        "history": [{"loss": 0.1}],
        "sizes": {("max_of_hinges", 16, None): 0.4},
    }
    best = {"w": torch.rand(3, 2)}
    Checkpoints(tmp_path / "state", SPEC).save(content, 2, best, "epoch 3, step 4")
    again = Checkpoints(tmp_path / "state", SPEC)
    read = again.load()
    assert read["history"] == content["history"] and read["sizes"] == content["sizes"]
    assert torch.equal(read["model"]["w"], content["model"]["w"])
    assert torch.equal(read["means"][0], content["means"][0])
    assert read["best_epoch"] == 2 and torch.equal(read["best"]["w"], best["w"])
    assert again.written == "epoch 3, step 4"


def test_the_last_two_checkpoints_are_kept_and_the_snapshots_that_they_name(tmp_path):
    checkpoints = Checkpoints(tmp_path, SPEC)
    save(checkpoints, 1)
    assert names(tmp_path) == [FILE]
    for at, best in ((2, 2), (3, 2), (4, 4), (5, 5)):
        save(checkpoints, at, best)
    assert names(tmp_path) == ["best-0004.pt", "best-0005.pt", PREVIOUS, FILE]
    save(checkpoints, 6, 5)
    assert names(tmp_path) == ["best-0005.pt", PREVIOUS, FILE]
    assert number(tmp_path) == 6
    (tmp_path / FILE).unlink()
    assert number(tmp_path) == 5


def test_a_wrong_bit_anywhere_is_found_or_of_no_consequence(tmp_path):
    whole = tmp_path / "whole"
    checkpoints = Checkpoints(whole, SPEC)
    save(checkpoints, 1, 1)
    save(checkpoints, 2, 1)
    found = []
    for place in range(5, (whole / FILE).stat().st_size, 61):
        shutil.copytree(whole, tmp_path / str(place))
        flip(tmp_path / str(place) / FILE, place)
        content = Checkpoints(tmp_path / str(place), SPEC).load()
        assert torch.equal(content["w"], torch.full((50,), float(content["number"])))
        found.append(content["number"])
    assert set(found) == {1, 2}  # there is padding


@pytest.mark.parametrize("harm", ["cut", "missing", "other"])
def test_a_checkpoint_without_its_best_snapshot_falls_back(tmp_path, caplog, harm):
    checkpoints = Checkpoints(tmp_path, SPEC)
    save(checkpoints, 1, 1)
    save(checkpoints, 2, 2)
    best = tmp_path / "best-0002.pt"
    if harm == "cut":
        best.write_bytes(best.read_bytes()[:-100])
    elif harm == "missing":
        best.unlink()
    else:
        best.write_bytes((tmp_path / "best-0001.pt").read_bytes())
    read = Checkpoints(tmp_path, SPEC).load()
    assert read["number"] == 1 and torch.equal(read["best"]["w"], torch.full((50,), 1.0))
    assert "best-0002.pt" in caplog.text


def test_after_a_fall_the_good_one_outlives_the_next_write(tmp_path):
    checkpoints = Checkpoints(tmp_path, SPEC)
    for at in (1, 2):
        save(checkpoints, at, at)
    (tmp_path / FILE).write_bytes(b"damaged")
    again = Checkpoints(tmp_path, SPEC)
    assert again.load()["number"] == 1
    save(again, 3, 3)
    (tmp_path / FILE).write_bytes(b"damaged")
    assert number(tmp_path) == 1


def test_all_damaged_is_said_loudly_and_leaves_an_empty_folder(tmp_path, caplog):
    checkpoints = Checkpoints(tmp_path, SPEC)
    for at in (1, 2):
        save(checkpoints, at, at)
    for name in (FILE, PREVIOUS):
        (tmp_path / name).write_bytes(b"not a checkpoint")
    assert number(tmp_path) is None
    assert "TRAINING STARTS AGAIN FROM THE BEGINNING" in caplog.text
    assert names(tmp_path) == []


def test_no_object_is_unpickled(tmp_path, caplog):
    Checkpoints(tmp_path, SPEC).save({"path": tmp_path}, 0, {}, "epoch 1")
    assert number(tmp_path) is None
    assert "damaged checkpoint" in caplog.text


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path):
    checkpoints = Checkpoints(tmp_path, SPEC, size=123456)
    save(checkpoints, 1)
    with (
        no_room(1000),
        pytest.raises(VseppError, match=r"no space for a checkpoint .*123\.46 kB are needed"),
    ):
        save(checkpoints, 2)
    assert names(tmp_path) == [FILE]
    assert number(tmp_path) == 1


def ticking(monkeypatch, seconds):
    """A clock that goes on by so much at every look: a write, two looks, takes that long."""
    ticks = itertools.count(step=seconds)
    monkeypatch.setattr(checkpoint, "time", types.SimpleNamespace(monotonic=lambda: next(ticks)))


def test_writing_stays_under_half_a_percent_of_the_time(tmp_path, monkeypatch):
    ticking(monkeypatch, 1.0)
    checkpoints = Checkpoints(tmp_path, SPEC)
    written = 0
    for look in range(1, 6001):
        if checkpoints.due():
            save(checkpoints, look)
            written += 1
            assert checkpoints.share <= 0.005 + 1 / look or written == 1
    # Nothing was known of the first, so it came when the least time had passed.
    assert 20 <= written <= 31
    assert 0.003 < checkpoints.share <= 0.0051


def test_quick_writes_keep_the_least_time_between_them(tmp_path, monkeypatch):
    ticking(monkeypatch, 0.25)
    checkpoints = Checkpoints(tmp_path, SPEC, interval=100)
    looks = []
    for look in range(1, 1901):
        if checkpoints.due():
            save(checkpoints, look)
            looks.append(look)
    assert len(looks) == 4  # of 475 seconds and a little
    assert all(399 <= later - sooner <= 401 for sooner, later in itertools.pairwise(looks))


def test_after_the_last_epoch_only_the_cost_counts(tmp_path, monkeypatch):
    ticking(monkeypatch, 1.0)
    checkpoints = Checkpoints(tmp_path, SPEC)
    assert not checkpoints.due(last=True)  # 20 ms are much after one second
    assert next(look for look in itertools.count(2) if checkpoints.due(last=True)) == 4
    assert not checkpoints.due()


def test_the_interval_can_ask_for_all_or_none(tmp_path):
    assert Checkpoints(tmp_path, SPEC, interval=0, size=10**15).due()
    never = Checkpoints(tmp_path, SPEC, interval=math.inf)
    assert not never.due() and not never.due(last=True)
