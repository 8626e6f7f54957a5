"""The rate of every step, the warm-up of the loss, and epochs in which an encoder is frozen."""

import pytest
import tiny_corpus as tiny
import torch
from tiny_corpus import Killed, killed_at, run_in

from vsepp.base.run_spec import ScheduleSpec
from vsepp.base.spec import Component
from vsepp.training.checkpoint import FILE
from vsepp.training.schedule import encoder_trains, learning_rate, loss_factor


def schedule(epochs, drop_at=1.0, **more):
    values = {"batch_size": 128, "learning_rate": 2e-4, "drop_factor": 0.1, "clip_norm": 2.0, **more}
    return ScheduleSpec(epochs=epochs, drop_at=drop_at, **values)


def every_step(function, spec, steps):
    return [function(spec, epoch, step, steps) for epoch in range(spec.epochs) for step in range(steps)]


@pytest.mark.parametrize(
    ("epochs", "drop_at", "first_low"),
    [(30, 0.5, 15), (12, 2 / 3, 8), (12, 0.6667, 8), (1, 0.5, 1), (15, 1.0, 15), (4, 0.0, 0)],
)
def test_the_rate_falls_after_its_fraction_of_the_epochs(epochs, drop_at, first_low):
    spec = schedule(epochs, drop_at)
    # The very numbers: a factor of 1 must not cost a digit.
    expected = [2e-4] * 3 * first_low + [2e-4 * 0.1] * 3 * (epochs - first_low)
    assert every_step(learning_rate, spec, 3) == expected
    assert every_step(loss_factor, spec, 3) == [1.0] * 3 * epochs


@pytest.mark.parametrize(
    ("steps", "spec", "tenths"),
    [
        # X-VLM: up over a tenth of 20 steps, then down to 0, which the step after the last would have.
        (2, schedule(10, warmup=0.1, linear_decay=True), [0, 5, *(10 * left / 18 for left in range(18, 0, -1))]),
        # The text of VSE∞: one epoch, the second, and a drop by ten.
        (5, schedule(4, 0.5, warmup=1 / 4, encoder_frozen_epochs=1), [10] * 5 + [0, 2, 4, 6, 8] + [1] * 10),
        (2, schedule(2, 0.5, linear_decay=True), [10, 7.5, 0.5, 0.25]),
        (2, schedule(2, warmup=1.0, linear_decay=True), [0, 2.5, 5, 7.5]),
        (2, schedule(1, warmup=1.0, linear_decay=True, encoder_frozen_epochs=1), [10, 10]),
    ],
)  # fmt: skip
def test_the_rate_of_every_step_is_that_worked_out_by_hand(steps, spec, tenths):
    assert every_step(learning_rate, spec, steps) == pytest.approx([2e-5 * value for value in tenths])
    assert set(every_step(loss_factor, spec, steps)) == {1.0}


@pytest.mark.parametrize("steps", [1133, 4426])
def test_the_loss_is_warmed_up_over_one_of_25_epochs(steps):
    """The code of VSE∞, on Flickr30K and on COCO: steps 0, 1, ... of the second epoch over their number."""
    spec = schedule(25, 0.6, warmup=0.04, warmup_of="loss", encoder_frozen_epochs=1)
    factors = every_step(loss_factor, spec, steps)
    assert factors == [1.0] * steps + [step / steps for step in range(steps)] + [1.0] * 23 * steps
    assert every_step(learning_rate, spec, steps) == [2e-4] * 15 * steps + [2e-4 * 0.1] * 10 * steps


@pytest.mark.parametrize(("steps_per_epoch", "every"), [(7, 3), (4, 10), (6, 6), (5, 1)])
def test_legacy_mode_is_that_of_a_loop_that_validates_every_so_many_steps(steps_per_epoch, every):
    run, iterations = tiny.change(tiny.LEGACY, legacy_steps=every), 0
    for epoch in range(5):
        training = True
        for step in range(steps_per_epoch):
            assert encoder_trains(run, epoch * steps_per_epoch, step) is training
            iterations += 1
            if iterations % every == 0:
                training = False


def test_an_encoder_is_unchanged_after_its_frozen_epoch_and_is_trained_then(corpus, tmp_path):
    resnet = tiny.ENCODERS["resnet"]
    frozen = tiny.change(tiny.FROZEN, encoder=resnet, schedule__epochs=1)
    start, _ = run_in(tmp_path / "start", frozen, tiny.data_of(frozen, corpus))
    run = tiny.change(
        tiny.FINETUNED,
        encoder=resnet,
        schedule__encoder_frozen_epochs=1,
        schedule__warmup=1 / 3,
        optimiser=Component("adamw", {"weight_decay": 0.1}),
    )
    states = []
    # After steps 1, 4 and 6; the second epoch begins with a step at rate 0.
    for steps in (1, 3, 2):
        with pytest.raises(Killed):
            data = killed_at(tiny.data_of(run, corpus), steps)
            run_in(tmp_path / "tuned", run, data, start, checkpoint_seconds=0)
        states.append(torch.load(tmp_path / "tuned" / "state" / FILE, weights_only=True)["model"])

    def moved(before, after):
        return {name for name in before if not torch.equal(before[name], after[name])}

    first, epoch, later = states
    encoder = {name for name in first if name.startswith("encoder.")}
    assert moved(first, epoch) and not moved(first, epoch) & encoder
    # Neither gradients nor weight decay have touched it; its statistics stay in mode eval.
    assert moved(epoch, later) & encoder == {name for name in encoder if name.endswith(("weight", "bias"))}
