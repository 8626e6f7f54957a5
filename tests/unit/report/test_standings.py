"""Rows of several runs beside each other: which run stands for one, and how far it is from the best."""

from dataclasses import replace

import numpy as np
import pytest
from trained_models import ranks_of

from vsepp.report.compare import UNSETTLED
from vsepp.report.entries import Group, ReportSpec, Row, Table
from vsepp.report.figures.standings import Figure as Standings
from vsepp.report.pairing import Material
from vsepp.report.tables import build_table

pytestmark = pytest.mark.usefixtures("formats")
IMAGES = 400
STANDINGS = Standings(
    kind="standings", title="Losses", caption="A caption.", dataset="flickr", metrics=("i2t_r1",), protocol="1K",
    labels=("SH", "MH"),
)  # fmt: skip
ROWS = (Row(run=("sh-1", "sh-2"), protocol="1K", label="SH"), Row(run="mh-1", protocol="1K", label="MH"))
LABELLED = {row.label: row for row in ROWS}
OWN = dict.fromkeys(("system", "encoder", "dataset", "trainset", "finetuned"), "any")


def ranked(first, seed=0):
    """Ranks of images with five captions each; a share of the images, drawn by lot, finds a caption first."""
    first_found = np.random.default_rng(seed).random(IMAGES) < first
    return ranks_of(np.where(first_found, 0.0, 3.0), np.repeat(np.where(first_found, 0.0, 3.0), 5))


def add(models, name, first, **more):
    for seed in range(3):
        models.add(name, protocol="1K", seed=seed, fold_size=IMAGES, ranks=ranked(first, seed), **more)


def shown(context, models, draw):
    """Runs that stand for both rows in a table, with the labels, and runs that the figure is about."""
    runs = {run: OWN for row in ROWS for run in row.runs}
    table = Table(
        title="Losses", caption="A caption.", dataset="flickr", columns=("r1",), groups=(Group(heading="1K", rows=ROWS),)
    )  # fmt: skip
    built = build_table("losses", table, Material(ReportSpec(context, runs=runs), models.records, {}))
    drawn = draw("standings", STANDINGS, labelled=LABELLED)
    return [(row.run, row.facts["label"]) for row in built.rows], drawn.runs


def test_the_run_with_the_best_mean_of_the_best_epochs_stands_for_a_row(models, context, draw):
    """Not the one with the best last epoch, nor the best seed, nor the best test score."""
    for seed, (first, second) in enumerate([((60, 10), (40, 50)), ((20, 10), (45, 44))]):
        models.add("sh-1", (99.0, 99, 99, 1, 1), protocol="1K", seed=seed, history=first)
        models.add("sh-2", protocol="1K", seed=seed, history=second)
    models.add("mh-1", protocol="1K")
    rows, drawn = shown(context, models, draw)
    assert rows == [("sh-2", "SH (sh-2)"), ("mh-1", "MH")] and drawn == ("sh-2", "mh-1")


@pytest.mark.parametrize(("lost", "chosen"), [((1,), "sh-1"), ((0, 1), "sh-2")])
def test_a_run_is_chosen_by_its_sound_seeds(models, context, draw, lost, chosen):
    """With the seed that collapsed its mean would be below the other run's; a run without a sound seed is no rival."""
    for seed, level in enumerate((60, 1)):
        models.add("sh-1", protocol="1K", seed=seed, history=(level, level), collapsed=seed in lost)
        models.add("sh-2", protocol="1K", seed=seed, history=(40, 50))
    rows, drawn = shown(context, models, draw)
    assert rows[0] == (chosen, f"SH ({chosen})") and drawn[0] == chosen


def test_what_was_not_run_is_not_chosen(models, context, draw):
    rows, drawn = shown(context, models, draw)
    assert rows == [("sh-1", "SH"), ("mh-1", "MH")] and drawn == ()
    models.add("sh-2", protocol="1K")
    rows, drawn = shown(context, models, draw)
    assert rows[0] == ("sh-2", "SH (sh-2)") and drawn == ("sh-2",)


def test_differences_to_the_best_are_those_of_the_same_images_and_seeds(models, draw):
    same = np.repeat(np.arange(2.0) * 3, IMAGES // 2)
    better = np.where(np.arange(IMAGES) < IMAGES // 2 + 40, 0.0, 3.0)
    for name, i2t in (("sh-1", same), ("mh-1", better)):
        models.add(name, protocol="1K", fold_size=IMAGES, ranks=ranks_of(i2t, np.repeat(i2t, 5)))
    drawn = draw("standings", STANDINGS, labelled=LABELLED)
    # 40 images of 400: the standard error of their share is 1.5 points.
    assert "SH: 50.0 [45.0, 54.8], less the best −10.0 [−13.0, −7.2]." in drawn.alt
    assert "MH: 60.0 [55.2, 64.8]." in drawn.alt


def test_methods_are_ordered_and_compared_on_the_seeds_that_all_have(models, draw):
    """Without this MH, whose only seed is good, would be "less the best" by being above it."""
    for seed, share in enumerate((0.5, 0.7, 0.7)):
        models.add("sh-1", protocol="1K", seed=seed, fold_size=IMAGES, ranks=ranked(share, 1))
    models.add("mh-1", protocol="1K", seed=0, fold_size=IMAGES, ranks=ranked(0.6, 1))
    drawn = draw("standings", STANDINGS, labelled=LABELLED)
    first, second = drawn.alt.index("MH: "), drawn.alt.index("SH: ")
    assert first < second and "SH: 52.5" in drawn.alt and "less the best −" in drawn.alt
    assert "Seeds common to all: 0." in drawn.caption


def test_differences_of_one_seed_settle_nothing_though_a_method_in_trouble_has_several(models, draw):
    add(models, "mh-1", 0.5)
    add(models, "sh-1", 0.2)
    spec, labelled = (
        replace(STANDINGS, labels=("SH", "MH", "sum")),
        {**LABELLED, "sum": Row(run="sum", protocol="1K")},
    )
    add(models, "sum", 0.0, collapsed=True)
    several = draw("standings", spec, labelled=labelled).caption
    assert UNSETTLED not in several and "over the seeds" in several
    records = {**models.records, "mh-1": models.records["mh-1"][:1]}
    alone = draw("standings", spec, labelled=labelled, records=records).caption
    assert UNSETTLED in alone and "over the seeds" not in alone
