"""Cells of tables: numbers, marks, what is best, what was not run."""

from __future__ import annotations

import math

import pytest
from trained_models import DIRTY, I2T, T2I

from vsepp.base.errors import VseppError
from vsepp.report import text
from vsepp.report.entries import Feed, Group, ReportSpec, Row, Table
from vsepp.report.pairing import Material
from vsepp.report.tables import build_table, flat_rows

COLUMNS = ("r1", "r10", "medr")
OWN = {"system": "VSE++", "encoder": "vit", "finetuned": "yes", "dataset": "coco", "trainset": "RC"}


def fed(row, run=None, protocol=None, released=None):
    """A published row, and what feeds it."""
    return row, Feed(run, protocol, released)


def table_of(*groups, **more):
    return Table(title="T", caption="C.", dataset="coco", columns=COLUMNS, groups=groups, **more)


@pytest.fixture
def build(models, context, published):
    """Build a table of fed rows and rows of one's own, from the models that are there."""

    def make(*rows, table="table2", published=published, runs=None, **more):
        feeds = dict(row for row in rows if isinstance(row, tuple))
        shown = tuple(row[0] if isinstance(row, tuple) else row for row in rows)
        spec = table_of(Group(heading="1K Test Images", rows=shown), **more)
        report = ReportSpec(context, feeds=feeds, runs=runs or {})
        return build_table(table, spec, Material(report, models.records, published))

    return make


def cells(table, source, part="value"):
    return {row.id: [getattr(cell, part) for cell in row.cells[source].values()] for row in table.rows}


def test_rows_keep_their_order_and_hold_both_numbers(models, build):
    models.add("vse0", (41.25, 76, 86, 2, 5))
    table = build(fed("2.2", "vse0", "5x1K"), fed("1.7", "vsepp", "5x1K"))
    assert [(row.id, row.status) for row in table.rows] == [("2.2", "run"), ("1.7", "not run")]
    assert cells(table, "paper")["2.2"] == [43.1, 87.1, 2.0, 32.5, 82.1, 3.0]
    assert cells(table, "ours") == {"2.2": [41.25, 86.0, 2.0, 30.0, 80.0, 3.0], "1.7": [None] * 6}
    assert set(cells(table, "ours", "sd")["2.2"]) == {None}, "one seed has no deviation"
    assert "Not run: 1 of 2 trained rows." in table.caption


def test_the_best_of_each_column_is_marked_and_ties_all_are(models, build):
    # R@1 ties as printed (41.2), R@10 does not, and of Med r the lowest wins.
    for seed in (0, 1):
        models.add("a", (41.24, 76, 86, 2, 5), (30, 66, 80, 3, 9), seed=seed)
        models.add("b", (41.16, 76, 88, 1, 5), (30, 66, 79, 3, 9), seed=seed)
    rows = fed("2.2", "a", "5x1K"), fed("1.7", "b", "5x1K"), fed("2.3", "c", "5x1K")
    table = build(*rows)
    best = cells(table, "ours", "best")
    assert best["2.2"] == [True, False, False, True, True, True]
    assert best["1.7"] == [True, True, True, True, False, True]
    assert best["2.3"] == [False] * 6, "a missing cell is never the best"
    # Printed, rows 2.2 / 1.7 / 2.3: R@1 43.1 / 49.0 / 46.8, R@10 87.1 / 88.4 / 89.0, Med r 2.0 / 1.8 / 1.8,
    # then image retrieval 32.5 / 37.1 / 34.2, 82.1 / 83.8 / 83.6, 3.0 / 2.0 / 2.6.
    assert cells(table, "paper", "best") == {
        "2.2": [False] * 6,
        "1.7": [True, False, True, True, True, True],
        "2.3": [False, True, True, False, False, False],
    }
    models.add("c", (99, 76, 86, 2, 5))
    best = cells(build(*rows), "ours", "best")
    assert not any(map(any, best.values())), "one seed settles nothing"


