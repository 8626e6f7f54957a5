"""Train a run: epochs, validation, the best snapshot, and resuming after a kill."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from vsepp.base.placement import Placing
from vsepp.base.progress import duration_text
from vsepp.base.publish import publish
from vsepp.base.spec import RunSpec, to_json
from vsepp.data.vocabulary import Vocabulary
from vsepp.evaluation.encode import required
from vsepp.models import weights
from vsepp.models.encoder import load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.training.checkpoint import SECONDS_BETWEEN, Checkpoints
from vsepp.training.data import TrainingData, load_training_data
from vsepp.training.distributed import ALONE, ProcessGroup, join, require_divisible
from vsepp.training.epoch import train_epoch
from vsepp.training.history import EpochRecord, write_history
from vsepp.training.state import EpochSoFar, Training, resume, save
from vsepp.training.step import RunLoss, make_optimiser, require_parts

log = logging.getLogger("vsepp")
LOSS_FILE = "loss.safetensors"
"""File of the loss's own parameters in the best epoch, beside the model's."""


def train_run(
    run: RunSpec,
    inputs: Mapping[str, Path],
    out: Path,
    state: Path,
    placing: Placing,
    checkpoint_seconds: float = SECONDS_BETWEEN,
) -> dict[str, Any]:
    """Open what a run reads and train it, alone or among processes that `torchrun` started; see `train`.

    With its vocabulary the folder can be used by itself, on captions of one's own.
    """
    with join(placing.device) as group:
        data = load_training_data(run, inputs, placing.device, data_on=placing.data_on, share=placing.share)
        facts = train(
            run,
            data,
            out,
            state,
            placing.device,
            inputs,
            checkpoint_seconds=checkpoint_seconds,
            group=group,
        )
    Vocabulary.read(inputs["tokens"]).write(out)
    return {**facts, "data_on": data.data_on}


def train(
    run: RunSpec,
    data: TrainingData,
    out: Path,
    state: Path,
    device: torch.device,
    folders: Mapping[str, Path],
    *,
    checkpoint_seconds: float = SECONDS_BETWEEN,
    group: ProcessGroup = ALONE,
) -> dict[str, Any]:
    """Train a run, select the snapshot with the best sum of recalls on validation, and publish it.

    A training that was killed resumes from its last checkpoint, even within an epoch, and ends with the same weights and
    history as an uninterrupted one, on a CPU bit for bit.

    Parameters
    ----------
    run
        What to train.
    data
        Pairs, features and validation split, from `load_training_data`.
    out
        Folder of the results: `model.safetensors` (weights of the best epoch, without a frozen encoder's
        weights), `history.csv`, `config.json` (the run's spec).
    state
        Working folder that survives a kill, of this run, code and inputs only. The caller removes it.
    device
        Where to compute.
    folders
        Role → folder of an artefact that the run reads. `init_from` is the frozen run whose best snapshot a fine-tuned run starts
        from, with a new optimiser; `text_weights` is the file of weights that the text encoder of a run without `init_from` starts from;
        the other roles are for losses that read artefacts.
    checkpoint_seconds
        Time between two checkpoints; see `Checkpoints`.
    group
        The processes that train the run together. Only the first one validates and writes; the others return no facts.

    Returns
    -------
    dict
        Facts for the manifest: best epoch and its rsum, epochs, parameters, pairs, whether it collapsed, and speed.

    Raises
    ------
    VseppError
        If the loss is no longer finite (the last checkpoint stays), if artefacts do not fit the run, or if a folder is missing.
    """
    require_divisible(run, group)
    start = required(folders, "init_from", run) if run.finetuned else None
    model = _model(run, data, start, folders.get("text_weights")).to(device)
    require_parts(run, model)
    checkpoints = Checkpoints(state, checkpoint_seconds if group.first else math.inf)
    loss = RunLoss.of(run, folders, device)
    if start and loss.state.state_dict() and (start / LOSS_FILE).is_file():
        loss.state.load_state_dict(weights.read(start / LOSS_FILE))
    optimiser = make_optimiser(model, run.schedule.learning_rate, loss, run.optimiser)
    training = Training(run, data, device, model, loss, optimiser, checkpoints, group)
    resume(training)
    for epoch in range(len(training.history), run.schedule.epochs):
        if _has_stalled(training.history, run.schedule.patience):
            break
        training.history.append(train_epoch(training, epoch))
        training.so_far = EpochSoFar()
        if group.first:
            _report(training)
        if checkpoints.due():
            save(training)
    return _finish(training, out, state) if group.first else {}


def _has_stalled(history: Sequence[EpochRecord], patience: int | None) -> bool:
    """Whether none of the last `patience` epochs has a higher rsum than all before them."""
    if patience is None or len(history) <= patience:
        return False
    rsums = [record.rsum for record in history]
    return max(rsums[-patience:]) <= max(rsums[:-patience])


def _model(
    run: RunSpec, data: TrainingData, init_from: Path | None, text_weights: Path | None
) -> JointEmbedding:
    """The model before its first step, on the CPU."""
    encoder = None
    if run.live_encoder:
        assert data.encoder_folder  # a live encoder has one
        encoder = load_encoder(run.encoder, data.encoder_folder, grid=run.grid)
        encoder.requires_grad_(run.finetuned).eval()
    # The weights depend only on this seed, whatever was drawn before.
    torch.manual_seed(run.init_seed)
    model = JointEmbedding(run.model, data.feature_dim, data.vocabulary_size, encoder)
    if init_from is not None:
        path = init_from / "model.safetensors"
        model.load_weights(weights.read(path), path)
    elif hasattr(model.text, "start"):
        model.text.start(text_weights)
    return model


def _report(training: Training) -> None:
    """Log a line for the epoch."""
    run, last = training.run, training.history[-1]
    left = (run.schedule.epochs - last.epoch) * median(record.seconds for record in training.history)
    log.info(
        "epoch %d/%d  loss %.4f  lr %g  validation: caption R@1 %.1f  image R@1 %.1f  rsum %.1f%s  %.0f pairs/s%s",
        last.epoch, run.schedule.epochs, last.loss, last.lr, last.i2t_r1, last.t2i_r1,
        last.rsum, " (best)" if training.best_epoch == last.epoch else "", last.pairs_per_second,
        f"  {'at most' if run.schedule.patience else 'about'} {duration_text(left)} left" if left else "",
    )  # fmt: skip


def _finish(training: Training, out: Path, state: Path) -> dict[str, Any]:
    """Write the results into the state folder, move them into place, and return the facts; log advice if the model has collapsed."""
    from safetensors.torch import save_file

    run, history = training.run, training.history
    names = ["model.safetensors", "history.csv", "config.json"]
    # A frozen encoder is not part of the model, so nothing has to be left out.
    save_file(training.best["model"], state / "model.safetensors")
    write_history(state / "history.csv", history)
    (state / "config.json").write_text(to_json(run) + "\n", encoding="utf-8")
    if training.best["loss"]:
        save_file(training.best["loss"], state / LOSS_FILE)
        names.append(LOSS_FILE)
    publish({state / name: out / name for name in names})
    if history[-1].collapsed:
        log.warning(
            "%s: collapsed: after the last epoch it ranks hardly above chance on validation, rsum %.1f. Begin with SH "
            "(curriculum), lower learning_rate, or check the normalisation of the images",
            run.id, history[-1].rsum,
        )  # fmt: skip
    best = history[training.best_epoch - 1]
    return {
        "best_epoch": best.epoch,
        "best_rsum": best.rsum,
        "epochs": len(history),
        "training_pairs": len(training.data.pairs),
        "parameters": sum(p.numel() for p in training.model.parameters() if p.requires_grad),
        "encoder_in_model": training.model.encoder is not None,
        "collapsed": bool(history[-1].collapsed),
        "pairs_per_second": float(np.median([record.pairs_per_second for record in history])),
        "device": str(training.device),
        "processes": training.group.size,
    }
