"""What a training records after every epoch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from vsepp.base.files import csv_text, write_text
from vsepp.evaluation.metrics import chance_rsum


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


def write_history(path: Path, records: list[EpochRecord]) -> None:
    """Write `history.csv`, numbers unrounded."""
    write_text(path, csv_text([field.name for field in fields(EpochRecord)], map(vars, records)))
