"""Train a run: epochs, validation, the best snapshot and its test embeddings, and resuming after a kill."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from vsepp.base.errors import VseppError
from vsepp.base.files import csv_text, write_text
from vsepp.base.placement import Placing
from vsepp.base.progress import track
from vsepp.base.publish import CONFIG, EMBEDDINGS, MODEL_FILE, publish, spec_of
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import to_json
from vsepp.base.words import duration_text
from vsepp.evaluation.encode import encode_split
from vsepp.evaluation.paper import chance_rsum, retrieval_metrics
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.models import weights
from vsepp.models.encoder import load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.models.precision import fp32_products_in
from vsepp.training.batches import epoch_batches, load_batch, steps_per_epoch
from vsepp.training.checkpoint import SECONDS_BETWEEN, Checkpoint, EpochRecord, Progress
from vsepp.training.data import TrainingData, load_training_data
from vsepp.training.distributed import ALONE, ProcessGroup, join, require_divisible
from vsepp.training.schedule import encoder_trains, learning_rate, loss_factor
from vsepp.training.step import RunLoss, Training, make_optimiser, require_parts, take_step

log = logging.getLogger("vsepp")
HISTORY_FILE = "history.csv"
LOSS_FILE = "loss.safetensors"
"""File of the loss's own parameters in the best epoch, beside the model's."""

# Losses stay on the device for this many steps, so that a GPU need not wait for the host after each.
STEPS_BETWEEN_CHECKS = 50


def train_run(
    run: RunSpec,
    inputs: Mapping[str, Path],
    out: Path,
    state: Path,
    placing: Placing,
    checkpoint_seconds: float = SECONDS_BETWEEN,
) -> dict[str, Any]:
    """Open what a run reads and train it, alone or among processes that `torchrun` started; see `load_training_data` and `train`.

    With its vocabulary the folder can be used by itself, on captions of one's own.
    """
    with join(placing.device) as group:
        data = load_training_data(run, inputs, placing)
        facts = train(run, data, out, state, placing.device, checkpoint_seconds, group)
    data.vocabulary.write(out)
    return {**facts, "data_on": data.images.data_on}


def train(
    run: RunSpec,
    data: TrainingData,
    out: Path,
    state: Path,
    device: torch.device,
    checkpoint_seconds: float = SECONDS_BETWEEN,
    group: ProcessGroup = ALONE,
) -> dict[str, Any]:
    """Train a run, select the snapshot with the best sum of recalls on validation, and publish it.

    A training that was killed resumes from its last checkpoint, even within an epoch, and ends with the same weights, history and
    embeddings as an uninterrupted one, on a CPU bit for bit.

    Parameters
    ----------
    run
        What to train.
    data
        Pairs, images, captions, validation and test split. The test split is embedded at the end and decides nothing.
    out
        Folder of the results: `model.safetensors` (weights of the best epoch, without a frozen encoder's
        weights), `history.csv`, `config.json` (the run's spec), `embeddings.npz` (of the test split, by these weights).
    state
        Working folder that survives a kill, of this run, code and inputs only. The caller removes it.
    device
        Where to compute.
    checkpoint_seconds
        Time between two checkpoints; 0: one after every step.
    group
        The processes that train the run together. Only the first one validates and writes; the others return no facts.

    Returns
    -------
    dict
        Facts for the manifest: best epoch and its rsum, epochs, parameters, pairs, whether it collapsed, and speed.

    Raises
    ------
    VseppError
        If the loss is no longer finite (the last checkpoint stays), or if artefacts do not fit the run.
    """
    require_divisible(run, group)
    model = _first_model(run, data).to(device)
    require_parts(run, model)
    loss = RunLoss.from_run(run, data.folders, device)
    training = Training(run, model, loss, make_optimiser(run, model, loss), device, group)
    _continue_loss(training, data.folders)
    checkpoint = Checkpoint(state, checkpoint_seconds if group.first else math.inf)
    progress = checkpoint.resume(training)
    for epoch in range(len(progress.history), run.schedule.epochs):
        if _has_stalled(progress.history, run.schedule.patience):
            break
        _train_epoch(training, data, progress, checkpoint, epoch)
        record = group.from_first(lambda: _validate(training, data, progress))
        progress.history.append(record)
        progress.begin_epoch()
        if group.first:
            _log_epoch(run, progress)
        if checkpoint.due():
            checkpoint.save(training, progress)
    return _publish_best(training, data, progress, out, state) if group.first else {}


def _first_model(run: RunSpec, data: TrainingData) -> JointEmbedding:
    """The model before its first step, on the CPU."""
    encoder = None
    if run.live_encoder:
        encoder = load_encoder(run.encoder, data.folders["encoder"], grid=run.grid)
        encoder.requires_grad_(run.finetuned).eval()
    # The weights depend only on this seed, whatever was drawn before.
    torch.manual_seed(run.init_seed)
    model = JointEmbedding(run.model, data.images.dim, len(data.vocabulary), encoder)
    if run.finetuned:
        path = data.folders["init_from"] / MODEL_FILE
        model.load_weights(weights.read(path), path)
    elif hasattr(model.text, "start"):
        model.text.start(data.folders.get("text_weights"))
    return model


def _continue_loss(training: Training, folders: Mapping[str, Path]) -> None:
    """Give a fine-tuned run's loss the state that it had in the run that this run starts from, if that run had the same loss."""
    if not training.run.finetuned or not (path := folders["init_from"] / LOSS_FILE).is_file():
        return
    start = spec_of(folders["init_from"])
    if start.loss.name == training.run.loss.name:
        weights.put(training.loss.state, weights.read(path), path, f"loss {start.loss.name!r}")


def _has_stalled(history: Sequence[EpochRecord], patience: int | None) -> bool:
    """Whether none of the last `patience` epochs has a higher rsum than all before them."""
    if patience is None or len(history) <= patience:
        return False
    rsums = [record.rsum for record in history]
    return max(rsums[-patience:]) <= max(rsums[:-patience])


def _train_epoch(
    training: Training, data: TrainingData, progress: Progress, checkpoint: Checkpoint, epoch: int
) -> None:
    """Take the remaining steps of an epoch, from 0."""
    run, encoder, device = training.run, training.model.encoder, training.device
    if run.finetuned and encoder is not None:
        # Without gradients neither weights nor moments change, and no backward pass is paid for.
        encoder.requires_grad_(epoch >= run.schedule.encoder_frozen_epochs)
    if not progress.steps:
        progress.begin_epoch()
    pairs, first = len(data.pairs), progress.steps
    steps = steps_per_epoch(pairs, run.schedule.batch_size)
    batches = epoch_batches(pairs, run.schedule, run.order_seed, epoch, first)
    what = f"{run.id} epoch {epoch + 1}/{run.schedule.epochs}"
    losses: list[torch.Tensor] = []
    with fp32_products_in(run.precision, device):
        for step, chosen in enumerate(track(batches, steps - first, what, "step"), start=first):
            mode = encoder_trains(run, epoch * steps, step)
            if encoder is not None and encoder.training != mode:
                encoder.train(mode)
            training.group.seed_step(run.init_seed, epoch, step)
            rate = learning_rate(run.schedule, epoch, step, steps)
            factor = loss_factor(run.schedule, epoch, step, steps)
            losses.append(take_step(training, load_batch(training, data, chosen, epoch), rate, factor))
            due = checkpoint.due()
            if due or len(losses) == STEPS_BETWEEN_CHECKS or step == steps - 1:
                _settle(losses, run, progress, checkpoint, steps)
            if due:
                checkpoint.save(training, progress)


def _settle(
    losses: list[torch.Tensor], run: RunSpec, progress: Progress, checkpoint: Checkpoint, steps: int
) -> None:
    """Fetch the losses of the last steps, check them, and add them up."""
    for value in torch.stack(losses).double().cpu().tolist():
        progress.steps += 1
        if not math.isfinite(value):
            epoch = len(progress.history)
            rate = learning_rate(run.schedule, epoch, progress.steps - 1, steps)
            kept = (
                f"the checkpoint of {checkpoint.reached} is kept"
                if checkpoint.reached
                else "there is no checkpoint yet"
            )
            raise VseppError(
                f"run {run.id}: the loss is {value} in epoch {epoch + 1}, step {progress.steps}, at learning rate "
                f"{rate:g}; expected a finite number. Look for features that are not finite, lower learning_rate, or lower "
                f"clip_norm; {kept}"
            )
        # One by one: an interruption must not change the last digit of the sum.
        progress.loss += value
    losses.clear()


def _validate(training: Training, data: TrainingData, progress: Progress) -> EpochRecord:
    """Validate after an epoch, keep the weights if they are the best so far, and summarise the epoch."""
    run, device, split = training.run, training.device, data.validation
    epoch, trained = len(progress.history), time.monotonic()
    tested = encode_split(training.model, data.images, data.captions.all, split, device)
    ranks = retrieval_ranks(tested, device if device.type == "cuda" else None)
    metrics = retrieval_metrics(ranks)
    if metrics.rsum > max((record.rsum for record in progress.history), default=-1.0):
        progress.best = {"model": _copied(training.model), "loss": _copied(training.loss.state)}
        progress.best_epoch = epoch + 1
    return EpochRecord(
        epoch=epoch + 1,
        loss=progress.loss / len(data.pairs),
        lr=learning_rate(run.schedule, epoch, progress.steps - 1, progress.steps),
        **metrics.recalls,
        seconds=time.monotonic() - progress.began,
        pairs_per_second=len(data.pairs) / (trained - progress.began),
        collapsed=int(is_collapsed(metrics.rsum, len(split.images), len(split.captions))),
    )


def _copied(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Weights of a module, copied to the CPU."""
    return {
        key: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for key, value in module.state_dict().items()
    }


def is_collapsed(rsum: float, n_images: int, n_captions: int) -> bool:
    """Whether a model ranks hardly above chance, where training with MH can get stuck: all its scores are nearly equal.

    Parameters
    ----------
    rsum
        Sum of recalls on the validation split: collapsed below 2 × chance, on a small split below chance + 16.
    n_images, n_captions
        Size of the split.
    """
    chance = chance_rsum(n_images, n_captions)
    return rsum < min(2 * chance, chance + 16)


def _log_epoch(run: RunSpec, progress: Progress) -> None:
    last, epochs = progress.history[-1], run.schedule.epochs
    left = (epochs - last.epoch) * median(record.seconds for record in progress.history)
    log.info(
        "epoch %d/%d  loss %.4f  lr %g  validation: caption R@1 %.1f  image R@1 %.1f  rsum %.1f%s  %.0f pairs/s%s",
        last.epoch, epochs, last.loss, last.lr, last.i2t_r1, last.t2i_r1,
        last.rsum, " (best)" if progress.best_epoch == last.epoch else "", last.pairs_per_second,
        f"  {'at most' if run.schedule.patience else 'about'} {duration_text(left)} left" if left else "",
    )  # fmt: skip


def _publish_best(
    training: Training, data: TrainingData, progress: Progress, out: Path, state: Path
) -> dict[str, Any]:
    """Write the results into the state folder, move them into place, and return the facts; log advice if the model has collapsed."""
    from safetensors.torch import save_file

    run, history = training.run, progress.history
    # A frozen encoder is not part of the model, so nothing has to be left out.
    save_file(progress.best["model"], state / MODEL_FILE)
    write_text(
        state / HISTORY_FILE, csv_text([field.name for field in fields(EpochRecord)], map(vars, history))
    )
    write_text(state / CONFIG, to_json(run) + "\n")
    training.model.load_state_dict(progress.best["model"])
    tested = encode_split(training.model, data.images, data.captions.all, data.test, training.device)
    tested.save(state / EMBEDDINGS)
    names = [MODEL_FILE, HISTORY_FILE, CONFIG, EMBEDDINGS]
    if progress.best["loss"]:
        save_file(progress.best["loss"], state / LOSS_FILE)
        names.append(LOSS_FILE)
    publish({state / name: out / name for name in names})
    if history[-1].collapsed:
        log.warning(
            "%s: collapsed: after the last epoch it ranks hardly above chance on validation, rsum %.1f. Begin with SH "
            "(curriculum), lower learning_rate, or check the normalisation of the images",
            run.id, history[-1].rsum,
        )  # fmt: skip
    best = history[progress.best_epoch - 1]
    return {
        "best_epoch": best.epoch,
        "best_rsum": best.rsum,
        "epochs": len(history),
        "training_pairs": len(data.pairs),
        "parameters": sum(p.numel() for p in training.model.parameters() if p.requires_grad),
        "encoder_in_model": training.model.encoder is not None,
        "collapsed": bool(history[-1].collapsed),
        "pairs_per_second": float(np.median([record.pairs_per_second for record in history])),
        "device": str(training.device),
        "processes": training.group.size,
    }
