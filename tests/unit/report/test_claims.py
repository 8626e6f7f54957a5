"""Each kind of claim, each verdict: on models that were made up so that the answer is known."""

import csv
import re
from dataclasses import replace

import numpy as np
import pytest
from plans import PARAMS, plan
from pydantic import TypeAdapter
from reported import ranks_of

from vsepp.base.errors import VseppError
from vsepp.evaluation.ranks import chance_rsum
from vsepp.report import text, verdicts
from vsepp.report.entries import Claim, ReportSpec
from vsepp.report.verdicts import NO_DIFFERENCE, OUTCOMES, SIGNS, Measured, Verdict, counts, of_the_paper

pytestmark = pytest.mark.usefixtures("few_resamples")
PROTOCOL = "5x1K"
ROLES = ("coco", "vgg")


def claim(kind="difference", runs=("a", "b"), metric="i2t_r1", published=None, place="Section 1", **values):
    if kind not in ("crossing", "overfitting", "start"):
        values.setdefault("protocol", PROTOCOL)
    keys = {"claim": "A claim.", "place": place, "kind": kind, "runs": runs, "published": {metric: published}}
    return TypeAdapter(Claim).validate_python({**keys, **values})


def judge(claims, context, records, published=None):
    """Each claim about its metric; all runs have the data and the encoder of `ROLES`."""
    runs = {
        run: dict(zip(("dataset", "encoder"), ROLES, strict=True)) for claim in claims for run in claim.named
    }
    named = [(f"claim{place}", claim) for place, claim in enumerate(claims)]
    return verdicts.judge(named, ReportSpec(context, runs=runs), records, published or {})


def ranks(i2t_r1, t2i_r1=30, n_images=500, lot=0):
    """Ranks with R@1 of these shares, spread over the images by lot; equal lots let the better model keep what the other finds."""
    rng = np.random.default_rng(lot)
    found = (
        np.where(rng.permutation(queries) < round(queries * recall / 100), 0.0, 20.0)
        for queries, recall in ((n_images, i2t_r1), (5 * n_images, t2i_r1))
    )
    return ranks_of(*found)


def add(models, levels, **values):
    """R@1 of caption retrieval of each run, seed by seed."""
    for run, seeds in levels.items():
        for seed, level in enumerate(seeds):
            models.add(run, seed=seed, protocol=PROTOCOL, ranks=ranks(level, lot=seed), **values)


def add_curves(models, **curves):
    """R@1 of caption retrieval on validation of each run, seed by seed."""
    for run, seeds in curves.items():
        for seed, curve in enumerate(seeds):
            models.add(run, seed=seed, history=curve, ranks=ranks(40))


def value_of(verdict):
    """Of its effect, where there is one."""
    return verdict.effect and verdict.effect.value


@pytest.fixture
def verdict(models, context):
    """Judge one claim: `levels` has R@1 of caption retrieval of each run, seed by seed."""

    def judged(spec, levels, where=None, published=None, **values):
        add(models, levels, **values)
        (found,) = judge([spec], where or context, models.records, published)
        return found

    return judged


ZERO = "the interval over the seeds contains zero"
START = claim("start", metric="rsum", sign=-1)


@pytest.mark.parametrize(
    ("levels", "word", "why"),
    [
        ({"a": (50, 51, 50.2), "b": (40, 41.2, 40)}, "reproduced", ""),
        ({"a": (43, 43.2, 43.1), "b": (40, 40.1, 40)}, "smaller", "+3.1 for +5.0"),
        ({"a": (40, 41.2, 40), "b": (50, 51, 50.2)}, "opposite", ""),
        ({"a": (50,), "b": (40,)}, "inconclusive (one seed)", "the interval over the images lies above zero"),
        ({"a": (40,), "b": (50,)}, "inconclusive (one seed)", "the interval over the images lies below zero"),
        ({"a": (52, 41, 40.4), "b": (40, 40.2, 40.4)}, "inconclusive", ZERO),
        ({"a": (40, 40.2, 40.2), "b": (40, 40.2, 40)}, "no difference", "within ±1"),
    ],
)  # fmt: skip
def test_a_difference_on_the_papers_own_data(verdict, own_data, levels, word, why):
    found = verdict(claim(published=5.0), levels, own_data)
    assert (found.word, found.why, found.own) == (word, why, True)
    assert found.effect.value == pytest.approx(np.mean(levels["a"]) - np.mean(levels["b"]), abs=0.1)
    assert found.ratio == pytest.approx(found.effect.value / 5)
    assert found.measured.seeds == len(levels["a"]) == len(found.measured.mcnemar)
    assert (found.effect.seeds is None) is (found.measured.seeds == 1)
    if found.measured.seeds == 1:
        assert found.effect.p < 0.05, "over the images alone it would be told"


