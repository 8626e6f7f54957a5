"""Orders of an epoch that are computed place by place."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from vsepp.training.order import Bijection, WindowOrder

seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(st.integers(1, 700), seeds)
def test_each_number_has_one_place(size, seed):
    assert sorted(Bijection(size, seed)(np.arange(size))) == list(range(size))


def test_a_place_does_not_depend_on_what_else_is_asked_for():
    order = Bijection(10**12 + 39, 5)
    places = np.random.default_rng(0).integers(0, order.size, 1000)
    together = order(places)
    assert [int(order(places[row : row + 1])[0]) for row in range(1000)] == together.tolist()
    assert together.min() >= 0 and together.max() < order.size
    assert not np.array_equal(together, Bijection(10**12 + 39, 6)(places))


def test_places_of_a_number_are_uniform_over_the_keys():
    counts = np.zeros((10, 10))
    for seed in range(2000):
        counts[np.arange(10), Bijection(10, seed)(np.arange(10))] += 1
    assert chisquare(counts.ravel()).pvalue > 1e-3


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 6), seeds, st.integers(0, 3))
def test_each_pair_comes_once_and_a_window_has_whole_shards(pairs, shard, window, seed, epoch):
    order = WindowOrder(pairs, shard, window, seed, epoch).take(np.arange(pairs))
    assert sorted(order) == list(range(pairs))
    shards = order // shard
    seen = [shards[0]]  # shards in the order in which they first come
    seen += [each for before, each in itertools.pairwise(shards) if each != before]
    first_seen = list(dict.fromkeys(seen))
    assert len(first_seen) == -(-pairs // shard)
    # A shard's pairs all lie in the places of its window.
    start = 0
    while start < pairs:
        inside = set(shards[start : start + 1])
        end = start
        while len(inside) <= window and end < pairs:
            end += 1
            if end < pairs and shards[end] not in inside:
                if len(inside) == window:
                    break
                inside.add(shards[end])
        assert not inside & set(shards[end:])
        start = end


def test_pairs_of_a_window_are_mixed_and_epochs_differ():
    orders = [WindowOrder(1000, 50, 4, 0, epoch).take(np.arange(1000)) for epoch in range(2)]
    assert not np.array_equal(*orders)
    for order in orders:
        assert len(set(order[:20] // 50)) == 4
        assert (np.diff(order) == 1).mean() < 0.05


@pytest.mark.parametrize("pairs", [10**8, 10**8 + 7])
def test_a_large_corpus_needs_no_table(pairs):
    order = WindowOrder(pairs, 4096, 16, 1, 2)
    drawn = order.take(np.arange(pairs - 512, pairs))
    assert len(set(drawn)) == 512 and drawn.min() >= 0 and drawn.max() < pairs
    assert len(set(drawn // 4096)) <= 32
