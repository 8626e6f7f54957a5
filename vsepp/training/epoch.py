"""An epoch: its steps, its validation, and whether its weights are the best so far."""

from __future__ import annotations

import math
import time

import torch

from vsepp.base.errors import VseppError
from vsepp.base.placement import upload
from vsepp.base.progress import track
from vsepp.base.spec import RunSpec, ScheduleSpec
from vsepp.evaluation.encode import encode_split
from vsepp.evaluation.metrics import RetrievalMetrics, retrieval_metrics
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.losses import Batch, first_epoch_after
from vsepp.models.precision import fp32_products_in
from vsepp.training.batches import StepPairs, epoch_batches, steps_per_epoch
from vsepp.training.data import TrainingData
from vsepp.training.distributed import ALONE, ProcessGroup
from vsepp.training.history import EpochRecord, is_collapsed
from vsepp.training.matching import Draws
from vsepp.training.state import Training, save
from vsepp.training.step import RunLoss, StepInputs, train_step

# Losses stay on the device for this many steps, so that a GPU need not wait for the host after each.
STEPS_BETWEEN_CHECKS = 50


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


def train_epoch(training: Training, epoch: int) -> EpochRecord:
    """Train for the rest of an epoch (from 0) and validate."""
    run = training.run
    if run.finetuned and training.model.encoder is not None:
        # Without gradients neither weights nor moments change, and no backward pass is paid for.
        training.model.encoder.requires_grad_(epoch >= run.schedule.encoder_frozen_epochs)
    started = training.epoch_began = time.monotonic() - training.so_far.seconds
    _steps(training, epoch)
    return training.group.from_first(lambda: _record(training, epoch, started))


def _record(training: Training, epoch: int, started: float) -> EpochRecord:
    """Validate after an epoch, keep the weights if they are the best so far, and summarise the epoch."""
    data = training.data
    trained = time.monotonic()
    metrics = _validate(training)
    best = max((record.rsum for record in training.history), default=-1.0)
    if metrics.rsum > best:
        training.best = {"model": _copied(training.model), "loss": _copied(training.loss.state)}
        training.best_epoch = epoch + 1
    ended = time.monotonic()
    return EpochRecord(
        epoch=epoch + 1,
        loss=training.so_far.loss / len(data.pairs),
        lr=learning_rate(training.run.schedule, epoch, training.so_far.steps - 1, training.so_far.steps),
        **metrics.recalls,
        seconds=ended - started,
        pairs_per_second=len(data.pairs) / (trained - started),
        collapsed=int(is_collapsed(metrics.rsum, len(data.validation.images), len(data.validation.captions))),
    )


def _copied(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Weights of a module, copied to the CPU."""
    return {
        key: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for key, value in module.state_dict().items()
    }


def _steps(training: Training, epoch: int) -> None:
    """Take the remaining steps of an epoch and add them to its record."""
    run, data, so_far = training.run, training.data, training.so_far
    total, done = steps_per_epoch(len(data.pairs), run.schedule.batch_size), so_far.steps
    batches = epoch_batches(len(data.pairs), run.schedule, run.order_seed, epoch, done)
    what = f"{run.id} epoch {epoch + 1}/{run.schedule.epochs}"
    losses: list[torch.Tensor] = []
    remaining = track(batches, total - done, what, "step")
    with fp32_products_in(run.precision, training.device):
        for step, drawn in enumerate(remaining, start=done):
            inputs = step_inputs(run, data, training.loss, drawn, epoch, training.device, training.group)
            if training.model.encoder is not None:
                training.model.encoder.train(encoder_trains(run, epoch * total, step))
            training.optimiser.learning_rate = learning_rate(run.schedule, epoch, step, total)
            losses.append(
                train_step(
                    training.model,
                    training.optimiser,
                    training.loss,
                    inputs,
                    run.schedule.clip_norm,
                    training.group,
                    loss_factor=loss_factor(run.schedule, epoch, step, total),
                    bf16=run.precision == "bf16",
                    embedded_at_once=run.schedule.embedded_at_once,
                )
            )
            due = training.checkpoints.due()
            if due or len(losses) == STEPS_BETWEEN_CHECKS or step == total - 1:
                _settle(losses, training, epoch, total)
            if due:
                save(training)


def _settle(losses: list[torch.Tensor], training: Training, epoch: int, total: int) -> None:
    """Fetch the losses of the last steps, check them, and add them up."""
    so_far, written = training.so_far, training.checkpoints.written
    for value in torch.stack(losses).double().cpu().tolist():
        so_far.steps += 1
        if not math.isfinite(value):
            rate = learning_rate(training.run.schedule, epoch, so_far.steps - 1, total)
            kept = f"the checkpoint of {written} is kept" if written else "there is no checkpoint yet"
            raise VseppError(
                f"run {training.run.id}: the loss is {value} in epoch {epoch + 1}, step {so_far.steps}, at learning rate "
                f"{rate:g}; expected a finite number. Look for features that are not finite, lower learning_rate, or lower "
                f"clip_norm; {kept}"
            )
        # One by one: an interruption must not change the last digit of the sum.
        so_far.loss += value
    losses.clear()


def step_inputs(
    run: RunSpec,
    data: TrainingData,
    loss: RunLoss,
    drawn: StepPairs,
    epoch: int,
    device: torch.device,
    group: ProcessGroup = ALONE,
) -> StepInputs:
    """Gather the features and tokens of this process's share of a batch on the device, without waiting for it."""
    loaded = drawn.pairs[group.share(len(drawn.pairs))]
    ids, lengths = data.train_captions(loaded, epoch)
    rows = {"image_rows": data.image_rows, "caption_rows": data.pairs}
    batch = Batch(
        queries=drawn.queries,
        negatives=None if drawn.negatives is None else upload(drawn.negatives, device),
        epoch=epoch,
        epochs=run.schedule.epochs,
        state=loss.state,
        **{name: upload(rows[name][drawn.pairs], device) for name in loss.needs},
    )
    draws = None
    if run.model.matcher is not None:
        of_pairs = data.image_rows[drawn.pairs], data.caption_ids[drawn.pairs]
        draws = Draws.of(*of_pairs, run.draw, epoch, device)
    return StepInputs(
        images=data.train_inputs(loaded, epoch).map(lambda values: upload(values, device)),
        ids=upload(ids, device),
        lengths=torch.from_numpy(lengths),
        pairs=len(drawn.pairs),
        batch=batch,
        draws=draws,
    )


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


def _validate(training: Training) -> RetrievalMetrics:
    """Recalls on the validation split."""
    data = training.data
    embeddings = encode_split(
        training.model, data.eval_inputs, data.captions, data.validation, training.device
    )
    ranks = retrieval_ranks(embeddings, training.device if training.device.type == "cuda" else None)
    return retrieval_metrics(ranks)
