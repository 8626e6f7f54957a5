"""What changes from epoch to epoch: the learning rate and the loss. Epochs count from 0."""

from __future__ import annotations

import math

from vsepp.spec import LossSpec, ScheduleSpec

CURRICULUM_STARTS_WITH = "sum_of_hinges"


def learning_rate(schedule: ScheduleSpec, epoch: int) -> float:
    """Adam's rate in an epoch: multiplied by `drop_factor` from `drop_at` of the epochs on (Section 3.2)."""
    dropped = epoch >= _boundary(schedule.drop_at, schedule.epochs)
    return schedule.learning_rate * schedule.drop_factor if dropped else schedule.learning_rate


def loss_name(loss: LossSpec, epoch: int, epochs: int) -> str:
    """Loss of an epoch: SH during the curriculum's part of the epochs, then the run's own (Section 3.5)."""
    return CURRICULUM_STARTS_WITH if epoch < _boundary(loss.curriculum, epochs) else loss.name


def _boundary(fraction: float, epochs: int) -> int:
    """First epoch after a fraction of all epochs, the nearest one, halves up.

    A fraction such as 2/3 of 12 epochs must give 8 whichever way its last digit was rounded.
    """
    return math.floor(fraction * epochs + 0.5)


def legacy_training_mode(before: int, step: int, every: int) -> bool:
    """Whether the released code is still in training mode: no validation yet in this epoch.

    Parameters
    ----------
    before
        Steps of all epochs before this one.
    step
        Of this epoch, from 0.
    every
        Steps between two validations, counted over the whole training.
    """
    return (before + step) // every == before // every
