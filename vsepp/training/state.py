"""What changes while a run trains, and how it is saved to a checkpoint and restored."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass, field

import torch

from vsepp.base.spec import RunSpec
from vsepp.models.joint import JointEmbedding
from vsepp.training.checkpoint import Checkpoints
from vsepp.training.data import TrainingData
from vsepp.training.distributed import ALONE, ProcessGroup
from vsepp.training.history import EpochRecord
from vsepp.training.step import Optimiser, RunLoss

log = logging.getLogger("vsepp")


@dataclass
class EpochSoFar:
    """How far an epoch is."""

    steps: int = 0
    """Steps taken."""
    loss: float = 0.0
    """Sum of the loss over the queries of these steps."""
    seconds: float = 0.0
    """Time spent in this epoch before the checkpoint from which it was resumed."""


@dataclass
class Training:
    """Everything that changes while a run trains."""

    run: RunSpec
    data: TrainingData
    device: torch.device
    model: JointEmbedding
    loss: RunLoss
    optimiser: Optimiser
    checkpoints: Checkpoints
    group: ProcessGroup = ALONE
    """The processes that train together; only the first keeps `best` and `best_epoch` up to date."""
    history: list[EpochRecord] = field(default_factory=list)
    so_far: EpochSoFar = field(default_factory=EpochSoFar)
    """The epoch after the last one in `history`."""
    epoch_began: float = 0.0
    """When that epoch would have begun on this process's clock without interruption."""
    best: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    """Weights of the `model` and of the `loss` in the best epoch so far, on the CPU."""
    best_epoch: int = 0


def resume(training: Training) -> None:
    """Resume from the last checkpoint, if there is one."""
    saved = training.group.from_first(training.checkpoints.load)
    if saved is None:
        return
    training.model.load_state_dict(saved["model"])
    training.loss.state.load_state_dict(saved["loss_state"])
    training.optimiser.load_state_dict(saved["optimiser"])
    training.history = [EpochRecord(**record) for record in saved["history"]]
    training.so_far = EpochSoFar(**saved["so_far"])
    training.best = saved["best"]
    training.best_epoch = saved["best_epoch"]
    torch.set_rng_state(saved["random"])
    if training.device.type == "cuda":
        torch.cuda.set_rng_state(saved["random_cuda"], training.device)
    log.info("%s: resuming after %s", training.run.id, saved["where"])


def save(training: Training) -> None:
    """Write a checkpoint, unless the weights are not finite: then nothing should resume from here."""
    if not all(bool(value.isfinite().all()) for value in training.optimiser.parameters):
        return
    done, so_far = len(training.history), training.so_far
    seconds = time.monotonic() - training.epoch_began if so_far.steps else 0.0
    content = {
        "model": training.model.state_dict(),
        "loss_state": training.loss.state.state_dict(),
        "optimiser": training.optimiser.state_dict(),
        "history": [asdict(record) for record in training.history],
        "so_far": {**asdict(so_far), "seconds": seconds},
        "best": training.best,
        "best_epoch": training.best_epoch,
        # Dropout draws from it: in an encoder's legacy modes, in BERT and in a matcher.
        "random": torch.get_rng_state(),
    }
    if training.device.type == "cuda":
        content["random_cuda"] = torch.cuda.get_rng_state(training.device)
    where = f"epoch {done + 1}, step {so_far.steps}" if so_far.steps else f"epoch {done}"
    training.checkpoints.save(content, where)