def test_a_claim_may_be_about_any_metric_that_is_a_mean_over_the_queries(models, own_data):
    models.add("a", protocol=PROTOCOL, ranks=ranks(50, 40))
    models.add("b", protocol=PROTOCOL, ranks=ranks(50, 30))
    (found,) = judge([claim(metric="t2i_mapr")], own_data, models.records)
    # One image each: found first it counts 1, else it lies beyond the first place and counts nothing.
    assert found.effect.value == pytest.approx(10)


def test_the_papers_number_has_the_spread_of_one_seed(verdict, own_data):
    levels = {"a": (50, 52, 51), "b": (40, 41, 42)}
    found = verdict(claim(published=5.0), levels, own_data)
    assert found.paper_sd == pytest.approx(np.std([10, 11, 9], ddof=1))
    without = verdict(claim(), {}, own_data)
    assert without.paper_sd is None


@pytest.mark.parametrize(
    ("published", "word"), [(0.2, "inconclusive"), (5.0, "no difference"), (None, "no difference")]
)
def test_an_effect_below_the_margin_is_not_refuted_by_one_of_its_own_size(verdict, own_data, published, word):
    levels = {"a": (40.2, 40.4, 40.2), "b": (40.2, 40.2, 40.4)}
    assert verdict(claim(published=published), levels, own_data).word == word


def test_no_difference_needs_zero_in_both_intervals(verdict, own_data):
    """The seeds agree that there is one, of .4 points; the images do not tell."""
    found = verdict(claim(published=5.0), {"a": (40.4, 40.6, 40.4), "b": (40, 40.2, 40.2)}, own_data)
    assert found.effect.seeds.low > 0 and found.effect.images.within(1)
    assert found.word == "inconclusive"


def add_few_images(models):
    """Each of three seeds finds seven or eight images more, all seeds the same images: p is .01."""
    for seed, level in enumerate((41.4, 41.6, 41.4)):
        models.add("a", seed=seed, ranks=ranks(level))
        models.add("b", seed=seed, ranks=ranks(40))


@pytest.mark.parametrize(
    "changes", [{"data_note": "Other data."}, *({"titles": {role: "another"}} for role in ROLES)]
)
@pytest.mark.parametrize(
    ("kind", "b", "word"),
    [("difference", (48, 48.1, 48), "same direction"), ("no_difference", (51, 50.8, 51), "no difference")],
)
def test_other_data_or_encoders_than_the_papers_never_say_reproduced(
    verdict, own_data, changes, kind, b, word
):
    """Nor are sizes on them compared."""
    where = replace(own_data, **{**changes, "titles": {**own_data.titles, **changes.get("titles", {})}})
    found = verdict(claim(kind, published=5.0, margin=2.0), {"a": (51, 51.2, 51), "b": b}, where)
    assert (found.word, found.own) == (word, False)


def test_a_comparison_of_ones_own_is_not_reproduced_on_any_data(verdict, own_data):
    found = verdict(claim(place=""), {"a": (50, 51, 50.2), "b": (40, 41.2, 40)}, own_data)
    assert found.word == "same direction"
    theirs, ours = of_the_paper([found, replace(found, spec=claim())])
    assert [len(theirs), len(ours)] == [1, 1] and ours == [found]


def test_a_noisy_difference_is_inconclusive(models, own_data):
    for seed in (0, 1):
        models.add("a", seed=seed, ranks=ranks(42 + seed / 5, lot=0))
        models.add("b", seed=seed, ranks=ranks(40, lot=1))
    (found,) = judge([claim()], own_data, models.records)
    assert (found.word, found.why) == ("inconclusive", "the interval over the images contains zero")
    assert found.effect.images.low < 0 < found.effect.images.high


