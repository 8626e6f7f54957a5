"""How sure a difference of recalls is: over the test images, and over the seeds.

A metric is taken apart into one value per image, its captions together, since captions of one image are not
independent. The mean of these values is the metric. Two models are compared on the same images. Where images have unequal
numbers of captions, a recall of image retrieval is a ratio of two sums over images, and the values are its linearisation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.base.words import p_text

LEVEL = 0.95
ALPHA = 0.05
"""A p value below it, corrected for the number of tests, tells a difference."""
RESAMPLES = 9999
# Resamples at once.
_BATCH = 1000
# Values of seeds that lie closer together are equal: they differ by rounding.
_EQUAL = 1e-9
# Units of a permutation test: with more images, each unit is a block of images, drawn by lot.
_UNITS = 1000


@dataclass(frozen=True)
class Interval:
    """A 95 % interval."""

    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 where the interval lies on one side of zero, else 0."""
        return int(self.low > 0) - int(self.high < 0)

    def within(self, margin: float) -> bool:
        """Whether it lies between minus `margin` and `margin`."""
        return -margin < self.low and self.high < margin


@dataclass(frozen=True, eq=False)
class Level:
    """One metric of one model, over its seeds."""

    by_seed: tuple[float, ...]
    values: Callable[[], np.ndarray] | None = None
    """Gives the value of each test image, mean over the seeds, `(n_images,)`; `None` of a metric that no values per image average to."""

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return float(np.mean(self.by_seed))

    @property
    def sd(self) -> float | None:
        """Sample standard deviation over the seeds; `None` with one seed."""
        return _sd(self.by_seed)

    @cached_property
    def images(self) -> Interval | None:
        """Bootstrap over the test images, of the mean over the seeds."""
        return image_interval(self.values()) if self.values else None

    @cached_property
    def seeds(self) -> Interval | None:
        """Student's t over the seeds; see `seed_interval`."""
        return seed_interval(self.by_seed)

    @property
    def interval(self) -> Interval | None:
        """The wider one of both intervals."""
        return _wider(self.images, self.seeds)


@dataclass(frozen=True)
class Effect:
    """A difference between models in one metric, seed by seed."""

    value: float
    """Mean over the seeds, in points."""
    by_seed: tuple[float, ...]
    images: Interval | None = None
    """Bootstrap over the test images, of the mean over the seeds; `None` of curves of validation."""
    seeds: Interval | None = None
    """Student's t over the seeds; `None` with one seed, and where the seeds agree to the last digit."""
    p: float | None = None
    """p of a paired permutation test over the images, two-sided, corrected for all effects of a page; see `corrected`."""
    p_alone: float | None = None
    """p as the test gave it."""
    lone_side: bool = False
    """Whether one seed of a side stands beside several seeds of the other side."""

    @property
    def sd(self) -> float | None:
        """Sample standard deviation over the seeds; `None` with one seed."""
        return _sd(self.by_seed)

    @property
    def one_seed(self) -> bool:
        """Whether a side has one seed alone, which settles nothing."""
        return len(self.by_seed) < 2 or self.lone_side

    @property
    def sign(self) -> int:
        """1 or -1 where the difference counts; see `why`. Else 0."""
        return self.seeds.sign if self.seeds and not self.why else 0

    @property
    def why(self) -> str:
        """Why the difference does not count; empty where it does.

        It counts where both sides have several seeds, zero lies outside both intervals, on the same side, and p is below `ALPHA`.
        """
        if self.one_seed:
            return "one seed"
        if self.seeds is None:
            return "the seeds have equal results, so they give no interval"
        if self.images and not self.images.sign:
            return "the interval over the images contains zero"
        if not self.seeds.sign or (self.images and self.images.sign != self.seeds.sign):
            return "the interval over the seeds contains zero"
        if self.p is not None and self.p >= ALPHA:
            return f"p {p_text(self.p)} after Holm"
        return ""

    @property
    def interval(self) -> Interval | None:
        """The wider one of both intervals."""
        return _wider(self.images, self.seeds)

    @property
    def bounds(self) -> list[Interval]:
        """Both intervals, as far as there are any."""
        return [interval for interval in (self.images, self.seeds) if interval]

    def within(self, margin: float) -> bool:
        """Whether there are intervals, and all lie between minus `margin` and `margin`."""
        return bool(self.bounds) and all(interval.within(margin) for interval in self.bounds)


def _wider(images: Interval | None, seeds: Interval | None) -> Interval | None:
    """The wider one of the intervals over the images and over the seeds, where there are any."""
    intervals = filter(None, (images, seeds))
    return max(intervals, key=lambda interval: interval.high - interval.low, default=None)


def image_interval(values: np.ndarray) -> Interval:
    """95 % bootstrap interval of a metric, from its values `(n_images,)`."""
    return image_intervals(values[None])[0]


def image_intervals(values: np.ndarray) -> list[Interval]:
    """95 % bootstrap intervals, by percentiles, of several metrics, from values `(n_metrics, n_images)`; all see the same resamples.

    A sum over a resample is a sum over all images, each times how often it was drawn.
    """
    n_images = values.shape[1]
    times = _times_drawn(n_images, RESAMPLES)
    sums = [times[first : first + _BATCH].astype(float) @ values.T for first in range(0, RESAMPLES, _BATCH)]
    ends = np.percentile(np.concatenate(sums) / n_images, [50 * (1 - LEVEL), 50 * (1 + LEVEL)], axis=0)
    return [Interval(float(low), float(high)) for low, high in ends.T]


