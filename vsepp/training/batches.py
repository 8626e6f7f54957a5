"""Which pairs each step uses, and their images and captions: a function of the seed, the epoch and the step alone.

So a training that is resumed, also on another machine, uses the same pairs as an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from vsepp.base.placement import upload
from vsepp.base.run_spec import ScheduleSpec
from vsepp.losses.batch import Batch
from vsepp.training.data import TrainingData
from vsepp.training.matching import Candidates
from vsepp.training.step import StepBatch, Training

# First word of each generator's seed, so that order, extra pairs and subsets are independent.
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


def epoch_order(pairs: int, order_seed: int, epoch: int) -> np.ndarray:
    """The order in which an epoch, from 0, uses training pairs: int64 `(pairs,)`."""
    return np.random.default_rng((_ORDER, order_seed, epoch)).permutation(pairs)


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
    order = epoch_order(pairs, order_seed, epoch)
    batch_size = schedule.batch_size
    size = batch_size if schedule.negative_set is None else schedule.negative_set
    for step in range(first, steps_per_epoch(pairs, batch_size)):
        queries = order[step * batch_size : (step + 1) * batch_size]
        if size > batch_size:
            others = np.delete(np.arange(pairs), queries)
            generator = np.random.default_rng((_EXTRA, order_seed, epoch, step))
            extra = generator.choice(others, min(size - len(queries), len(others)), replace=False)
            yield StepPairs(np.concatenate([queries, extra]), len(queries), None)
        elif size < len(queries):
            generator = np.random.default_rng((_SUBSET, order_seed, epoch, step))
            subset = generator.choice(len(queries), size, replace=False)
            yield StepPairs(queries, len(queries), np.sort(subset))
        else:
            yield StepPairs(queries, len(queries), None)


def load_batch(training: Training, data: TrainingData, step: StepPairs, epoch: int) -> StepBatch:
    """Gather the images and captions of this process's share of a step's pairs on the device, without waiting for it."""
    run, device = training.run, training.device
    rows, image_rows = data.pairs[step.pairs], data.image_rows[step.pairs]
    needed = {"image_rows": image_rows, "caption_rows": rows}
    known = Batch(
        queries=step.queries,
        negatives=None if step.negatives is None else upload(step.negatives, device),
        epoch=epoch,
        epochs=run.schedule.epochs,
        state=training.loss.state,
        **{name: upload(needed[name], device) for name in training.loss.needs},
    )
    candidates = None
    if run.model.matcher is not None:
        caption_ids = data.caption_ids[step.pairs]
        candidates = Candidates.from_pairs(image_rows, caption_ids, run.draw, epoch, device)
    share = rows[training.group.share(len(rows))]
    captions, lengths = data.captions.train(share, epoch)
    return StepBatch(
        pairs=len(rows),
        images=data.images.train(share, epoch).map(lambda values: upload(values, device)),
        captions=upload(captions, device),
        lengths=torch.from_numpy(lengths),
        known=known,
        candidates=candidates,
    )