def test_seeds_that_agree_to_the_last_digit_tell_no_interval(verdict, own_data):
    found = verdict(claim(published=5.0), {"a": (50, 50, 50), "b": (40, 40, 40)}, own_data)
    assert (found.word, found.effect.seeds, found.paper_sd) == ("inconclusive", None, None)
    assert "the seeds have equal results" in found.why


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("difference", {}), ("difference", {"runs": ("a",), "row": "1.1"}), ("no_difference", {}),
        ("difference_of_differences", {"runs": ("a", "b", "c", "d")}), ("best_value", {"best": (2, 2), "runs": {1: "a", 2: "b"}}),
        ("crossing", {}), ("start", {}), ("overfitting", {}),
    ],
)  # fmt: skip
def test_equal_results_of_runs_and_seeds_are_inconclusive_for_every_kind(verdict, own_data, kind, more):
    theirs = {("", "1.1"): {"i2t_r1": "40.0"}}
    found = verdict(claim(kind, **more), dict.fromkeys("abcd", (40, 40)), own_data, theirs)
    assert (found.word, found.measured.seeds) == ("inconclusive", 2)


def test_a_claim_that_something_is_lower(verdict, own_data):
    levels = {"a": (40, 41.2, 40), "b": (50, 51, 50.2)}
    assert verdict(claim(sign=-1), levels, own_data).word == "reproduced"
    found = verdict(claim(sign=-1, published=-20.0), {}, own_data)
    assert (found.word, found.why) == ("smaller", "−10.0 for −20.0")


@pytest.mark.parametrize(
    ("kind", "a", "b", "word"),
    [
        ("no_difference", (40.2, 40.2, 40.4), (40.2, 40.2, 40.2), "reproduced"),
        ("no_difference", (50, 50.2), (40.2, 40.2), "opposite"),
        ("no_difference", (40.2,), (38.8,), "inconclusive (one seed)"),
    ],
)
def test_no_difference(verdict, own_data, kind, a, b, word):
    assert verdict(claim(kind), {"a": a, "b": b}, own_data).word == word


def test_no_difference_is_not_what_is_merely_not_shown(models, own_data):
    for run, lot in (("a", 0), ("b", 1)):
        for seed in (0, 1):
            models.add(run, seed=seed, ranks=ranks(40 + 0.2 * seed * lot, lot=lot))
    (found,) = judge([claim("no_difference")], own_data, models.records)
    assert (found.word, found.why) == ("inconclusive", "not within ±1")


def test_a_difference_of_differences(verdict, own_data):
    spec = claim("difference_of_differences", ("a", "b", "c", "d"), published=8.0)
    levels = {"a": (60, 61, 60), "b": (50, 51.2, 50), "c": (45, 45.2, 45), "d": (43, 43, 43.2)}
    found = verdict(spec, levels, own_data)
    assert found.word == "reproduced"
    by_seed = [a - b - (c - d) for a, b, c, d in zip(*levels.values(), strict=True)]
    assert found.effect.value == pytest.approx(np.mean(by_seed))
    assert found.ratio == pytest.approx(found.effect.value / 8)
    assert found.measured.mcnemar == (), "which is of two models"


@pytest.mark.parametrize(("against", "word"), [(30.0, "reproduced"), (40.0, "smaller"), (60.0, "opposite")])
def test_a_run_beside_a_number_that_others_published(verdict, own_data, against, word):
    spec, theirs = claim(runs=("a",), published=20.0, row="1.1"), {("", "1.1"): {"i2t_r1": str(against)}}
    found = verdict(spec, {"a": (50, 50.4, 50.2)}, own_data, theirs)
    assert (found.word, found.effect.value) == (word, pytest.approx(50.2 - against))
    assert found.effect.images.low < found.effect.value < found.effect.images.high


def test_on_other_data_no_run_is_held_against_a_published_number(verdict, context):
    theirs = {("", "1.1"): {"i2t_r1": "30.0"}}
    found = verdict(claim(runs=("a",), published=20.0, row="1.1"), {"a": (50, 50.4)}, context, theirs)
    assert found.word == "not run" and "own data" in found.why


def test_only_seeds_that_all_runs_have_are_compared(models, own_data):
    for run, seeds, level in (("a", (0, 1, 2), 50), ("b", (1, 2), 40)):
        for seed in seeds:
            models.add(run, seed=seed, ranks=ranks(level, lot=seed))
    (found,) = judge([claim()], own_data, models.records)
    assert found.measured.seeds == 2
    (alone,) = judge([claim(runs=("a", "c"))], own_data, models.records)
    assert (alone.word, alone.why, alone.effect) == ("not run", "not run: c", None)


