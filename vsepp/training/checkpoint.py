"""What changes while a run trains, beside the weights, and the checkpoint from which a killed training resumes."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from vsepp.base.files import whole_file
from vsepp.models.weights import unpickle
from vsepp.training.step import Training

log = logging.getLogger("vsepp")
FILE = "checkpoint.pt"
SECONDS_BETWEEN = 60.0


@dataclass(frozen=True)
class EpochRecord:
    """One row of `history.csv`."""

    epoch: int
    """Number of finished epochs."""
    loss: float
    """Mean over the epoch's queries, both directions added, during training."""
    lr: float
    """Learning rate of the epoch's last step."""
    i2t_r1: float
    """Caption retrieval on the validation split, percent."""
    i2t_r5: float
    i2t_r10: float
    t2i_r1: float
    """Image retrieval on the validation split, percent."""
    t2i_r5: float
    t2i_r10: float
    rsum: float
    seconds: float
    """Training and validation."""
    pairs_per_second: float
    """Queries per second of training, without validation."""
    collapsed: int
    """1 if it ranks hardly above chance on the validation split; see `is_collapsed`. What counts is the last epoch."""


@dataclass
class Progress:
    """How far a training is."""

    history: list[EpochRecord] = field(default_factory=list)
    """The finished epochs."""
    steps: int = 0
    """Steps taken of the epoch after them."""
    loss: float = 0.0
    """Sum of the loss over the queries of these steps."""
    began: float = 0.0
    """When that epoch would have begun on this process's clock without interruption."""
    best: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    """Weights of the `model` and of the `loss` in the best epoch so far, on the CPU; the first process alone keeps it up to date."""
    best_epoch: int = 0

    def begin_epoch(self) -> None:
        """Forget the steps of the epoch before."""
        self.steps, self.loss, self.began = 0, 0.0, time.monotonic()


class Checkpoint:
    """The file in a state folder from which one training resumes: whole, or not there at all.

    Parameters
    ----------
    folder
        State folder, of this training only.
    interval
        Seconds between two checkpoints; 0: one whenever `due` is called.
    """

    def __init__(self, folder: Path, interval: float = SECONDS_BETWEEN) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / FILE
        self.reached = ""
        """Where in the training the last checkpoint is, in words; empty if there is none."""
        self._interval = interval
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether the interval has passed since the last checkpoint or the start."""
        return time.monotonic() - self._last >= self._interval

    def save(self, training: Training, progress: Progress) -> None:
        """Write a checkpoint, unless the weights are not finite: then nothing should resume from here.

        A kill at any moment leaves this checkpoint or the one before.

        Raises
        ------
        OSError
            If the disk is full; the previous checkpoint stays.
        """
        if not all(bool(parameter.isfinite().all()) for parameter in training.optimiser.parameters):
            return
        epoch = f"epoch {len(progress.history) + bool(progress.steps)}"
        reached = f"{epoch}, step {progress.steps}" if progress.steps else epoch
        content = {
            "model": training.model.state_dict(),
            "loss": training.loss.state.state_dict(),
            "optimiser": training.optimiser.state_dict(),
            "progress": {
                **vars(progress),
                "history": [asdict(record) for record in progress.history],
                "began": progress.began - time.monotonic(),
            },
            # Dropout draws from it: in an encoder's legacy modes, in BERT and in a matcher.
            "random": torch.get_rng_state(),
            "reached": reached,
        }
        if training.device.type == "cuda":
            content["random_cuda"] = torch.cuda.get_rng_state(training.device)
        with whole_file(self.file) as partial, partial.open("wb") as stream:
            _write(content, stream)
            stream.flush()
            os.fsync(stream.fileno())
        self.reached = reached
        self._last = time.monotonic()

    def resume(self, training: Training) -> Progress:
        """Restore a training from the last checkpoint of the first process, if there is one.

        Raises
        ------
        VseppError
            If it is damaged.
        """
        saved = training.group.from_first(self._read)
        if saved is None:
            return Progress()
        training.model.load_state_dict(saved["model"])
        training.loss.state.load_state_dict(saved["loss"])
        training.optimiser.load_state_dict(saved["optimiser"])
        torch.set_rng_state(saved["random"])
        if training.device.type == "cuda" and "random_cuda" in saved:
            torch.cuda.set_rng_state(saved["random_cuda"], training.device)
        progress = Progress(**saved["progress"])
        progress.history = [EpochRecord(**record) for record in saved["progress"]["history"]]
        progress.began += time.monotonic()
        self.reached = saved["reached"]
        log.info("%s: resuming after %s", training.run.id, self.reached)
        return progress

    def _read(self) -> dict[str, Any] | None:
        expected = "a checkpoint; delete it, and the training starts from the beginning"
        return unpickle(self.file, expected) if self.file.is_file() else None


def _write(content: dict[str, Any], stream: Any) -> None:
    try:
        torch.save(content, stream)
    except RuntimeError as error:
        # If the system refuses to write, torch's error is only about positions in the file.
        if isinstance(error.__context__, OSError):
            raise error.__context__ from error
        raise
