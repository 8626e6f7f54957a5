"""Trainings with a frozen first epoch, warm-up, linear decay, and AdamW's rates by parameters' names."""

import pytest
import tiny_corpus as tiny
import torch
from closeness import assert_near
from tiny_corpus import Killed, assert_same_results, history, killed_at, run_in, weights

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.losses import max_of_hinges
from vsepp.models.joint import JointEmbedding
from vsepp.training.batches import epoch_order
from vsepp.training.checkpoint import FILE

STEPS = 4  # of an epoch
RESNET = tiny.ENCODERS["resnet"]
ADAMW = Component("adamw", {"weight_decay": 0.1, "rates": [["encoder.", 0.1]], "no_decay": ["bias"]})
RUN = tiny.change(
    tiny.FINETUNED,
    encoder=RESNET,
    schedule__encoder_frozen_epochs=1,
    schedule__warmup=1 / 3,
    schedule__linear_decay=True,
    optimiser=ADAMW,
)


@pytest.fixture(scope="module")
def start(corpus, tmp_path_factory):
    """Results of the frozen run that fine-tuning starts from."""
    run = tiny.change(tiny.FROZEN, encoder=RESNET, schedule__epochs=1)
    return run_in(tmp_path_factory.mktemp("frozen"), run, tiny.data_of(run, corpus))[0]


def model_after(folder, run, corpus, start, steps):
    """The model of the checkpoint after so many steps."""
    with pytest.raises(Killed):
        run_in(folder, run, killed_at(tiny.data_of(run, corpus), steps), start, checkpoint_seconds=0)
    return torch.load(folder / "state" / FILE, weights_only=True)["model"]


def moved(one, other):
    """Names of the values that differ."""
    return {name for name in one if not torch.equal(one[name], other[name])}


def test_an_encoder_is_unchanged_after_its_frozen_epoch_and_is_trained_then(corpus, tmp_path, start):
    # The second epoch begins with a step at rate 0.
    first, epoch, later = (model_after(tmp_path, RUN, corpus, start, steps) for steps in (1, 3, 2))
    encoder = {name for name in first if name.startswith("encoder.")}
    assert moved(first, epoch) and not moved(first, epoch) & encoder
    # Neither gradients nor weight decay have touched it; its statistics stay in mode eval.
    trained = {name for name in encoder if name.endswith(("weight", "bias"))}
    assert moved(epoch, later) & encoder == trained


def test_all_is_trained_from_the_first_epoch_without_frozen_ones(corpus, tmp_path, start):
    run = tiny.change(RUN, schedule__encoder_frozen_epochs=0, schedule__warmup=0.0)
    first, second = (model_after(tmp_path, run, corpus, start, 1) for _ in range(2))
    assert {name for name in moved(first, second) if name.startswith("encoder.")}


@pytest.mark.parametrize("of", ["rate", "loss"])
def test_a_training_cut_short_ends_bit_identical_with_one_that_was_not(corpus, tmp_path, start, of):
    run = tiny.change(RUN, schedule__warmup_of=of)
    data = tiny.data_of(run, corpus)
    whole, _ = run_in(tmp_path / "whole", run, data, start)
    # Within the frozen epoch, the warm-up and the decay.
    for call in (3, 4, 4):
        model_after(tmp_path / "cut", run, corpus, start, call)
    out, facts = run_in(tmp_path / "cut", run, killed_at(data, 1), start)
    assert_same_results(whole, out)
    assert facts["epochs"] == 3


def test_the_history_has_the_rate_of_each_epochs_last_step(corpus, tmp_path):
    changes = {"schedule__warmup": 0.5, "schedule__linear_decay": True, "schedule__drop_at": 1.0}
    run = tiny.change(tiny.FROZEN, **changes)
    out, _ = run_in(tmp_path, run, tiny.data_of(run, corpus))
    # Up over steps 0 to 5, and down over steps 6 to 11.
    expected = [0.01 * 3 / 6, 0.01 * 5 / 6, 0.01 * 1 / 6]
    assert [float(row["lr"]) for row in history(out)] == pytest.approx(expected)


def test_a_warm_up_of_the_loss_scales_the_gradient_before_it_is_clipped(corpus, tmp_path):
    """One epoch written out with torch's plain AdamW, no code of the loop."""
    changes = {"epochs": 1, "warmup": 1.0, "warmup_of": "loss", "clip_norm": 3.0}
    run = tiny.change(tiny.FROZEN, **{f"schedule__{key}": value for key, value in changes.items()})
    run = tiny.change(run, optimiser=Component("adamw", {"weight_decay": 0.1}))
    data = tiny.data_of(run, corpus)
    out, _ = run_in(tmp_path, run, data)
    torch.manual_seed(run.init_seed)
    model = JointEmbedding(run.model, data.images.dim, len(data.vocabulary))
    adamw = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1, fused=False, foreach=False)
    order, total, clipped = epoch_order(len(data.pairs), run.order_seed, 0), 0.0, []
    for step in range(STEPS):
        pairs = order[16 * step : 16 * step + 16]
        ids, lengths = data.captions.all.eval(data.pairs[pairs])
        images = model.embed_images(data.images.train(data.pairs[pairs], 0))
        captions = model.embed_captions(torch.from_numpy(ids), torch.from_numpy(lengths))
        loss = max_of_hinges.loss(images @ captions.T)
        adamw.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum((p.grad**2).sum() for p in model.parameters()))
        clipped.append(bool(step / STEPS * norm > 3))
        for parameter in model.parameters():
            parameter.grad *= 3 / norm if clipped[-1] else step / STEPS
        adamw.step()
        total += loss.item()
    assert set(clipped) == {False, True}
    for key, value in weights(out).items():
        assert_near(value.flatten(), model.state_dict()[key].flatten(), 1e-3)
    assert float(history(out)[0]["loss"]) == pytest.approx(total / len(order), rel=1e-4)


def test_a_rate_for_an_encoder_that_is_not_in_the_model_is_refused(corpus, tmp_path):
    run = tiny.change(tiny.FROZEN, optimiser=ADAMW)
    with pytest.raises(VseppError, match=r"rates: 'encoder\.' is about no trained parameter"):
        run_in(tmp_path, run, tiny.data_of(run, corpus))