def test_runs_without_a_common_seed_are_not_compared(models, own_data):
    models.add("a", seed=0, ranks=ranks(50))
    models.add("b", seed=1, ranks=ranks(40))
    (found,) = judge([claim()], own_data, models.records)
    assert (found.word, found.why) == ("not run", "not run: a seed common to all its runs")


@pytest.mark.parametrize(
    ("made_from", "seeds", "note"),
    [
        (
            ("there", "here", "here"),
            2,
            "seed 0: its runs were made from different features with the same parameters, left out",
        ),
        (
            ("there", "there"),
            2,
            "seeds 0 and 1: its runs were made from different features with the same parameters",
        ),
    ],
)
def test_a_seed_whose_runs_were_made_from_different_features_is_left_out_or_said(
    models, own_data, made_from, seeds, note
):
    """As VSE0 on random crops, seed 0: of another machine's features, and the outlier."""
    for seed, made in enumerate(made_from):
        models.add("a", seed=seed, ranks=ranks(50 + 0.2 * seed, lot=seed), made_from="here")
        models.add("b", seed=seed, ranks=ranks(40, lot=seed), made_from=made)
    (found,) = judge([claim(published=5.0)], own_data, models.records)
    assert found.measured.seeds == seeds and found.why.split("; ")[0] == note
    assert found.effect.value == pytest.approx(10.3 if "left out" in note else 10.1)


def test_a_difference_of_training_machines_is_said(models, own_data):
    add(models, {"a": (50, 50.2)}, processor="EPYC")
    add(models, {"b": (40, 40)}, processor="Xeon")
    (found,) = judge([claim()], own_data, models.records)
    assert "trained on EPYC and Xeon" in found.why
    (alike,) = judge([claim(runs=("a", "c"))], own_data, {**models.records, "c": models.records["a"]})
    assert "trained on" not in alike.why


SIZES = {"best": (64, 256), "runs": {2: "a", 64: "b", 128: "c", 512: "d"}}


def sizes(models, levels, validated=None):
    """Two seeds of each size: R@1 on the test set, and on validation (as on the test set, where nothing else is said)."""
    for run, level in levels.items():
        for seed in (0, 1):
            best = (validated or levels)[run]
            found = ranks(level + 0.2 * seed * (run in "bc"), lot=seed)
            models.add(run, seed=seed, protocol=PROTOCOL, ranks=found, history=(best / 2, best))


@pytest.mark.parametrize(
    ("levels", "word"),
    [((30, 45, 50, 40), "reproduced"), ((30, 40, 41, 50), "opposite")],
)
def test_the_best_value(models, own_data, levels, word):
    sizes(models, dict(zip("abcd", levels, strict=True)))
    (found,) = judge([claim("best_value", **SIZES)], own_data, models.records)
    assert found.word == word
    assert found.why.startswith("best on validation of 64 to 256: 128; of the others: 512")


def test_the_best_value_is_chosen_on_validation(models, own_data):
    """On the test set 64 is ahead of 128, and 2 ahead of 512."""
    sizes(models, {"a": 42, "b": 55, "c": 50, "d": 40}, {"a": 20, "b": 30, "c": 50, "d": 40})
    (found,) = judge([claim("best_value", **SIZES)], own_data, models.records)
    assert found.why.startswith("best on validation of 64 to 256: 128; of the others: 512")
    assert found.effect.value == pytest.approx(10.1)


def test_a_size_that_ranks_like_chance_is_left_out_of_the_best_value(models, own_data):
    sizes(models, {"b": 45, "c": 50, "d": 40})
    models.add("a", protocol=PROTOCOL, ranks=ranks(1, 1))
    (found,) = judge([claim("best_value", **SIZES)], own_data, models.records)
    assert "left out: 2" in found.why
    assert found.word == "reproduced"


def test_a_size_with_sound_seeds_stays_a_rival_and_its_collapsed_seed_is_named(models, own_data):
    sizes(models, dict(zip("abcd", (30, 45, 50, 60), strict=True)))
    models.add("d", seed=2, protocol=PROTOCOL, ranks=ranks(1, 1), collapsed=True)
    (found,) = judge([claim("best_value", **SIZES)], own_data, models.records)
    assert (found.word, found.measured.seeds) == ("opposite", 2)
    assert "d collapsed (seed 2), left out" in found.why and "others: 512;" in found.why


