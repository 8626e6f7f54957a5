"""Train a run: epochs of steps, validation, the best snapshot, and going on after a kill."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsepp.errors import VseppError
from vsepp.evaluation.encode import encode_split
from vsepp.evaluation.metrics import RetrievalMetrics, retrieval_metrics
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.models.encoders import load_encoder
from vsepp.models.joint import ENCODER_PREFIX, JointEmbedding, read_weights
from vsepp.progress import track
from vsepp.provenance.publish import publish
from vsepp.spec import RunSpec, to_json
from vsepp.training.adam import Adam
from vsepp.training.batches import Batch, epoch_batches, steps_per_epoch
from vsepp.training.checkpoint import load_checkpoint, random_states, restore_random_states, save_checkpoint
from vsepp.training.data import TrainingData
from vsepp.training.history import EpochRecord, chance_rsum, is_collapsed, recalls, write_history
from vsepp.training.schedule import learning_rate, legacy_training_mode, loss_name
from vsepp.training.step import (
    LossFunction,
    StepInputs,
    collapsed_loss,
    loss_function,
    make_optimiser,
    train_step,
)

log = logging.getLogger("vsepp")

# Losses stay on the device for so many steps, so that a GPU need not wait for the host after each.
STEPS_BETWEEN_CHECKS = 50
# Validation images and captions whose scores tell whether the model has collapsed.
SPREAD_OVER = 256


@dataclass
class Training:
    """All that changes while a run trains."""

    run: RunSpec
    data: TrainingData
    device: torch.device
    model: JointEmbedding
    optimiser: Adam
    history: list[EpochRecord] = field(default_factory=list)
    best: dict[str, torch.Tensor] = field(default_factory=dict)
    """Weights of the best epoch so far, on the CPU."""
    best_epoch: int = 0
    collapsed_losses: dict[tuple, float] = field(default_factory=dict)
    """Size of a batch → its loss if all embeddings were equal; follows from the rest, so it is not saved."""


def train(
    run: RunSpec,
    data: TrainingData,
    out: Path,
    state: Path,
    device: torch.device,
    init_from: Path | None = None,
) -> dict[str, Any]:
    """Train a run, select the snapshot with the best sum of recalls on validation, and publish it.

    A training that was killed goes on from the last epoch that it finished and ends with the same weights as
    one that was not, bit for bit on a CPU.

    Parameters
    ----------
    run
        What to train.
    data
        Pairs, features and validation split, from `load_training_data`.
    out
        Folder of the results: `model.safetensors` (weights of the best epoch; those of a frozen encoder are
        not in it), `history.csv`, `config.json` (the run's spec).
    state
        Folder that outlives a kill. It is left to the caller to remove.
    device
        Where to compute.
    init_from
        Folder of the frozen run whose best snapshot a fine-tuned run starts from, with a new Adam.

    Returns
    -------
    dict
        Facts for the manifest: best epoch and its rsum, epochs, parameters, pairs, collapsed epochs, speed.

    Raises
    ------
    VseppError
        When the loss is no longer finite (the last checkpoint stays), when artefacts do not fit the run, and
        when `init_from` is missing or given to a run that starts from nothing.
    """
    training = _start(run, data, device, init_from)
    _go_on(training, state)
    for epoch in range(len(training.history), run.schedule.epochs):
        training.history.append(_epoch(training, epoch))
        _report(training)
        save_checkpoint(state, _checkpoint(training))
    return _finish(training, out, state)


def _start(run: RunSpec, data: TrainingData, device: torch.device, init_from: Path | None) -> Training:
    """A training before its first step."""
    if run.finetuned and init_from is None:
        raise VseppError(
            f"run {run.id}: starts from {run.finetune_from}, but no folder of that run was given"
        )
    if not run.finetuned and init_from is not None:
        raise VseppError(f"run {run.id}: is not fine-tuned from another run, but was given {init_from}")
    encoder = None
    if run.live_encoder:
        encoder = load_encoder(run.encoder, data.encoder_folder).requires_grad_(run.finetuned).eval()
    # The weights depend on this seed alone, whatever was drawn before.
    torch.manual_seed(run.init_seed)
    model = JointEmbedding(run.model, data.feature_dim, data.vocabulary_size, encoder)
    if init_from is not None:
        path = init_from / "model.safetensors"
        model.load_weights(read_weights(path), path)
    model.to(device)
    return Training(run, data, device, model, make_optimiser(model, run.schedule.learning_rate))


def _go_on(training: Training, state: Path) -> None:
    """Take up the last checkpoint, if there is one."""
    saved = load_checkpoint(state, to_json(training.run))
    if saved is None:
        return
    training.model.load_state_dict(saved["model"])
    training.optimiser.load_state_dict(saved["optimiser"])
    training.history = [EpochRecord(**record) for record in saved["history"]]
    training.best, training.best_epoch = saved["best"], saved["best_epoch"]
    restore_random_states(saved["random"], training.device)
    log.info("%s: goes on after epoch %d", training.run.id, len(training.history))


def _checkpoint(training: Training) -> dict[str, Any]:
    return {
        "run": to_json(training.run),
        "model": training.model.state_dict(),
        "optimiser": training.optimiser.state_dict(),
        "history": [asdict(record) for record in training.history],
        "best": training.best,
        "best_epoch": training.best_epoch,
        "random": random_states(training.device),
    }


def _epoch(training: Training, epoch: int) -> EpochRecord:
    """Train for one epoch (from 0) and validate."""
    run, data = training.run, training.data
    rate = learning_rate(run.schedule, epoch)
    training.optimiser.learning_rate = rate
    started = time.monotonic()
    loss, if_collapsed = _steps(training, epoch, rate)
    trained = time.monotonic()
    metrics, spread = _validate(training)
    n_images = len(data.validation.images)
    best = max((record.rsum for record in training.history), default=-1.0)
    if metrics.rsum > best:
        training.best = {
            key: value.detach().cpu().clone() for key, value in training.model.state_dict().items()
        }
        training.best_epoch = epoch + 1
    return EpochRecord(
        epoch=epoch + 1,
        loss=loss,
        lr=rate,
        **recalls(metrics),
        seconds=time.monotonic() - started,
        pairs_per_second=len(data.pairs) / (trained - started),
        collapsed=int(
            is_collapsed(loss, if_collapsed, spread / run.loss.margin, metrics.rsum / chance_rsum(n_images))
        ),
    )


def _steps(training: Training, epoch: int, rate: float) -> tuple[float, float]:
    """Take the steps of an epoch; mean loss per query, and what it would be if all embeddings were equal."""
    run, data = training.run, training.data
    loss = loss_function(run.loss, loss_name(run.loss, epoch, run.schedule.epochs))
    total = steps_per_epoch(len(data.pairs), run.schedule.batch_size)
    batches = epoch_batches(
        len(data.pairs),
        run.schedule.batch_size,
        order_seed=run.order_seed,
        epoch=epoch,
        negative_set=run.loss.negative_set,
    )
    what = f"{run.id} epoch {epoch + 1}/{run.schedule.epochs}"
    losses: list[torch.Tensor] = []
    checked, if_collapsed = 0.0, 0.0
    for step, batch in enumerate(track(batches, total, what, "step")):
        _set_encoder_mode(training, epoch * total, step)
        inputs = step_inputs(data, batch, epoch, training.device, mask=run.loss.mask_same_image)
        losses.append(train_step(training.model, training.optimiser, loss, inputs, run.schedule.clip_norm))
        if_collapsed += _if_collapsed(training, loss, inputs, epoch)
        if len(losses) == STEPS_BETWEEN_CHECKS or step == total - 1:
            values = torch.stack(losses).double().cpu()
            _check_finite(values, training, epoch, step + 1 - len(losses), rate)
            checked += float(values.sum())
            losses.clear()
    return checked / len(data.pairs), if_collapsed / len(data.pairs)


def step_inputs(
    data: TrainingData, batch: Batch, epoch: int, device: torch.device, *, mask: bool = False
) -> StepInputs:
    """Gather the features and tokens of a batch on the device."""
    ids, lengths = data.tokens.padded(data.pairs[batch.pairs])
    negatives = None if batch.negatives is None else torch.from_numpy(batch.negatives).to(device)
    return StepInputs(
        images=data.train_inputs(batch.pairs, epoch).to(device),
        ids=torch.from_numpy(ids).to(device),
        lengths=torch.from_numpy(lengths),
        queries=batch.queries,
        negatives=negatives,
        image_of=torch.from_numpy(data.image_of[batch.pairs]).to(device) if mask else None,
    )


def _set_encoder_mode(training: Training, before: int, step: int) -> None:
    """Put an encoder of the model into training mode where the released code has it, else into evaluation.

    Differs from the paper: the paper does not say. The released code enters training mode at the start of an
    epoch and leaves it at the first validation, which comes every 500 steps of the whole training: `legacy`.
    Departs from the code in that fine-tuning counts its steps from its own start.

    Parameters
    ----------
    training
        Its model's encoder is switched.
    before, step
        Steps of the epochs before, and of this epoch so far.
    """
    encoder = training.model.encoder
    if encoder is not None:
        legacy = training.run.encoder_mode == "legacy"
        encoder.train(legacy and legacy_training_mode(before, step, training.run.legacy_steps))


def _if_collapsed(training: Training, loss: LossFunction, inputs: StepInputs, epoch: int) -> float:
    """Loss of the step if all embeddings were equal; batches of one size share it."""
    negatives = None if inputs.negatives is None else len(inputs.negatives)
    name = loss_name(training.run.loss, epoch, training.run.schedule.epochs)
    size = (name, len(inputs.lengths), inputs.queries, negatives)
    if size not in training.collapsed_losses:
        training.collapsed_losses[size] = collapsed_loss(loss, inputs)
    return training.collapsed_losses[size]


def _check_finite(losses: torch.Tensor, training: Training, epoch: int, first: int, rate: float) -> None:
    wrong = torch.nonzero(~torch.isfinite(losses)).flatten().tolist()
    if wrong:
        kept = f"the state after epoch {epoch} is kept" if epoch else "no epoch was finished"
        raise VseppError(
            f"run {training.run.id}: the loss is {losses[wrong[0]].item()} in epoch {epoch + 1}, step "
            f"{first + wrong[0] + 1}, at learning rate {rate:g}; expected a finite number. Look for features "
            f"that are not finite, lower learning_rate, or lower clip_norm; {kept}"
        )


def _validate(training: Training) -> tuple[RetrievalMetrics, float]:
    """Recalls on the validation split, and the deviation of the scores of its first items."""
    data = training.data
    try:
        found = encode_split(
            training.model, data.eval_inputs, data.tokens, data.validation, device=training.device
        )
    except VseppError as error:
        epoch = len(training.history) + 1
        raise VseppError(f"run {training.run.id}: validation after epoch {epoch}: {error}") from error
    ranks = retrieval_ranks(
        found.image_embeddings, found.caption_embeddings, found.caption_to_image, found.similarity
    )
    some = (found.image_embeddings[:SPREAD_OVER], found.caption_embeddings[:SPREAD_OVER])
    spread = training.model.scores(*(torch.from_numpy(embeddings) for embeddings in some)).std(correction=0)
    return retrieval_metrics(ranks), float(spread)


def _report(training: Training) -> None:
    """Log a line for the epoch, and advice where the model has collapsed."""
    run, last = training.run, training.history[-1]
    log.info(
        "%s: epoch %d/%d  loss %.4f  lr %g  caption R@1 %.1f  image R@1 %.1f  rsum %.1f%s  %.0f pairs/s",
        run.id, last.epoch, run.schedule.epochs, last.loss, last.lr, last.i2t_r1, last.t2i_r1, last.rsum,
        " (best)" if training.best_epoch == last.epoch else "", last.pairs_per_second,
    )  # fmt: skip
    if last.collapsed:
        log.warning(
            "%s: collapsed in epoch %d: the mean loss, %.4f a pair, is that of embeddings that are all equal "
            "(2 × margin for MH), they nearly are, and it ranks like chance. It may recover; if it does not: begin with SH "
            "(curriculum), lower learning_rate, or check the normalisation of the images",
            run.id, last.epoch, last.loss,
        )  # fmt: skip


def _finish(training: Training, out: Path, state: Path) -> dict[str, Any]:
    """Write the results into the state folder, move them into place, and tell the facts."""
    from safetensors.torch import save_file

    run, history = training.run, training.history
    # `best` is of the whole model; a frozen encoder is not in the model at all, so nothing need be left out.
    save_file({key: value.contiguous() for key, value in training.best.items()}, state / "model.safetensors")
    write_history(state / "history.csv", history)
    (state / "config.json").write_text(to_json(run) + "\n", encoding="utf-8")
    publish({state / name: out / name for name in ("model.safetensors", "history.csv", "config.json")})
    best = history[training.best_epoch - 1]
    return {
        "best_epoch": best.epoch,
        "best_rsum": best.rsum,
        "epochs": len(history),
        "training_pairs": len(training.data.pairs),
        "parameters": sum(p.numel() for p in training.model.parameters() if p.requires_grad),
        "encoder_in_model": any(key.startswith(ENCODER_PREFIX) for key in training.best),
        "collapsed_epochs": [record.epoch for record in history if record.collapsed],
        "collapsed": bool(history[-1].collapsed),
        "pairs_per_second": float(np.median([record.pairs_per_second for record in history])),
        "device": str(training.device),
    }
