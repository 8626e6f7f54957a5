"""The order in which an epoch uses the pairs: a function of the seed and the epoch that gives the pair at any place."""

from __future__ import annotations

import math

import numpy as np

from vsepp.features.hashed import mixed
from vsepp.spec import ScheduleSpec

# First word of each generator's seed, so that order, extra pairs, shards and windows are independent draws.
_ORDER, _EXTRA, _SHARDS, _WINDOW = 1, 2, 4, 5
_ROUNDS = 8


def order_of(pairs: int, schedule: ScheduleSpec, order_seed: int, epoch: int) -> Permutation | WindowOrder:
    """The order that a schedule names."""
    if schedule.order == "windows":
        return WindowOrder(pairs, schedule.order_shard, schedule.order_window, order_seed, epoch)
    return Permutation(pairs, order_seed, epoch)


class Permutation:
    """A permutation of all pairs, in memory; further pairs are sampled uniformly."""

    def __init__(self, pairs: int, order_seed: int, epoch: int) -> None:
        self._seed = order_seed, epoch
        self.order = np.random.default_rng((_ORDER, *self._seed)).permutation(pairs)

    def take(self, places: np.ndarray) -> np.ndarray:
        """The pairs at some places, int64 `(n,)` both."""
        return self.order[places]

    def further(self, asked: np.ndarray, end: int, count: int, step: int) -> np.ndarray:
        """Pairs int64 `(count,)` besides a step's own pairs, no pair twice; all other pairs where there are fewer.

        Parameters
        ----------
        asked, end
            The pairs of the step, and the place after their last one.
        count
            How many.
        step
            From 0.
        """
        rest = np.delete(np.arange(len(self.order)), asked)
        generator = np.random.default_rng((_EXTRA, *self._seed, step))
        return generator.choice(rest, min(count, len(rest)), replace=False)


class WindowOrder:
    """An order in which neighbouring pairs stay near each other, computed place by place.

    Shards of neighbouring pairs come in a random order, and the pairs of some shards at a time, a window, are mixed. So a step reads
    from a window or two, and there is no table of all pairs. Further pairs are the next ones in the order.

    Parameters
    ----------
    pairs
        How many there are.
    shard, window
        Pairs of a shard, and shards of a window.
    order_seed, epoch
        Seed and epoch that the order is a function of.
    """

    def __init__(self, pairs: int, shard: int, window: int, order_seed: int, epoch: int) -> None:
        self._pairs, self._shard, self._window = pairs, shard, window
        self._seed = order_seed, epoch
        self._whole, self._rest = divmod(pairs, shard)
        self._shards = Bijection(max(self._whole, 1), _SHARDS, *self._seed)
        # Slot of the short shard, which holds the pairs left over, among the whole shards; behind them all if there is none.
        self._short = self._whole
        if self._rest:
            self._short = int(np.random.default_rng((_SHARDS, *self._seed)).integers(self._whole + 1))

    def take(self, places: np.ndarray) -> np.ndarray:
        """See `Permutation`."""
        mixed = np.empty_like(places)
        windows = self._slots(places) // self._window
        last = self._whole + bool(self._rest)
        for window in np.unique(windows):
            inside = windows == window
            slots = np.minimum(np.array([window, window + 1]) * self._window, last)
            start, end = self._starts(slots)
            order = Bijection(int(end - start), _WINDOW, *self._seed, int(window))
            mixed[inside] = start + order(places[inside] - start)
        slots = self._slots(mixed)
        whole = self._shards(np.minimum(slots - (slots > self._short), self._shards.size - 1))
        return np.where(slots == self._short, self._whole, whole) * self._shard + mixed - self._starts(slots)

    def further(self, asked: np.ndarray, end: int, count: int, step: int) -> np.ndarray:
        """See `Permutation`."""
        return self.take((end + np.arange(min(count, self._pairs - len(asked)))) % self._pairs)

    def _slots(self, places: np.ndarray) -> np.ndarray:
        """Slot of each place: index, in the order of the shards, of the shard that holds it."""
        start = self._short * self._shard
        behind = np.where(places < start + self._rest, self._short, (places - self._rest) // self._shard + 1)
        return np.where(places < start, places // self._shard, behind)

    def _starts(self, slots: np.ndarray) -> np.ndarray:
        """First place of each of some slots."""
        return slots * self._shard - (self._shard - self._rest) * (slots > self._short)


class Bijection:
    """A keyed order of the numbers below n without a table.

    A Feistel network over the next power of four; a number that it maps to n or beyond is mapped again until it lies below n.

    Parameters
    ----------
    size
        n, at least 1.
    seed
        Words of the key.
    """

    def __init__(self, size: int, *seed: int) -> None:
        self.size = size
        self._bits = np.uint64(max(1, math.ceil((size - 1).bit_length() / 2)))
        self._half = np.uint64((1 << int(self._bits)) - 1)
        self._keys = np.random.SeedSequence(seed).generate_state(_ROUNDS, np.uint64)

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """The numbers at some places, int64 `(n,)` both."""
        numbers = self._mapped(places.astype(np.uint64))
        while (beyond := numbers >= self.size).any():
            numbers[beyond] = self._mapped(numbers[beyond])
        return numbers.astype(np.int64)

    def _mapped(self, numbers: np.ndarray) -> np.ndarray:
        left, right = numbers >> self._bits, numbers & self._half
        for key in self._keys:
            left, right = right, left ^ (mixed(right + key) & self._half)
        return (left << self._bits) | right
