"""Each pair is a query once an epoch; negative sets have their size and are drawn uniformly."""

import dataclasses

import numpy as np
import specs
from hypothesis import given, settings
from hypothesis import strategies as st

from vsepp.training.batches import epoch_batches, epoch_order, steps_per_epoch

sizes = st.integers(1, 60)
batch_sizes = st.integers(2, 20)
negative_sets = st.none() | st.integers(2, 80)
seeds = st.integers(0, 1000)


def batches(pairs, batch_size, negative_set=None, seed=0, epoch=0, first=0):
    schedule = dataclasses.replace(specs.RUN.schedule, batch_size=batch_size, negative_set=negative_set)
    return list(epoch_batches(pairs, schedule, seed, epoch, first))


@settings(deadline=None)
@given(sizes, batch_sizes, negative_sets, seeds, st.integers(0, 30))
def test_each_pair_is_a_query_once_an_epoch_in_the_epochs_order(pairs, size, negative_set, seed, epoch):
    drawn = batches(pairs, size, negative_set, seed, epoch)
    queries = np.concatenate([batch.pairs[: batch.queries] for batch in drawn])
    assert np.array_equal(queries, epoch_order(pairs, seed, epoch))
    assert sorted(queries) == list(range(pairs))
    assert len(drawn) == steps_per_epoch(pairs, size)
    assert all(batch.queries == size for batch in drawn[:-1])


@settings(deadline=None)
@given(sizes, batch_sizes, negative_sets, seeds)
def test_the_negative_set_has_the_size_asked_for(pairs, size, negative_set, seed):
    for batch in batches(pairs, size, negative_set, seed):
        assert len(set(batch.pairs)) == len(batch.pairs)
        assert batch.pairs.min() >= 0 and batch.pairs.max() < pairs
        if negative_set is None or negative_set == size:
            assert batch.negatives is None and len(batch.pairs) == batch.queries
        elif negative_set > size:
            assert batch.negatives is None and len(batch.pairs) == min(negative_set, pairs)
        else:
            among = range(batch.queries) if batch.negatives is None else batch.negatives
            assert len(set(among)) == min(negative_set, batch.queries)
            assert set(among) <= set(range(batch.queries))
            assert len(batch.pairs) == batch.queries


def test_negative_sets_do_not_change_which_pairs_are_queries_together():
    plain, few, many = (batches(50, 8, negative_set) for negative_set in (None, 2, 20))
    for batch, subset, superset in zip(plain, few, many, strict=True):
        assert np.array_equal(batch.pairs, subset.pairs)
        assert np.array_equal(batch.pairs, superset.pairs[: superset.queries])


def test_extra_negatives_are_uniform_over_the_other_pairs():
    counts = np.zeros(20)
    for seed in range(2000):
        batch = batches(20, 4, 10, seed)[0]
        counts[batch.pairs[4:]] += 1
    # Each pair is extra with probability 16/20 × 6/16 = 0.3; 5 standard deviations of 2,000 draws.
    assert np.abs(counts / 2000 - 0.3).max() < 5 * np.sqrt(0.3 * 0.7 / 2000)


def test_subsets_are_uniform_over_the_batch_and_differ_between_steps():
    subsets = [batch.negatives for seed in range(1000) for batch in batches(16, 8, 2, seed)]
    counts = np.bincount(np.concatenate(subsets), minlength=8)
    assert np.abs(counts / 2000 - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 2000)
    assert len({tuple(subset) for subset in subsets}) == 28


@settings(deadline=None)
@given(sizes, batch_sizes, negative_sets, seeds, st.integers(0, 40))
def test_an_epoch_goes_on_at_any_step(pairs, size, negative_set, seed, first):
    whole = batches(pairs, size, negative_set, seed)
    rest = batches(pairs, size, negative_set, seed, first=first)
    assert len(rest) == max(len(whole) - first, 0)
    for batch, expected in zip(rest, whole[first:], strict=True):
        assert np.array_equal(batch.pairs, expected.pairs) and batch.queries == expected.queries
        assert np.array_equal(batch.negatives, expected.negatives)
