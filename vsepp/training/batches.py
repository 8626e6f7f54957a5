"""Which pairs each step uses: a function of the seed, the epoch and the step alone.

So a training that is resumed, also on another machine, uses the same pairs as an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vsepp.spec import ScheduleSpec
from vsepp.training.order import order_of

# First word of the seed of subsets, so that they are drawn independently of the order; see `vsepp.training.order`.
_SUBSET = 3


@dataclass(frozen=True)
class StepPairs:
    """The pairs of one step."""

    pairs: np.ndarray
    """int64 `(n,)`, indices of training pairs; no pair twice."""
    queries: int
    """Number of pairs, from the first, that are queries."""
    negatives: np.ndarray | None
    """int64 `(m,)`, positions in `pairs` from which negatives are taken; `None`: all."""


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
        Its order, batch size and negative set.
    order_seed
        Seed of the order and of everything sampled.
    epoch
        From 0.
    first
        The step to begin with.
    """
    order, batch_size = order_of(pairs, schedule, order_seed, epoch), schedule.batch_size
    size = batch_size if schedule.negative_set is None else schedule.negative_set
    for step in range(first, steps_per_epoch(pairs, batch_size)):
        end = min((step + 1) * batch_size, pairs)
        asked = order.take(np.arange(step * batch_size, end))
        if size > batch_size:
            further = order.further(asked, end, size - len(asked), step)
            yield StepPairs(np.concatenate([asked, further]), len(asked), None)
        elif size < len(asked):
            generator = np.random.default_rng((_SUBSET, order_seed, epoch, step))
            subset = generator.choice(len(asked), size, replace=False)
            yield StepPairs(asked, len(asked), np.sort(subset))
        else:
            yield StepPairs(asked, len(asked), None)