def test_seeds_in_trouble_are_left_out_and_where_none_is_sound_the_numbers_of_all_stand(
    models, build, context
):
    chance = (0.5, 2.0, 4.0, 60, 60.0)
    for seed, r1 in ((0, 40.0), (1, 42.0)):
        models.add("a", (r1, *I2T[1:]), seed=seed)
        models.add("lost", chance, chance, seed=seed, collapsed=True)
    models.add("a", chance, chance, seed=2, collapsed=True)
    table = build(fed("2.2", "a", "5x1K"), fed("1.7", "lost", "5x1K"))
    first, lost = table.rows
    assert (first.cells["ours"]["i2t_r1"].value, first.trouble) == (41.0, "")
    assert first.cells["ours"]["i2t_r1"].sd == pytest.approx(math.sqrt(2)), "of a sample"
    assert first.left_out == "collapsed (seed 2), left out"
    assert (lost.cells["ours"]["i2t_r1"].value, lost.trouble, lost.left_out) == (0.5, "collapsed", "")
    assert not lost.cells["ours"]["i2t_r1"].best
    assert [row["n_seeds"] for row in flat_rows(table, context)] == [2, 2]


def test_a_tint_says_where_a_number_stands_between_the_worst_and_the_best_of_its_column(models, build):
    models.add("a", (40.0, 76, 86, 2, 5))
    models.add("b", (50.0, 76, 86, 1, 5))
    models.add("c", (42.5, 76, 86, 5, 5))
    rows = (fed("2.2", "a", "5x1K"), fed("1.7", "b", "5x1K"), fed("2.3", "c", "5x1K"))
    tinted = cells(build(*rows, tint="green"), "ours", "tint")
    # R@1; R@10, where all are alike; Med r, where the lowest is the best.
    assert [tinted[row][:3] for row in ("2.2", "1.7", "2.3")] == [
        [0, None, 0.75],
        [1, None, 1],
        [0.25, None, 0],
    ]
    assert set(cells(build(*rows), "ours", "tint")["2.2"]) == {None}


def test_the_best_is_sought_within_a_group(context, published):
    groups = (Group(heading="1K", rows=("1.11",)), Group(heading="5K", rows=("1.13", "1.14")))
    table = build_table("table1", table_of(*groups), Material(ReportSpec(context), {}, published))
    best = cells(table, "paper", "best")
    assert best == {"1.11": [True] * 6, "1.13": [False] * 6, "1.14": [True] * 6}


def test_a_note_stands_at_its_row_or_at_the_cell_that_it_names(build):
    table = build(fed("1.3"), fed("2.1"), table="table1")
    slip, _ = table.rows
    cell = slip.cells["paper"]["i2t_r10"]
    assert (cell.value, cell.mark, slip.mark) == (69.4, "a", "")
    ((mark, text),) = table.notes
    assert mark == "a" and text.startswith("[sic]")
    (noted,) = build(fed("1.9")).rows
    assert noted.mark == "a" and not any(cell.mark for cell in noted.cells["paper"].values())


def test_the_group_says_which_test_images_were_used_and_what_was_re_ranked(models, build):
    models.add("a", protocol="1K", n_images=100)
    models.add("b")
    (group,) = build(fed("1.6", "a", "1K"), fed("2.2", "b", "5x1K"), fed("1.7", "b", "5x1K")).groups
    assert group.measured_on == "vgg_mini, mean of 5 folds of 100 test images; row 1.6: first 100 test images"
    models.add("c", protocol="1K", n_images=100, reranked=32)
    (group,) = build(fed("1.6", "c", "1K")).groups
    assert group.measured_on == "vgg_mini, first 100 test images (re-ranked, 32 of 100)"


def test_every_group_of_the_paper_is_compared_under_comparable_protocols(report, published):
    for name, table in report().tables:
        for group in build_table(name, table, Material(report(), {}, published)).groups:
            protocols = {row.facts["protocol"] for row in group.rows}
            assert (protocols == {"5K"}) == group.heading.startswith("5K")


@pytest.mark.parametrize(
    "row, table, named",
    [
        (fed("2.2", "a", "1K"), "table2", r"row 2\.2.*1K.*5x1K"),
        (fed("1.2", "a", "5x1K"), "table1", r"row 1\.2"),  # quoted
        (fed("2.1", "a", "1K", "r"), "table2", "n_images is 1000, but 500"),
    ],
)
def test_rows_that_cannot_be_filled_so_are_refused(models, build, row, table, named):
    models.add("a", protocol="1K")
    models.add("r", protocol="1K", n_images=1000, history=())
    with pytest.raises(VseppError, match=named):
        build(row, table=table)


