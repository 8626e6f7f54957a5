"""Intervals and tests against known cases, and against data that were made up so that the truth is known."""

from dataclasses import astuple
from math import comb, erfc

import numpy as np
import pytest
from embedded_sets import noisy, under
from scipy import stats
from trained_models import ranks_of

from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import (
    Effect,
    Level,
    corrected,
    effect,
    holm,
    image_interval,
    image_intervals,
    mcnemar,
    seed_interval,
)
from vsepp.evaluation.metrics import RECALLS, per_image

# Three images with two, one and three captions.
OWNER = np.array([0, 0, 1, 2, 2, 2])
RANKS = ranks_of([0, 4.5, 12], [0, 7, 0.5, 1, 0, 20.0], owner=OWNER)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("i2t_r1", [100, 0, 0]),
        ("i2t_r5", [100, 100, 0]),
        ("i2t_r10", [100, 100, 0]),
        # Six captions of three images: one that is found is worth 100 / 2, each one takes half of the recall from its image.
        ("t2i_r1", [50 + 50 - 50, 50 + 50 - 25, 50 + 50 - 75]),
        ("t2i_r5", [50, 50 + 200 / 3 / 2, 100 - 200 / 3 / 2]),
        ("t2i_r10", [100, 50 + 250 / 3 / 2, 100 - 250 / 3 / 2]),
        ("rsum", [500, 450, 150]),
    ],
)
def test_values_per_image_by_hand(metric, expected):
    np.testing.assert_allclose(per_image(RANKS, metric), expected)


def test_in_folds_each_caption_counts_within_its_own():
    # The second fold has two images with four captions: one found is worth 100 × 2 / 4.
    owner = np.array([0, 1, 2, 2, 2, 3])
    folds, whole = (ranks_of(np.zeros(4), [0, 5, 0, 0, 9, 9.0], fold, owner) for fold in (2, 4))
    np.testing.assert_allclose(per_image(folds, "t2i_r1"), [100, 0, 75, 25])
    of_all = np.array([1, 0, 2, 0]) * 100 / 1.5 + 50 * (1 - np.array([1, 1, 3, 1]) / 1.5)
    np.testing.assert_allclose(per_image(whole, "t2i_r1"), of_all)


def test_with_many_tests_a_small_p_can_still_be_told():
    first = np.random.default_rng(0).normal(0, 1, 400)
    few, many = (effect([first], [first + 30], tests).p for tests in (1, 400))
    assert 400 * few > 0.05 > 400 * many


@pytest.mark.parametrize("protocol", ["5x1K", "5K"])
@pytest.mark.parametrize("metric", (*RECALLS, "rsum"))
def test_the_mean_over_the_images_is_the_metric(protocol, metric):
    rng = np.random.default_rng(3)
    owner = rng.permutation(np.repeat(np.arange(53), rng.integers(1, 6, 53)))
    evaluation = under(noisy(owner, 8, 1.5, rng), protocol, 10)
    values = per_image(evaluation.ranks, metric)
    direction, _, name = metric.partition("_")
    side = (
        evaluation.metrics.rsum if metric == "rsum" else getattr(getattr(evaluation.metrics, direction), name)
    )
    assert np.mean(values) == pytest.approx(side, abs=1e-9)


def test_mcnemar_is_the_binomials_tail():
    # Found by the first alone: 2 queries; by the second alone: 9; by both: 5; by neither: 4.
    first = np.repeat([100, 0, 100, 0], [2, 9, 5, 4])
    second = np.repeat([0, 100, 100, 0], [2, 9, 5, 4])
    expected = 2 * sum(comb(11, k) for k in (0, 1, 2)) / 2**11
    assert mcnemar(first, second) == mcnemar(second, first) == pytest.approx(expected)
    assert expected == pytest.approx(0.0654, abs=1e-4)
    assert mcnemar(first, first) == 1


