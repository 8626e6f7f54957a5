from __future__ import annotations

import csv
import io
import math

import pytest

from vsepp.errors import VseppError
from vsepp.reporting.specs import GroupSpec, RowSpec, TableSpec
from vsepp.reporting.tables import build_table, to_frame

COLUMNS = ("r1", "r10", "medr")


def spec(*rows, table="table2", heading="1K Test Images"):
    return TableSpec(table, "Title", "Caption.", "coco", COLUMNS, (GroupSpec(heading, rows),))


def cells(table, attribute):
    return {row.number: [getattr(cell, attribute) for cell in row.cells.values()] for row in table.rows}


def test_rows_keep_their_order_and_hold_both_numbers(write_metrics, context, published):
    file = write_metrics("vse0", [41.25, 76, 86, 2, 5], [30, 66, 80, 3, 9])
    table = build_table(
        spec(RowSpec("2.2", "vse0", "5x1K", (file,)), RowSpec("1.7", "vsepp", "5x1K")), context, published
    )
    assert [row.number for row in table.rows] == ["2.2", "1.7"]
    assert cells(table, "paper")["2.2"] == [43.1, 87.1, 2.0, 32.5, 82.1, 3.0]
    assert cells(table, "ours") == {"2.2": [41.25, 86.0, 2.0, 30.0, 80.0, 3.0], "1.7": [None] * 6}
    assert [row.status for row in table.rows] == ["run", "not run"]
    assert [row.seeds for row in table.rows] == [1, 0]
    assert set(cells(table, "sd")["2.2"]) == {None}, "one seed has no deviation"
    assert table.not_run == 1


def test_several_seeds_give_mean_and_sample_deviation(write_metrics, context, published):
    files = tuple(
        write_metrics("vse0", [r1, 76, 86, 2, 5], [30, 66, 80, 3, 9], seed=seed)
        for seed, r1 in enumerate((40.0, 41.0, 45.0))
    )
    (row,) = build_table(spec(RowSpec("2.2", "vse0", "5x1K", files)), context, published).rows
    cell = row.cells["i2t_r1"]
    assert row.seeds == 3
    assert cell.ours == 42.0
    # ((40 − 42)² + (41 − 42)² + (45 − 42)²) / (3 − 1) = 7
    assert cell.sd == pytest.approx(math.sqrt(7))
    assert row.cells["t2i_r1"].sd == 0.0


def test_the_best_of_each_column_is_marked_and_ties_all_are(write_metrics, context, published):
    # R@1 ties as printed (41.2), R@10 does not, and of Med r the lowest wins.
    a = write_metrics("a", [41.24, 76, 86, 2, 5], [30, 66, 80, 3, 9])
    b = write_metrics("b", [41.16, 76, 88, 1, 5], [30, 66, 79, 3, 9])
    table = build_table(
        spec(
            RowSpec("2.2", "a", "5x1K", (a,)), RowSpec("1.7", "b", "5x1K", (b,)), RowSpec("2.3", "c", "5x1K")
        ),
        context,
        published,
    )
    best = cells(table, "ours_best")
    assert best["2.2"] == [True, False, False, True, True, True]
    assert best["1.7"] == [True, True, True, True, False, True]
    assert best["2.3"] == [False] * 6, "a missing cell is never the best"
    paper = cells(table, "paper_best")
    # Printed, rows 2.2 / 1.7 / 2.3: R@1 43.1 / 49.0 / 46.8, R@10 87.1 / 88.4 / 89.0, Med r 2.0 / 1.8 / 1.8,
    # then image retrieval 32.5 / 37.1 / 34.2, 82.1 / 83.8 / 83.6, 3.0 / 2.0 / 2.6.
    assert paper["2.2"] == [False] * 6
    assert paper["1.7"] == [True, False, True, True, True, True]
    assert paper["2.3"] == [False, True, True, False, False, False]


def test_the_best_is_sought_within_a_group(write_metrics, context, published):
    groups = (GroupSpec("1K", (RowSpec("1.11"),)), GroupSpec("5K", (RowSpec("1.13"), RowSpec("1.14"))))
    table = build_table(TableSpec("table1", "T", "C.", "coco", COLUMNS, groups), context, published)
    best = cells(table, "paper_best")
    assert best["1.11"] == [True] * 6
    assert best["1.14"] == [True] * 6
    assert best["1.13"] == [False] * 6


def test_missing_cells_of_quoted_rows_stay_missing_and_unmarked(context, published):
    (row,) = build_table(spec(RowSpec("1.5"), table="table1"), context, published).rows
    assert row.status == "quoted"
    assert row.citation == "Eisenschtat & Wolf (2016)"
    assert [row.cells[name].paper for name in ("i2t_r1", "i2t_r10")] == [55.8, None]
    assert [row.cells[name].paper_best for name in ("i2t_r1", "i2t_r10")] == [True, False]