def test_flat_rows_give_every_number_unrounded(models, build, context):
    models.add("a", (40 + 1 / 7, *I2T[1:]), (100 / 3, *T2I[1:]))
    models.add("a", I2T, (100 / 3, *T2I[1:]), seed=1)
    table = build(fed("2.2", "a", "5x1K"), fed("1.7"))
    run, missing = flat_rows(table, context)
    cell = next(table.rows).cells["ours"]["i2t_r1"]
    assert (run["ours_i2t_r1"], run["sd_i2t_r1"]) == (cell.value, cell.sd)
    assert (run["ours_t2i_r1"], run["paper_i2t_r1"], run["ours_dataset"]) == (100 / 3, 43.1, "scenes A")
    assert (run["n_seeds"], run["status"]) == (2, "run")
    assert (missing["n_seeds"], missing["status"], missing["ours_i2t_r1"]) == (0, "not run", None)


def test_rows_with_uncommitted_code_behind_them_are_marked_and_explained(models, build, context):
    models.add("a")
    models.add("b")
    models.add("b", seed=1, trained=DIRTY)
    models.add("c", git=DIRTY, trained=DIRTY)
    rows = [fed("2.2", "a", "5x1K"), fed("1.7", "b", "5x1K"), fed("2.3", "a", "5x1K", "c")]
    table = build(*rows)
    assert [row.sign for row in table.rows] == ["", "†", "†"]
    flat = flat_rows(table, context)
    assert [row["ours_uncommitted"] for row in flat] == ["", "train", ""]
    assert [row["released_uncommitted"] for row in flat] == ["", "", "train evaluate"]
    assert "†" in dict(table.notes) and "†" not in dict(build(rows[0]).notes)


@pytest.mark.parametrize(
    ("history", "curriculum", "marked"),
    [
        ((50.0, 60.0, 55.0, 59.0), 0.4, True),  # 1.6 epochs, so two
        ((50.0, 60.0, 55.0, 61.0), 0.4, False),
        ((50.0, 60.0, 60.0, 59.0), 0.4, True),  # of equal ones the first is kept
        ((50.0, 60.0, 55.0, 59.0), 1.0, False),  # nothing but SH, and its entry says so
    ],
)
def test_a_row_whose_weights_are_of_the_curriculum_says_so(models, build, history, curriculum, marked):
    models.add("a", history=history, curriculum=curriculum)
    models.add("a", seed=1, history=(1.0, 2.0, 3.0, 4.0), curriculum=curriculum)
    table = build(fed("2.2", "a", "5x1K"), fed("1.7"))
    assert ["‡" in row.marks for row in table.rows] == [marked, False]
    notes = [words for mark, words in table.notes if mark == "‡"]
    assert notes == [text.curriculum_note({"epochs 1 to 2": [0]})] * marked


def test_released_numbers_stand_beside_ours_and_take_no_part_in_the_rest(models, build, context):
    models.add("a")
    models.add("released", (99 + 1 / 7, 99, 99, 1, 2), (99, 99, 99, 1, 2), history=())
    table, plain = (
        build(fed("2.2", "a", "5x1K", released), fed("1.7", "b", "5x1K", released))
        for released in ("released", None)
    )
    assert cells(table, "released")["2.2"] == [99 + 1 / 7, 99.0, 1.0, 99.0, 99.0, 1.0]
    assert cells(table, "released")["1.7"] == cells(table, "released")["2.2"]
    for source, part in (("ours", "value"), ("ours", "sd"), ("ours", "best"), ("paper", "best")):
        assert cells(table, source, part) == cells(plain, source, part)
    assert [row["released_i2t_r1"] for row in flat_rows(table, context)] == [99 + 1 / 7] * 2


def test_a_row_of_ones_own_shows_our_numbers_alone_beside_published_ones_of_any_table(models, build, context):
    models.add("mine", (60, *I2T[1:]))
    rows = [fed("1.9"), Row(run="mine", protocol="5x1K"), Row(run="x", protocol="1K", label="My x")]
    table = build(*rows, table="margins", runs={"mine": OWN, "x": OWN})
    labels = [row.facts["label"] for row in table.rows]
    assert labels == ["VSE++ (fine-tuned)", "VSE++ (vit, fine-tuned)", "My x"]
    assert cells(table, "paper")["mine"] == [None] * 6 and cells(table, "ours")["mine"][0] == 60
    assert [row.status for row in table.rows] == ["not run", "run", "not run"]
    assert "scenes A in place of MS-COCO and vgg_mini in place of VGG19" in table.caption
    flat = [(row["table"], row["kind"], row["row"]) for row in flat_rows(table, context)]
    assert flat == [("margins", "trained", "1.9"), ("margins", "own", "mine"), ("margins", "own", "x")]