@pytest.mark.parametrize(
    ("levels", "word", "why"),
    [
        ({"a": 20, "c": 40}, "not run", "not run: d"),
        ({"b": 45, "c": 50}, "not run", "not run: a and d"),
        ({"a": 20, "c": 40, "d": 30}, "reproduced", "best on validation of 64 to 256: 128"),
    ],
)
def test_a_best_value_needs_all_of_its_rivals_but_not_all_claimed_sizes(models, own_data, levels, word, why):
    sizes(models, levels)
    (found,) = judge([claim("best_value", **SIZES)], own_data, models.records)
    assert found.word == word and found.why.startswith(why)


@pytest.mark.parametrize(
    ("first", "second", "word", "value"),
    [
        (((1, 5, 12), (2.1, 6, 13.1)), ((4, 8, 10), (5, 9, 11)), "reproduced", 3),
        (((1, 9, 12), (2.1, 6, 13.1)), ((4, 8, 10), (5, 9, 11)), "reproduced", 2.5),
        (
            ((1, 9, 12), (2.1, 9.5, 13.1)),
            ((4, 8, 10), (5, 9, 11)),
            "same direction, in another epoch than 20",
            2,
        ),
        (((1, 5, 6), (2.1, 6, 7.1)), ((4, 8, 10), (5, 9, 11)), "opposite, behind after the last", None),
        (((5, 9, 12), (6.1, 9.5, 13)), ((4, 8, 10), (5, 9, 11.1)), "opposite, ahead from the first", 1),
        (((1, 5, 12), (2, 6, 13)), ((4, 8, 10), (5, 9, 11)), "inconclusive, the seeds have equal results", 3),
        (
            ((3, 9, 12), (7, 9.5, 11)),
            ((4, 8, 9), (5, 9, 12)),
            "inconclusive, contains zero after the first epoch and after",
            None,
        ),
    ],
)
def test_a_crossing(models, own_data, first, second, word, value):
    word, _, why = word.partition(", ")
    add_curves(models, a=first, b=second)
    published = 20 if "20" in why else 3
    (found,) = judge([claim("crossing", published=published)], own_data, models.records)
    assert (found.word, value_of(found)) == (word, value)
    assert why in found.why
    assert found.measured.seeds == 2


@pytest.mark.parametrize(
    ("spec", "first", "second", "word", "value"),
    [
        (claim("overfitting"), ((20, 12), (20, 11.9)), ((20, 20), (20, 20)), "reproduced", 8.05),
        (claim("overfitting"), ((60, 20), (60, 20.1)), ((50, 20), (50, 20)), "opposite", 39.95 - 30),
        (claim("overfitting"), ((20, 19.8), (20, 19.79)), ((20, 20), (20, 20)), "no difference", 0.205),
        (claim("overfitting"), ((20, 18.8), (20, 18.7)), ((20, 20), (20, 20)), "inconclusive", 1.25),
        (claim("overfitting"), ((20, 12), (20, 11.9)), ((20, 18.9), (20, 19.2)), "inconclusive", 8.05 - 0.95),
        (claim("overfitting"), ((20, 19.5), (20, 19.4)), ((20, 18), (20, 18.1)), "opposite", 0.55 - 1.95),
        (
            claim("overfitting"),
            ((20, 19.6), (20, 19.6)),
            ((20, 19.2), (20, 19.15)),
            "no difference",
            0.4 - 0.825,
        ),
        (claim("overfitting"), ((20, 20), (20, 20)), ((20, 20), (20, 20)), "inconclusive", 0),
        (claim("overfitting"), ((20, 12), (20.1, 12.1)), ((20, 20), (20, 20)), "inconclusive", 8),
        (START, ((5, 30), (5.5, 30)), ((10, 20), (10, 20)), "reproduced", 6 * -4.75),
        (START, ((15, 30), (15.5, 30)), ((10, 20), (10, 20)), "opposite", 6 * 5.25),
        (START, ((9, 30), (11, 30)), ((10, 20), (10, 20)), "inconclusive", 0),
        (claim("overfitting", epochs=30), ((20, 12), (20, 11)), ((20, 18), (20, 18)), "not run", None),
    ],
)
def test_how_far_curves_fall_and_how_they_start(models, own_data, spec, first, second, word, value):
    add_curves(models, a=first, b=second)
    (found,) = judge([spec], own_data, models.records)
    assert (found.word, value_of(found)) == (word, pytest.approx(value))
    if word == "not run":
        assert found.why == "not run: runs of 30 epochs (these have 2)"