def test_labels_follow_the_paper(context, published):
    rows = [RowSpec(number) for number in ("1.4", "1.6", "1.7", "1.9", "1.11")]
    table = build_table(spec(*rows, table="table1"), context, published)
    assert [row.label for row in table.rows] == [
        "sm-LSTM", "VSE++", "VSE++", "VSE++ (fine-tuned)", "VSE++ (ResNet152, fine-tuned)",
    ]  # fmt: skip
    assert [row.trainset_label for row in table.rows] == ["?", "1C (1 fold)", "RC", "RC+rV", "RC+rV"]


def test_the_printed_slip_of_row_1_3_is_quoted_and_marked_at_its_cell(context, published):
    table = build_table(spec(RowSpec("1.3"), table="table1"), context, published)
    (row,) = table.rows
    assert row.cells["i2t_r10"].paper == 69.4
    assert (row.cells["i2t_r10"].mark, row.mark) == ("a", "")
    ((mark, text),) = table.notes
    assert mark == "a"
    assert text.startswith("[sic]")


def test_the_group_says_which_test_images_were_used(write_metrics, context, published):
    single = write_metrics("a", [41, 76, 86, 2, 5], [30, 66, 80, 3, 9], protocol="1K", n_images=100)
    folds = write_metrics("b", [41, 76, 86, 2, 5], [30, 66, 80, 3, 9])
    rows = [RowSpec("1.6", "a", "1K", (single,))]
    rows += [RowSpec(row, "b", "5x1K", (folds,)) for row in ("2.2", "1.7")]
    (group,) = build_table(spec(*rows), context, published).groups
    assert group.measured_on == "mean of 5 folds of 100 test images; row 1.6: first 100 test images"
    (group,) = build_table(spec(RowSpec("1.6")), context, published).groups
    assert group.measured_on == ""


def test_a_run_of_another_protocol_does_not_feed_a_row(write_metrics, context, published):
    file = write_metrics("a", [41, 76, 86, 2, 5], [30, 66, 80, 3, 9], protocol="1K")
    with pytest.raises(VseppError, match=r"table2, row 2\.2.*1K.*5x1K"):
        build_table(spec(RowSpec("2.2", "a", "1K", (file,))), context, published)


def test_a_quoted_row_is_never_fed(write_metrics, context, published):
    file = write_metrics("a", [41, 76, 86, 2, 5], [30, 66, 80, 3, 9])
    with pytest.raises(VseppError, match=r"row 1\.2: it is quoted"):
        build_table(spec(RowSpec("1.2", "a", "5x1K", (file,)), table="table1"), context, published)


def test_an_unpublished_row_and_a_missing_file_are_named(context, published, tmp_path):
    with pytest.raises(VseppError, match=r"no row 2\.9 in table 2"):
        build_table(spec(RowSpec("2.9")), context, published)
    with pytest.raises(VseppError, match=r"gone\.csv: no such file"):
        build_table(spec(RowSpec("2.2")), context, tmp_path / "gone.csv")


def test_a_row_that_is_published_twice_is_refused(context, published, tmp_path):
    lines = published.read_text(encoding="utf-8").splitlines()
    twice = tmp_path / "published.csv"
    twice.write_text("\n".join([*lines, lines[1]]) + "\n", encoding="utf-8")
    with pytest.raises(VseppError, match=r"row 1\.1 is there twice"):
        build_table(spec(RowSpec("2.2")), context, twice)


def test_the_csv_gives_every_number_back_unrounded(write_metrics, context, published):
    files = tuple(
        write_metrics("a", [r1, 76, 86, 2, 5], [100 / 3, 66, 80, 3, 9], seed=seed)
        for seed, r1 in enumerate((40 + 1 / 7, 41.0))
    )
    table = build_table(
        spec(RowSpec("2.2", "a", "5x1K", files), RowSpec("1.7"), RowSpec("1.9")), context, published
    )
    text = to_frame(table).to_csv(index=False)
    rows = {row["row"]: row for row in csv.DictReader(io.StringIO(text))}
    cell = next(table.rows).cells["i2t_r1"]
    assert list(rows) == ["2.2", "1.7", "1.9"]
    assert float(rows["2.2"]["ours_i2t_r1"]) == cell.ours
    assert float(rows["2.2"]["sd_i2t_r1"]) == cell.sd
    assert float(rows["2.2"]["ours_t2i_r1"]) == 100 / 3
    assert float(rows["2.2"]["paper_i2t_r1"]) == 43.1
    assert [row["n_seeds"] for row in rows.values()] == ["2", "0", "0"]
    assert [row["status"] for row in rows.values()] == ["run", "not run", "not run"]
    assert [row["ours_i2t_r1"] == "" for row in rows.values()] == [False, True, True]
    assert [row["ours_dataset"] for row in rows.values()] == ["scenes A", "", ""]


