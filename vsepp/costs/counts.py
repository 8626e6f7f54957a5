"""Images, captions, pairs and steps of a plan; a number that nobody knows is `None`, and never a guess."""

from __future__ import annotations

import math
from collections.abc import Iterable

from vsepp.config.plan import Plan, Run
from vsepp.spec import CorpusSpec, RunSpec
from vsepp.training.batches import steps_per_epoch


def images_of(corpus: CorpusSpec, splits: Iterable[str] | None = None) -> int | None:
    """Images of some splits, all by default; `None` where the data set's entry does not say."""
    if not corpus.expected_images:
        return None
    wanted = corpus.expected_images if splits is None else splits
    counts = {split: corpus.expected_images.get(split, 0) for split in wanted}
    return sum(min(count, corpus.first_images.get(split, count)) for split, count in counts.items())


def captions_of(corpus: CorpusSpec, splits: Iterable[str] | None = None) -> int | None:
    """Captions of some splits, all by default."""
    return times(images_of(corpus, splits), corpus.captions_per_image)


def training_pairs(plan: Plan, run: Run) -> int | None:
    """Pairs that an epoch uses once each as a query: the captions of the training splits."""
    return captions_of(plan.corpora[run.corpus], run.spec.train_splits)


def pairs_embedded(spec: RunSpec, pairs: int | None) -> int | None:
    """Pairs that go through the model in an epoch: more than there are where negatives are added to each batch."""
    size = spec.loss.negative_set or 0
    if pairs is None or size <= spec.schedule.batch_size:
        return pairs
    return steps_per_epoch(pairs, spec.schedule.batch_size) * min(size, pairs)


def times(*factors: int | None) -> int | None:
    """The product, which is unknown where a factor is."""
    known = [factor for factor in factors if factor is not None]
    return math.prod(known) if len(known) == len(factors) else None
