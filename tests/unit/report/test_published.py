"""The papers' tables: the cells as they are kept, and what no table can hold."""

import hashlib
from pathlib import Path

import pytest
from csv_rows import csv_rows
from plans import PARAMS

from vsepp.base.errors import VseppError
from vsepp.report.published import read_published

HEADING = "table,row,kind,protocol,i2t_r1,i2t_r5,i2t_medr,rsum,i2t_r1_sd,note"
GOOD = "1,1.1,quoted,1K,43.4,60.0,2,386.9,0.3,"
SOURCE = Path(__file__).resolve().parents[4] / "shared/paper/vsepp_tables.csv"
ROLES = {"vgg19": "vgg", "resnet152": "resnet", "flickr30k": "flickr"}


@pytest.mark.skipif(not SOURCE.is_file(), reason="the paper's tables are not beside the repository")
def test_every_published_cell_is_the_papers(report):
    theirs, ours = csv_rows(SOURCE), csv_rows(Path(report().published))
    assert len(ours) == len(theirs) == 48
    for own, papers in zip(ours, theirs, strict=True):
        expected = {key: ROLES.get(value, value) for key, value in papers.items()}
        assert {key: own[key] for key in papers} == expected


# Start of the SHA-256 of these columns: of the cells, with spaces between the cells.
CELLS = ("i2t_r1", "i2t_r1_sd", "t2i_r1", "t2i_r1_sd")
DIGESTS = {
    "3": "f41eb269 822caa62 2489e493 1173aadd",
    "4": "a1bd2487 7f688b45 f249afcf 6c04b65f",
    "5": "0b01cb4d 8f6409d0 33f119af 3a87c4ea",
}


@pytest.mark.parametrize("table", DIGESTS)
def test_no_cell_of_goals_combinations_has_changed_since_it_was_compared_with_the_paper(table):
    combinations = [row for row in csv_rows(PARAMS / "papers/goal/published.csv") if row["table"] == table]
    columns = [" ".join(row[cell] for row in combinations) for cell in CELLS]
    digests = [hashlib.sha256(column.encode()).hexdigest()[:8] for column in columns]
    assert len(combinations) == 30 and digests == DIGESTS[table].split()


def test_published_rows_are_consistent_and_all_of_them_are_declared_in_order(report):
    published, seen = csv_rows(Path(report().published)), {}
    for row in published:
        quoted = row["kind"] == "quoted"
        assert bool(row["citation"]) == quoted, row["row"]
        assert bool(row["encoder"]) == bool(row["finetuned"]) == (not quoted), row["row"]
        facts = {key: value for key, value in row.items() if key not in ("table", "note")}
        assert seen.setdefault(row["row"], facts) == facts, "a row in two tables has the same cells"
    declared = [(name, row) for name, table in report().tables for row in table.rows]
    assert declared == [(f"table{row['table']}", row["row"]) for row in published]


def test_cells_may_be_empty_and_ranks_halves(tmp_path):
    path = tmp_path / "published.csv"
    path.write_text(f"{HEADING}\n1,1.2,trained,1K,,,1.5,,,a note\n")
    assert read_published(path)["table1", "1.2"]["i2t_medr"] == "1.5"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("43.4", "nan", "i2t_r1: got 'nan'"),
        (",2,", ",0,", "i2t_medr: got '0'"),
        ("quoted", "guessed", "kind: got 'guessed'"),
        ("60.0", "40.0", "i2t_r5"),  # recalls rise with k
        ("1K,43.4", "43.4", "fewer cells"),
        ("1,1.1", "1,1.0", "twice"),
    ],
)
def test_a_cell_that_no_table_can_hold_is_named_with_its_line(tmp_path, old, new, named):
    path = tmp_path / "published.csv"
    path.write_text("\n".join([HEADING, GOOD.replace("1.1", "1.0"), GOOD.replace(old, new), ""]))
    with pytest.raises(VseppError, match=f"line 3(.|\n)*{named}"):
        read_published(path)
