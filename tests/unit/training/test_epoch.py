import pytest
import tiny_corpus as tiny

from vsepp.spec import ScheduleSpec
from vsepp.training.epoch import encoder_trains, learning_rate


def schedule(epochs, drop_at):
    return ScheduleSpec(
        batch_size=128, epochs=epochs, learning_rate=2e-4, drop_at=drop_at, drop_factor=0.1, clip_norm=2.0
    )


@pytest.mark.parametrize(
    ("epochs", "drop_at", "first_low"),
    [(30, 0.5, 15), (12, 2 / 3, 8), (12, 0.6667, 8), (2, 0.5, 1), (1, 0.5, 1), (15, 1.0, 15), (4, 0.0, 0)],
)
def test_the_rate_falls_after_its_fraction_of_the_epochs(epochs, drop_at, first_low):
    rates = [learning_rate(schedule(epochs, drop_at), epoch) for epoch in range(epochs)]
    assert rates == pytest.approx([2e-4] * first_low + [2e-5] * (epochs - first_low))


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
