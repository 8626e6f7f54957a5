"""What changes from step to step: the learning rate, the factor of the loss, and the mode of an encoder inside the model."""

from __future__ import annotations

from vsepp.base.run_spec import RunSpec, ScheduleSpec
from vsepp.losses.batch import first_epoch_after


def learning_rate(schedule: ScheduleSpec, epoch: int, step: int, steps: int) -> float:
    """The learning rate of a step (from 0) of an epoch (from 0) of so many steps.

    It is multiplied by `drop_factor` after the fraction `drop_at` of the epochs (Section 3.2), and where the schedule says so by the
    factors of warm-up and linear decay.
    """
    dropped = epoch >= first_epoch_after(schedule.drop_at, schedule.epochs)
    rate = schedule.learning_rate * schedule.drop_factor if dropped else schedule.learning_rate
    if schedule.warmup_of == "rate":
        rate *= _warmup(schedule, epoch, step, steps)
    if schedule.linear_decay:
        _, warm = _warmup_steps(schedule, steps)
        now, total = epoch * steps + step, schedule.epochs * steps
        rate *= (total - now) / (total - warm) if now > warm else 1.0
    return rate


def loss_factor(schedule: ScheduleSpec, epoch: int, step: int, steps: int) -> float:
    """Factor of the loss in a step; arguments as for `learning_rate`."""
    return _warmup(schedule, epoch, step, steps) if schedule.warmup_of == "loss" else 1.0


def _warmup(schedule: ScheduleSpec, epoch: int, step: int, steps: int) -> float:
    """Factor of the warm-up in a step: rising linearly from 0, and 1 before and after."""
    first, end = _warmup_steps(schedule, steps)
    now = epoch * steps + step
    return (now - first) / (end - first) if first <= now < end else 1.0


def _warmup_steps(schedule: ScheduleSpec, steps: int) -> tuple[int, int]:
    """The first step of the warm-up and the first step after it, counted over the whole training."""
    first = schedule.encoder_frozen_epochs * steps
    return first, first + round(schedule.warmup * schedule.epochs * steps)


def encoder_trains(run: RunSpec, before: int, step: int) -> bool:
    """Whether an encoder inside the model is in training mode in a step, as in the released code.

    The paper does not mention the mode. Branch `master` of the released code enters training mode at the start of an epoch
    and leaves it at the first validation, which comes every 500 steps of the whole training: `legacy-master`. Branches
    `python3` and `pytorch4.1` enter it in every step: `legacy-python3`. Differs from the code: fine-tuning counts its steps
    from its own start.

    Parameters
    ----------
    run
        Its `encoder_mode` and `legacy_steps`, the steps between two validations.
    before, step
        Steps of the epochs before, and of this epoch so far.
    """
    validated = (before + step) // run.legacy_steps > before // run.legacy_steps
    return run.encoder_mode == "legacy-python3" or (run.encoder_mode == "legacy-master" and not validated)
