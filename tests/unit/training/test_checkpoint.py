"""The file of a training's state: the last one counts, nothing is unpickled, a full disk keeps the one before."""

from types import SimpleNamespace

import pytest
import tiny_corpus as tiny
import torch
from processes import no_room

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.models.joint import JointEmbedding
from vsepp.training import checkpoint
from vsepp.training.checkpoint import FILE, Checkpoint, EpochRecord, Progress
from vsepp.training.step import RunLoss, Training, make_optimiser

RUN = tiny.change(tiny.FROZEN, loss=Component("info_nce"))


def training(value=0.0):
    """A training whose parameters have one value."""
    model = JointEmbedding(RUN.model, 5, 9)
    loss = RunLoss.from_run(RUN, {}, tiny.CPU)
    for parameter in (*model.parameters(), *loss.state.parameters()):
        torch.nn.init.constant_(parameter, value)
    return Training(RUN, model, loss, make_optimiser(RUN, model, loss), tiny.CPU)


def progress(epochs, steps=0):
    return Progress([EpochRecord(k + 1, *[0.5] * 11, 0) for k in range(epochs)], steps, best_epoch=epochs)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def resumed(folder):
    """Value of the parameters, and how far the training is."""
    again = training()
    return again, Checkpoint(folder).resume(again)


def test_the_last_checkpoint_is_kept_and_read(tmp_path):
    first = Checkpoint(tmp_path)
    first.save(training(1.0), progress(1))
    first.save(training(2.0), progress(1, steps=3))
    assert names(tmp_path) == [FILE] and first.reached == "epoch 2, step 3"
    again, reached = resumed(tmp_path)
    assert all((parameter == 2).all() for parameter in again.optimiser.parameters)
    assert (reached.history, reached.steps, reached.best_epoch) == (progress(1).history, 3, 1)


def test_a_damaged_file_is_named_and_no_object_unpickled(tmp_path):
    (tmp_path / FILE).write_bytes(b"not a checkpoint")
    with pytest.raises(VseppError, match=FILE):
        resumed(tmp_path)
    torch.save({"progress": tmp_path}, tmp_path / FILE)
    with pytest.raises(VseppError, match=FILE):
        resumed(tmp_path)


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path):
    saved = Checkpoint(tmp_path)
    saved.save(training(1.0), progress(1))
    with no_room(1000), pytest.raises(OSError, match="File too large"):
        saved.save(training(2.0), progress(2))
    assert names(tmp_path) == [FILE]
    assert len(resumed(tmp_path)[1].history) == 1


def test_a_checkpoint_is_due_after_each_interval(tmp_path, monkeypatch):
    clock = iter([0.0, 59.0, 60.0, 65.0, 70.0, 129.0, 130.0])
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    saved = Checkpoint(tmp_path, interval=60)
    assert not saved.due() and saved.due()
    saved.save(training(), progress(1))
    assert not saved.due() and saved.due()