CLEAN, DIRTY = {"commit": "abc", "dirty": False}, {"commit": "abc", "dirty": True}


def test_rows_with_uncommitted_code_behind_them_are_marked_and_explained(write_metrics, context, published):
    numbers = [41, 76, 86, 2, 5], [30, 66, 80, 3, 9]
    files = {
        "a": (write_metrics("a", *numbers, git=CLEAN, trained=CLEAN),),
        "b": (
            write_metrics("b", *numbers, git=CLEAN, trained=CLEAN),
            write_metrics("b", *numbers, seed=1, git=CLEAN, trained=DIRTY),
        ),
        "c": (write_metrics("c", *numbers, git=DIRTY, trained=DIRTY),),
    }
    rows = [
        RowSpec("2.2", "a", "5x1K", files["a"]),
        RowSpec("1.7", "b", "5x1K", files["b"]),
        RowSpec("2.3", "a", "5x1K", files["a"], files["c"]),
        RowSpec("1.8"),
    ]
    table = build_table(spec(*rows), context, published)
    assert [row.dirty_mark for row in table.rows] == ["", "†", "†", ""]
    frame = to_frame(table).set_index("row")
    assert frame["ours_uncommitted"].tolist() == ["", "train", "", ""]
    assert frame["released_uncommitted"].tolist() == ["", "", "train evaluate", ""]
    (note,) = [text for mark, text in table.notes if mark == "†"]
    assert "uncommitted changes of code or parameters (train and evaluate)" in note
    clean = build_table(spec(rows[0]), context, published)
    assert not any(mark == "†" for mark, _ in clean.notes)


def test_released_numbers_stand_beside_ours_and_take_no_part_in_the_rest(write_metrics, context, published):
    ours = write_metrics("a", [41, 76, 86, 2, 5], [30, 66, 80, 3, 9])
    theirs = write_metrics("released", [99 + 1 / 7, 99, 99, 1, 2], [99, 99, 99, 1, 2], seed=1)
    rows = [
        RowSpec("2.2", "a", "5x1K", (ours,), (theirs,)),
        RowSpec("1.7", "b", "5x1K", (), (theirs,)),
        RowSpec("2.3"),
    ]
    table = build_table(spec(*rows), context, published)
    plain = build_table(
        spec(*[RowSpec(row.row, row.run, row.protocol, row.metrics) for row in rows]), context, published
    )
    assert cells(table, "released")["2.2"] == [99 + 1 / 7, 99.0, 1.0, 99.0, 99.0, 1.0]
    assert cells(table, "released")["1.7"] == cells(table, "released")["2.2"]
    assert cells(table, "released")["2.3"] == [None] * 6
    assert [row.released for row in table.rows] == [True, True, False]
    assert (table.released, plain.released) == (True, False)
    assert [row.status for row in table.rows] == ["run", "not run", "not run"]
    for attribute in ("ours", "sd", "ours_best", "paper_best"):
        assert cells(table, attribute) == cells(plain, attribute)
    assert [row.origins for row in table.rows] == [row.origins for row in plain.rows]
    frame = to_frame(table).set_index("row")
    assert frame.loc["2.2", "released_i2t_r1"] == 99 + 1 / 7
    assert frame["released_t2i_medr"].isna().tolist() == [False, False, True]
    assert to_frame(plain)["released_i2t_r1"].isna().all()


def test_released_numbers_of_other_test_images_or_of_a_quoted_row_are_refused(
    write_metrics, context, published
):
    ours = write_metrics("a", [41, 76, 86, 2, 5], [30, 66, 80, 3, 9])
    theirs = write_metrics("r", [41, 76, 86, 2, 5], [30, 66, 80, 3, 9], n_images=1000)
    with pytest.raises(VseppError, match=r"table2, row 2\.2: n_images is 500 in .* and 1000 in .*/r/"):
        build_table(spec(RowSpec("2.2", "a", "5x1K", (ours,), (theirs,))), context, published)
    with pytest.raises(VseppError, match=r"row 1\.2: it is quoted"):
        build_table(spec(RowSpec("1.2", "a", "5x1K", (), (theirs,)), table="table1"), context, published)
    other = write_metrics("s", [41, 76, 86, 2, 5], [30, 66, 80, 3, 9], protocol="1K")
    with pytest.raises(VseppError, match="no protocol 5x1K"):
        build_table(spec(RowSpec("2.2", "a", "5x1K", (), (other,))), context, published)