@lru_cache(maxsize=1)
def _times_drawn(n_images: int, resamples: int) -> np.ndarray:
    """How often each resample has each image, `(resamples, n_images)`: 50 MB for 5,000 images."""
    rng = np.random.default_rng(0)
    times = np.empty((resamples, n_images), np.uint8)  # no image is drawn 256 times
    for rows in np.array_split(times, len(times) // 100 + 1):
        drawn = rng.integers(0, n_images, rows.shape)
        rows[:] = [np.bincount(images, minlength=n_images) for images in drawn]
    return times


def effect(baseline: Sequence[np.ndarray], model: Sequence[np.ndarray], tests: int = 1) -> Effect:
    """How much larger the values of a model are than those of a baseline.

    Parameters
    ----------
    baseline, model
        Per seed the values of the same images, `(n_images,)`, from `per_image`; the seeds in the same order, or one seed of a side,
        which is held against each seed of the other. For a difference of differences, `(a - b) - (c - d)`, give `b + c` and `a + d`.
    tests
        Number of tests that p will be corrected for: with many tests, more permutations, so that a small p can still be told.

    Raises
    ------
    VseppError
        Without seeds or with fewer than two images, and where both were measured on different numbers of images or seeds.
    """
    shapes = np.shape(baseline), np.shape(model)
    whole = all(len(shape) == 2 and shape[0] > 0 and shape[1] > 1 for shape in shapes)
    if not whole or shapes[0][1] != shapes[1][1] or len({1, shapes[0][0], shapes[1][0]}) > 2:
        raise VseppError(
            f"expected values of the same seeds and of at least two images, got (seeds, images) {shapes[0]} and {shapes[1]}"
        )
    by_seed = np.mean(np.subtract(model, baseline), axis=1)
    first, second = np.mean(baseline, axis=0), np.mean(model, axis=0)
    p = _permutation_p(first, second, max(RESAMPLES, round(4 * tests / ALPHA)))
    return Effect(
        value=float(np.mean(by_seed)),
        by_seed=tuple(map(float, by_seed)),
        images=image_interval(second - first),
        seeds=seed_interval(by_seed),
        p=p,
        p_alone=p,
        lone_side=len(baseline) != len(model),
    )


def corrected(effects: Sequence[Effect]) -> list[Effect]:
    """Effects with their p corrected for the number of all that have one, see `holm`."""
    values = iter(holm([effect.p_alone for effect in effects if effect.p_alone is not None]))
    return [effect if effect.p_alone is None else replace(effect, p=next(values)) for effect in effects]


def seed_interval(values: Sequence[float] | np.ndarray, least_sd: float = 0.0) -> Interval | None:
    """95 % interval of a mean over seeds, by Student's t; `None` with one seed, and where all values are equal, which tell no spread.

    Parameters
    ----------
    values
        One value per seed.
    least_sd
        A standard deviation that the values have at least, as by rounding.
    """
    values = np.asarray(values, float)
    sd = max(_sd(values) or 0.0, least_sd)
    if len(values) < 2 or not sd:
        return None
    from scipy import stats

    ends = stats.t.interval(LEVEL, len(values) - 1, loc=values.mean(), scale=sd / len(values) ** 0.5)
    return Interval(*map(float, ends))


def _sd(values: Sequence[float] | np.ndarray) -> float | None:
    """Sample standard deviation; 0 of values that are equal but for rounding, `None` of one value."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1)) if np.ptp(values) > _EQUAL else 0.0


def mcnemar(first: np.ndarray, second: np.ndarray) -> float:
    """P value of the exact McNemar test that as many queries are found by the first model alone as by the second alone.

    Parameters
    ----------
    first, second
        `(n_queries,)`, above 0 where the query finds a correct item: caption retrieval's R@1, one query per image.
    """
    from scipy import stats

    first, second = np.asarray(first) > 0, np.asarray(second) > 0
    alone, differ = int(np.sum(first & ~second)), int(np.sum(first != second))
    return float(stats.binomtest(alone, differ).pvalue) if differ else 1.0


def holm(values: Sequence[float]) -> list[float]:
    """P values corrected for their number, after Holm (1979): the k-th smallest of n times n − k + 1, none below a smaller p's value."""
    order = np.argsort(values, kind="stable")
    steps = np.asarray(values, float)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.tolist()


def _difference(first: np.ndarray, second: np.ndarray, axis: int = -1) -> Any:
    return np.mean(second, axis=axis) - np.mean(first, axis=axis)


def _permutation_p(first: np.ndarray, second: np.ndarray, permutations: int) -> float:
    from scipy import stats

    rng = np.random.default_rng(0)
    # Images on which both are equal change no permutation's statistic but its scale.
    differ = rng.permutation(np.flatnonzero(first != second))
    if len(differ) < 2:
        return 1.0
    # Where models may be exchanged image by image they may be so block by block: a test of the same level, in a fifth of
    # the time for 5,000 images.
    starts = np.unique(np.linspace(0, len(differ), _UNITS, endpoint=False, dtype=int))
    blocks = [np.add.reduceat(values[differ], starts) for values in (first, second)]
    test = stats.permutation_test(
        blocks, _difference, permutation_type="samples", vectorized=True,
        n_resamples=permutations, batch=_BATCH, rng=rng,
    )  # fmt: skip
    return float(test.pvalue)
