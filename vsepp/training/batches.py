"""Which pairs each step uses: a function of the seed, the epoch and the step alone.

So a training that is resumed, also on another machine, uses the same pairs as an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

# First word of each generator's seed, so that order, extra pairs and subsets are independent draws.
_ORDER, _EXTRA, _SUBSET = 1, 2, 3


@dataclass(frozen=True)
class StepPairs:
    """The pairs of one step."""

    pairs: np.ndarray
    """int64 `(n,)`, indices of training pairs; no pair twice."""
    queries: int
    """How many of them are queries, from the first."""
    negatives: np.ndarray | None
    """int64 `(m,)`, positions in `pairs` from which negatives are taken; `None`: all."""


def steps_per_epoch(pairs: int, batch_size: int) -> int:
    """Number of steps that use each pair once as a query; the last batch may be smaller."""
    return math.ceil(pairs / batch_size)


def epoch_order(pairs: int, order_seed: int, epoch: int) -> np.ndarray:
    """Order in which an epoch uses the pairs: int64 `(pairs,)`, a permutation."""
    return np.random.default_rng((_ORDER, order_seed, epoch)).permutation(pairs)


def epoch_batches(
    pairs: int, batch_size: int, *, order_seed: int, epoch: int, negative_set: int | None = None
) -> Iterator[StepPairs]:
    """Pairs of each step of an epoch, each once as a query (Section 3.6 for the negative set).

    Parameters
    ----------
    pairs
        Number of training pairs.
    batch_size
        Queries per step.
    order_seed
        Seed of the order and of everything sampled here.
    epoch
        From 0.
    negative_set
        M, the number of pairs from which negatives are taken. If it is below the batch size, a subset of the batch is
        sampled, the same for all queries of the step; if above, further training pairs are sampled, and the batch is
        part of the negative set. `None`: the batch.
    """
    order = epoch_order(pairs, order_seed, epoch)
    size = batch_size if negative_set is None else negative_set
    for step in range(steps_per_epoch(pairs, batch_size)):
        asked = order[step * batch_size : (step + 1) * batch_size]
        seed = (order_seed, epoch, step)
        if size > batch_size:
            extra = _rest(pairs, asked, size - len(asked), np.random.default_rng((_EXTRA, *seed)))
            yield StepPairs(np.concatenate([asked, extra]), len(asked), None)
        elif size < len(asked):
            subset = np.random.default_rng((_SUBSET, *seed)).choice(len(asked), size, replace=False)
            yield StepPairs(asked, len(asked), np.sort(subset))
        else:
            yield StepPairs(asked, len(asked), None)


def _rest(pairs: int, taken: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Sample pairs that are not taken, uniformly, no pair twice; all of them if there are no more."""
    rest = np.delete(np.arange(pairs), taken)
    return generator.choice(rest, min(count, len(rest)), replace=False)