def test_an_epoch_that_all_seeds_share_has_the_interval_of_rounding(models, own_data):
    add_curves(models, a=((1, 5, 12), (2.1, 6, 13.1)), b=((4, 8, 10), (5, 9, 11)))
    (found,) = judge([claim("crossing", published=3)], own_data, models.records)
    assert found.effect.value == 3 and found.effect.seeds.high - 3 == pytest.approx(
        12.7062 * 12**-0.5 / 2**0.5, rel=1e-4
    )


def test_curves_of_one_seed_show_nothing(models, own_data):
    add_curves(models, a=((1, 20),), b=((5, 10),))
    for kind in ("crossing", "overfitting", "start"):
        (found,) = judge([claim(kind)], own_data, models.records)
        assert found.word == "inconclusive (one seed)"
        assert "curves need several seeds" in found.why


@pytest.mark.parametrize("kind", ["difference", "crossing"])
@pytest.mark.parametrize(
    ("run", "word", "why"),
    [
        ({"ranks": ranks(60), "collapsed": True}, "collapsed", "a collapsed (seeds 0 and 1)"),
        ({"ranks": ranks(1, 1)}, "like chance", "a ranks like chance (seeds 0 and 1)"),
    ],
)
def test_a_run_that_collapsed_or_ranks_like_chance_on_all_seeds_is_not_reproduced(
    models, own_data, kind, run, word, why
):
    for seed in (0, 1):
        models.add("a", seed=seed, **run)
        models.add("b", seed=seed, ranks=ranks(40))
    (found,) = judge([claim(kind)], own_data, models.records)
    assert (found.word, found.why) == (f"not reproduced: {word}", why)
    assert found.effect is None


def test_every_verdict_has_an_outcome_and_no_difference_is_as_claimed_where_the_claim_is_so():
    assert sorted(word for words in OUTCOMES.values() for word in words) == sorted(SIGNS)
    found = [
        Verdict(claim(kind), "i2t_r1", True, Measured(), word=NO_DIFFERENCE)
        for kind in ("difference", "no_difference")
    ]
    assert [verdict.outcome for verdict in found] == ["not as claimed", "as claimed"]


def test_a_seed_that_collapsed_is_named_and_the_verdict_rests_on_the_others(models, own_data):
    for seed in range(3):
        models.add("a", seed=seed, ranks=ranks(60 + 0.2 * seed, lot=seed), collapsed=seed == 1)
        models.add("b", seed=seed, ranks=ranks(40, lot=seed))
    (found,) = judge([claim()], own_data, models.records)
    assert (found.word, found.measured.seeds) == ("reproduced", 2)
    assert "a collapsed (seed 1), left out" in found.why


def test_a_verdict_names_seeds_whose_weights_are_of_the_curriculum(models, own_data):
    for seed in range(2):
        models.add(
            "a",
            seed=seed,
            ranks=ranks(60, lot=seed),
            history=(60.0 + seed, 61.0, 55.0, 59.0),
            curriculum=0.25 + seed / 4,
        )
        models.add("b", seed=seed, ranks=ranks(40, lot=seed))
    (found,) = judge([claim()], own_data, models.records)
    assert f"a {text.curriculum_note({'epochs 1 to 2': [1]})}" in found.why


@pytest.mark.parametrize(
    ("i2t_r1", "t2i_r1", "like_chance"), [(4.9, 1.0, True), (6.0, 1.0, True), (9.0, 3.0, False)]
)
def test_like_chance_is_what_no_test_tells_from_chance(models, i2t_r1, t2i_r1, like_chance):
    """Folds of 100 images: chance finds 4.9 % of the images' captions at once, and 1 % of the captions' images."""
    rng = np.random.default_rng(0)
    i2t, t2i = rng.integers(0, 100, 500).astype(float) / 5, rng.integers(0, 100, 2500).astype(float)
    i2t = np.where(rng.random(500) < i2t_r1 / 100, 0, 15 + i2t)
    t2i = np.where(rng.random(2500) < t2i_r1 / 100, 0, 1 + t2i)
    models.add("a", protocol=PROTOCOL, ranks=ranks_of(i2t, t2i))
    (record,) = models.records["a"]
    level = chance_rsum(100, 500)
    assert (record.at_chance == [PROTOCOL]) is like_chance, (record.metrics[PROTOCOL]["rsum"], level)


