"""Which pairs each step uses: a function of the seed, the epoch and the step alone.

So a training that is resumed, also on another machine, uses the same pairs as an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vsepp.base.spec import ScheduleSpec

# First word of each generator's seed, so that order, extra pairs and subsets are independent draws.
_ORDER, _EXTRA, _SUBSET = 1, 2, 3


@dataclass(frozen=True)
class StepPairs:
    """The pairs of one step."""

    pairs: np.ndarray
    """int64 `(n,)`, indices of training pairs; no pair twice."""
    queries: int
    """Number of pairs, from the first, that are queries."""
    negatives: np.ndarray | None
    """int64 `(m,)`, positions in `pairs` from which negatives are taken; `None`: all."""


class Permutation:
    """The order in which an epoch uses the pairs; further pairs are sampled uniformly.

    Parameters
    ----------
    pairs
        How many there are.
    order_seed, epoch
        Seed and epoch that the order is a function of.
    """

    def __init__(self, pairs: int, order_seed: int, epoch: int) -> None:
        self._seed = order_seed, epoch
        self.order = np.random.default_rng((_ORDER, *self._seed)).permutation(pairs)

    def further(self, asked: np.ndarray, count: int, step: int) -> np.ndarray:
        """Pairs int64 `(count,)` besides a step's own pairs, no pair twice; all other pairs where there are fewer.

        Parameters
        ----------
        asked
            The pairs of the step.
        count
            How many.
        step
            From 0.
        """
        rest = np.delete(np.arange(len(self.order)), asked)
        generator = np.random.default_rng((_EXTRA, *self._seed, step))
        return generator.choice(rest, min(count, len(rest)), replace=False)


def steps_per_epoch(pairs: int, batch_size: int) -> int:
    """Number of steps that use each pair once as a query; the last batch may be smaller."""
    return math.ceil(pairs / batch_size)


def epoch_batches(
    pairs: int, schedule: ScheduleSpec, order_seed: int, epoch: int, first: int = 0
) -> Iterator[StepPairs]:
    """Pairs of the steps of an epoch, each once as a query (Section 3.6 for the negative set).

    If the negative set is smaller than the batch, a subset of the batch is sampled, the same for all queries of the step; if
    larger, further training pairs are added, and the batch is part of the negative set.

    Parameters
    ----------
    pairs
        Number of training pairs.
    schedule
        Its batch size and negative set.
    order_seed
        Seed of the order and of everything sampled.
    epoch
        From 0.
    first
        The step to begin with.
    """
    permutation, batch_size = Permutation(pairs, order_seed, epoch), schedule.batch_size
    size = batch_size if schedule.negative_set is None else schedule.negative_set
    for step in range(first, steps_per_epoch(pairs, batch_size)):
        asked = permutation.order[step * batch_size : (step + 1) * batch_size]
        if size > batch_size:
            further = permutation.further(asked, size - len(asked), step)
            yield StepPairs(np.concatenate([asked, further]), len(asked), None)
        elif size < len(asked):
            generator = np.random.default_rng((_SUBSET, order_seed, epoch, step))
            subset = generator.choice(len(asked), size, replace=False)
            yield StepPairs(asked, len(asked), np.sort(subset))
        else:
            yield StepPairs(asked, len(asked), None)
