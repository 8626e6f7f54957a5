from __future__ import annotations

import csv
from pathlib import Path

import pytest

from vsepp.reporting.tables import build_table

SOURCE = Path(__file__).resolve().parents[4] / "shared" / "paper" / "vsepp_tables.csv"
ROLES = {"vgg19": "vgg", "resnet152": "resnet", "flickr30k": "flickr"}


def rows(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.skipif(not SOURCE.is_file(), reason="the paper's tables are not beside the repository")
def test_every_published_cell_is_the_papers(published):
    theirs, ours = rows(SOURCE), rows(published)
    assert len(ours) == len(theirs) == 48
    for here, there in zip(ours, theirs, strict=True):
        expected = {key: ROLES.get(value, value) for key, value in there.items()}
        assert {key: here[key] for key in there} == expected


def test_quoted_rows_name_their_source_and_trained_rows_their_setting(published):
    for row in rows(published):
        quoted = row["kind"] == "quoted"
        assert bool(row["citation"]) == quoted, row["row"]
        assert bool(row["encoder"]) == bool(row["finetuned"]) == (not quoted), row["row"]


def test_a_row_in_two_tables_has_the_same_cells(published):
    seen = {}
    for row in rows(published):
        facts = {key: value for key, value in row.items() if key not in ("table", "note")}
        assert seen.setdefault(row["row"], facts) == facts


def test_the_declared_tables_hold_every_published_row_in_order(published, report):
    declared = [
        (table.number, row.row) for table in report().tables for group in table.groups for row in group.rows
    ]
    assert declared == [(row["table"], row["row"]) for row in rows(published)]


def test_every_group_is_compared_under_comparable_protocols(published, report, context):
    for spec in report().tables:
        for group in build_table(spec, context, published).groups:
            assert ({row.protocol for row in group.rows} == {"5K"}) == group.heading.startswith("5K")