def test_what_holm_takes_back_is_neither_a_difference_nor_none(models, own_data):
    """The images' interval lies above zero and within the margin."""
    add_few_images(models)
    (alone,) = judge([claim()], own_data, models.records)
    assert alone.word == "reproduced"
    many = [claim(published=10.0, margin=5.0)] * 40
    first, *_ = found = judge(many, own_data, models.records)
    assert 0 < first.effect.images.low < first.effect.images.high < 5
    assert first.effect.p == pytest.approx(40 * alone.effect.p, rel=0.2) and first.effect.p > 0.05
    assert {one.word for one in found} == {"inconclusive"} and "after Holm" in first.why


def test_counts_are_in_the_order_of_the_words(models, own_data):
    add(models, {"a": (50, 50.2), "b": (40, 40)})
    specs = [claim(runs=("a", "missing")), claim(), claim(runs=("b", "a")), claim(runs=("a", "absent"))]
    found = counts(judge(specs, own_data, models.records))
    assert found == [("reproduced", 1), ("opposite", 1), ("not run", 2)]
    assert set(dict(found)) < set(SIGNS)


def test_reading_has_every_verdict_once():
    page = (PARAMS.parent / "docs/reading.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \*\*([^*]+)\*\* \|", page, re.MULTILINE) == list(SIGNS)


@pytest.mark.parametrize(
    ("other", "protocol", "said"),
    [
        ({"ranks": ranks(40, n_images=1000), "fold_size": 200}, PROTOCOL, "fold_size is 200, but 100"),
        ({"ranks": ranks(40)}, "1K", "no protocol 1K; it has 5x1K"),
    ],
)
def test_other_test_images_and_a_protocol_that_a_run_was_not_evaluated_under_are_refused(
    models, own_data, other, protocol, said
):
    models.add("a", ranks=ranks(50))
    models.add("b", **other)
    with pytest.raises(VseppError, match=said):
        judge([claim(protocol=protocol)], own_data, models.records)


@pytest.mark.parametrize("name_of_paper", ["vsepp", "goal", "vse_infinity"])
def test_published_effects_are_the_differences_of_the_published_rows(name_of_paper):
    with (PARAMS / "papers" / name_of_paper / "published.csv").open(encoding="utf-8") as stream:
        rows = {row["row"]: row for row in csv.DictReader(stream)}
    parameters = plan(papers=[name_of_paper]).parameters
    paper = parameters.papers[name_of_paper]
    feeders = parameters.feeders(paper).items()
    held = 0
    for name, keys in paper.claims.items():
        if keys.kind not in ("difference", "no_difference", "difference_of_differences"):
            continue
        for metric, published in keys.published.items():
            if published is None:
                continue
            named = re.findall(r"\w+\.\d+", keys.place)
            fed = [
                [row for row, feeder in feeders if feeder[0] == run and row in named] for run in keys.named
            ]
            assert all(len(found) == 1 for found in fed), f"{name}: the rows of {keys.named}"
            levels = [float(rows[found][metric]) for (found,) in fed]
            beside = getattr(keys, "row", None)
            levels += [float(rows[beside][metric])] if beside else []
            signs = (1, -1, -1, 1)[: len(levels)]
            expected = sum(sign * level for sign, level in zip(signs, levels, strict=True))
            assert published == pytest.approx(expected), f"{name}: {metric}"
            held += 1
    assert held > 20


@pytest.mark.parametrize(
    ("levels", "word", "why"),
    [
        ({"a": (46, 45.8, 46.2), "b": (48, 48.2, 48)}, "reproduced", "at most 5"),
        ({"a": (10, 10.4, 10.2), "b": (48, 48.2, 48)}, "larger", "above 5"),
        ({"a": (43, 42.8, 43.2), "b": (48, 48.2, 48)}, "inconclusive", "may be above 5"),
        ({"a": (52, 52.4, 52.2), "b": (48, 48.2, 48)}, "opposite", ""),
    ],
)
def test_a_difference_that_the_paper_calls_slight(verdict, own_data, levels, word, why):
    """As with a negative set of 2, "slightly below VSE0", where ours was 38.5 points below."""
    found = verdict(claim(sign=-1, at_most=5.0), levels, own_data)
    assert (found.word, found.why) == (word, why)