def test_holm_by_hand():
    # Ascending .01, .02, .03, .04 times 4, 3, 2, 1, and none below the one before it.
    assert holm([0.02, 0.01, 0.04, 0.03]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert holm([]) == []


def test_students_t_over_the_seeds():
    # Mean 3, sample standard deviation sqrt(2.5), t(4) at .975 is 2.776.
    interval = seed_interval([1, 2, 3, 4, 5])
    half = 2.776445 * np.sqrt(2.5 / 5)
    assert (interval.low, interval.high) == pytest.approx((3 - half, 3 + half), abs=1e-5)
    assert seed_interval([1]) is None


def test_an_effect_is_the_second_less_the_first_seed_by_seed():
    rng = np.random.default_rng(0)
    first = [100.0 * (rng.random(400) < 0.4) for _ in range(3)]
    second = [np.where(rng.random(400) < 0.3, 100.0, values) for values in first]
    difference = effect(first, second)
    assert difference.by_seed == pytest.approx(
        [b.mean() - a.mean() for a, b in zip(first, second, strict=True)]
    )
    assert difference.value == pytest.approx(np.mean(difference.by_seed))
    assert difference.seeds == seed_interval(difference.by_seed)
    assert difference.images.low < difference.value < difference.images.high
    assert difference.p < 0.001
    turned = effect(second, first)
    assert turned.value == pytest.approx(-difference.value)


def test_a_permutation_of_few_images_is_exact():
    # Five images differ, all for the second model: 2 of 2^5 signs are as extreme.
    first, second = np.zeros(30), np.repeat([0.0, 100.0], [25, 5])
    assert effect([first], [second]).p == pytest.approx(2 / 2**5)
    assert effect([first], [first]).p == 1
    assert effect([first], [np.repeat([0.0, 100.0], [29, 1])]).p == 1


@pytest.mark.parametrize("images", [900, 5000])
def test_a_permutation_of_many_images_agrees_with_the_normal_approximation(images):
    rng = np.random.default_rng(2)
    first = rng.normal(50, 20, images)
    second = first + rng.normal(2.5 * 20 / np.sqrt(images), 20, images)
    z = np.sum(second - first) / np.sqrt(np.sum((second - first) ** 2))
    assert effect([first], [second]).p == pytest.approx(erfc(abs(z) / np.sqrt(2)), rel=0.3, abs=0.002)


BASE, BETTER, WORSE = np.zeros(200), np.repeat([0.0, 100.0], [150, 50]), np.repeat([0.0, -100.0], [190, 10])
NEARLY = np.repeat([0.0, 100.0], [151, 49])


@pytest.mark.parametrize(
    ("first", "second", "sign", "why"),
    [
        ([BASE, BASE], [BETTER, NEARLY], 1, ""),
        ([BETTER, NEARLY], [BASE, BASE], -1, ""),
        ([BASE], [BETTER], 0, "one seed"),
        ([BASE, BASE], [BETTER, BETTER], 0, "equal results"),
        ([BASE, BASE], [BETTER, WORSE], 0, "over the seeds"),
        (
            [BASE, BASE],
            [BASE, np.repeat([0.0, 100.0], [199, 1])],
            0,
            "over the images",
        ),
    ],
)
def test_a_difference_counts_where_seeds_and_images_say_so_else_it_is_said_why(first, second, sign, why):
    difference = effect(first, second)
    assert difference.sign == sign and why in difference.why


def test_all_that_is_told_together_is_corrected_together():
    several = [effect([BASE, BASE], [BETTER, NEARLY]), effect([BASE], [BASE])]
    curve = Effect(1.0, (1.0, 1.0))
    first, second, third = corrected([*several, curve])
    assert (first.p, second.p) == tuple(holm([effect_alone.p for effect_alone in several])) and third == curve
    assert (first.p_alone, second.p_alone) == (several[0].p, several[1].p)


def test_a_level_has_mean_deviation_and_both_intervals():
    values = 100.0 * (np.random.default_rng(0).random((3, 400)) < [[0.4], [0.45], [0.5]])
    by_seed = tuple(values.mean(axis=1))
    level = Level(by_seed, lambda: values.mean(axis=0))
    assert (level.mean, level.sd) == pytest.approx((np.mean(by_seed), np.std(by_seed, ddof=1)))
    assert level.images == image_interval(values.mean(axis=0)) and level.seeds == seed_interval(by_seed)
    assert level.interval == max(level.images, level.seeds, key=lambda interval: interval.high - interval.low)
    alone = Level(by_seed[:1])
    assert (alone.sd, alone.images, alone.seeds, alone.interval) == (None, None, None, None)


def test_intervals_over_images_are_those_of_scipy_and_of_all_metrics_equal_those_of_each():
    values = np.random.default_rng(0).normal(3, 40, (2, 250))
    expected = [
        stats.bootstrap(
            (of_metric,),
            np.mean,
            method="percentile",
            n_resamples=intervals.RESAMPLES,
            rng=np.random.default_rng(0),
        ).confidence_interval
        for of_metric in values
    ]
    np.testing.assert_allclose([astuple(interval) for interval in image_intervals(values)], expected)
    np.testing.assert_allclose([astuple(image_interval(of_metric)) for of_metric in values], expected)


def test_the_intervals_hold_the_truth_as_often_as_they_say(monkeypatch):
    # Five captions of an image succeed together: an interval that took them for independent would hold it in 4 of 5 draws.
    monkeypatch.setattr(intervals, "RESAMPLES", 399)
    rng, draws, inside, paired = np.random.default_rng(0), 200, 0, 0
    owner = np.repeat(np.arange(300), 5)
    for _ in range(draws):
        # How easy an image is, for both models: they find 45 % and 48.3 % of all captions.
        easy = rng.beta(0.9, 1.1, 300)
        first, second = (
            ranks_of(np.zeros(300), np.where(rng.random(1500) < share[owner], 0.0, 50.0))
            for share in (easy, 0.06 + 0.94 * easy)
        )
        a, b = (per_image(ranks, "t2i_r1") for ranks in (first, second))
        single = image_interval(a)
        inside += single.low < 45 < single.high
        both = image_interval(b - a)
        paired += both.low < 3.3 < both.high
    assert 0.92 <= inside / draws <= 0.98
    assert 0.92 <= paired / draws <= 0.98
