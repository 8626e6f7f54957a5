"""What a training records after every epoch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from vsepp.runtime.files import csv_text, write_text

# A model has collapsed if an epoch's mean loss is this close (relatively) to the loss of equal scores, scores differ by
# this little of the margin, and it hardly ranks better than chance. The loss alone is not enough: MH passes through the
# same value while scores are close together and the model learns to rank.
COLLAPSED_LOSS = 0.01
COLLAPSED_SPREAD = 0.05
COLLAPSED_RSUM = 2.0


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
    """1 if its scores are nearly equal, and its loss is near the loss of equal scores; see `is_collapsed`."""


def is_collapsed(loss: float, collapsed_loss: float, spread: float, rsum: float) -> bool:
    """Whether a model scores all images and captions nearly alike, where training with MH can get stuck.

    Parameters
    ----------
    loss
        Mean over an epoch's queries.
    collapsed_loss
        The same if all scores were equal: 2 × margin for MH.
    spread
        Standard deviation of the scores of different images and captions, in margins.
    rsum
        Sum of recalls on the validation split, as a multiple of chance.
    """
    near = abs(loss - collapsed_loss) <= COLLAPSED_LOSS * collapsed_loss
    return collapsed_loss > 0 and near and spread < COLLAPSED_SPREAD and rsum < COLLAPSED_RSUM


def write_history(path: Path, records: list[EpochRecord]) -> None:
    """Write `history.csv`, numbers unrounded."""
    write_text(path, csv_text([field.name for field in fields(EpochRecord)], map(vars, records)))
