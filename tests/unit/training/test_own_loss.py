"""A loss of another package is trained, clipped, checkpointed and told what it needs; see `own_loss`."""

import dataclasses

import own_loss
import pytest
import tiny_corpus as tiny
import torch
from safetensors.torch import load_file
from tiny_corpus import Killed, assert_same_results, killed_at, run_in

from vsepp.losses import Batch
from vsepp.models.joint import JointEmbedding
from vsepp.training.batches import epoch_batches, load_batch
from vsepp.training.checkpoint import FILE
from vsepp.training.step import RunLoss, Training, make_optimiser, take_step

pytestmark = pytest.mark.usefixtures("package")


def last_state(folder):
    """What the loss had of its own when the last checkpoint was written."""
    return torch.load(folder / "state" / FILE, weights_only=True)["loss"]


@pytest.mark.resume
def test_a_training_cut_short_ends_bit_identical_with_one_that_was_not(corpus, tmp_path):
    data = tiny.data_of(own_loss.RUN, corpus)
    options = {"folders": own_loss.folders(corpus), "checkpoint_seconds": 0}
    whole, _ = run_in(tmp_path / "whole", own_loss.RUN, data, **options)
    for seed, call in enumerate((3, 4, 4)):
        torch.manual_seed(seed)
        with pytest.raises(Killed):
            run_in(tmp_path / "cut", own_loss.RUN, killed_at(data, call), **options)
        seen = last_state(tmp_path / "cut")["mix"]
    out, _ = run_in(tmp_path / "cut", own_loss.RUN, data, **options)
    assert_same_results(whole, out)
    found, expected = (last_state(tmp_path / name) for name in ("cut", "whole"))
    assert found.keys() == expected.keys() == {"mix", "weight", "owner"}
    assert all(torch.equal(value, expected[key]) for key, value in found.items())
    assert not torch.equal(seen, expected["mix"])
    published = load_file(out / "loss.safetensors")
    assert published.keys() == expected.keys()
    assert not any(name.startswith("loss.") for name in load_file(out / "model.safetensors"))
    assert (out / "loss.safetensors").read_bytes() == (whole / "loss.safetensors").read_bytes()


def test_its_parameter_is_drawn_under_the_runs_seed_and_clipped_with_the_models(corpus):
    clip_norm = 0.5
    run = tiny.change(own_loss.RUN, schedule__clip_norm=clip_norm, schedule__batch_size=16)
    data = tiny.data_of(run, corpus)
    found = {}
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        model = JointEmbedding(own_loss.RUN.model, data.images.dim, len(data.vocabulary))
        loss = RunLoss.from_run(own_loss.RUN, own_loss.folders(corpus), tiny.CPU)
        started = loss.state.mix.item()
        assert found.setdefault(seed, started) == started
    assert found[0] != found[1]
    training = Training(run, model, loss, make_optimiser(run, model, loss), tiny.CPU)
    drawn = next(epoch_batches(len(data.pairs), run.schedule, 0, 1))
    take_step(training, load_batch(training, data, drawn, 1), 0.01)
    gradients = [parameter.grad for parameter in (*model.parameters(), loss.state.mix)]
    assert gradients[-1].abs() > 1e-3
    norm = torch.linalg.vector_norm(torch.cat([gradient.flatten() for gradient in gradients]))
    assert norm.item() == pytest.approx(clip_norm, rel=1e-4)
    assert abs(loss.state.mix.item() - started) == pytest.approx(0.01, rel=1e-3), "the first step of Adam"


def test_a_loss_is_told_what_it_needs_and_no_more(corpus):
    data = tiny.data_of(own_loss.RUN, corpus)
    drawn = next(
        epoch_batches(
            len(data.pairs), dataclasses.replace(own_loss.RUN.schedule, batch_size=16, negative_set=5), 0, 2
        )
    )
    told = {}
    for run in (tiny.FROZEN, own_loss.RUN):
        loss = RunLoss.from_run(run, own_loss.folders(corpus), tiny.CPU)
        training = Training(run, None, loss, None, tiny.CPU)
        told[run.loss.name] = load_batch(training, data, drawn, 2).known
    found = told[own_loss.RUN.loss.name]
    assert found.image_rows.tolist() == data.image_rows[drawn.pairs].tolist()
    assert found.caption_rows.tolist() == data.pairs[drawn.pairs].tolist()
    assert (found.queries, found.negatives.tolist()) == (16, drawn.negatives.tolist())
    assert (found.epoch, found.epochs) == (2, 3) and isinstance(found.state, torch.nn.Module)
    plain = told["max_of_hinges"]
    assert plain == Batch(16, plain.negatives, epoch=2, epochs=3, state=plain.state)
    assert not plain.state.state_dict()
