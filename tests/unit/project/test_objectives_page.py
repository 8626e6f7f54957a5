"""What the page on objectives says of Flickr8k is what the kept report says."""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/objectives.md").read_text(encoding="utf-8")
REPORT = ROOT / "docs/results/flickr8k/reports/objectives"


def test_the_table_has_every_objective_of_the_report_as_it_is_there():
    with (REPORT / "tables/objectives.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["run"]: row for row in csv.DictReader(file)}
    figure = (REPORT / "figures/standings.svg").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (.+) \| .+, `(.+)` \| (.+) \| (.+) \| (.+) \| (.*) \|$", PAGE, re.MULTILINE)
    assert {run for _, run, *_ in lines} == set(rows) and len(rows) == 16
    for name, run, *recalls, level, less in lines:
        row = rows[run]
        for cell, direction in zip(recalls, ("i2t", "t2i"), strict=True):
            assert (
                cell == f"{float(row[f'ours_{direction}_r1']):.1f} ± {float(row[f'sd_{direction}_r1']):.1f}"
            )
        recalls_of = (f"ours_{direction}_r{k}" for direction in ("i2t", "t2i") for k in (1, 5, 10))
        assert level.partition(" ")[0] == f"{sum(float(row[recall]) for recall in recalls_of):.1f}"
        # matplotlib names each text of a figure in a comment.
        assert all(f"<!-- {text} -->" in figure for text in (name, level, less.strip()) if text)
    sums = [float(level.partition(" ")[0]) for *_, level, _ in lines]
    assert sums == sorted(sums, reverse=True)


def test_the_figure_of_the_page_is_kept():
    (shown,) = re.findall(r"!\[[^]]+\]\((results/flickr8k/reports/objectives/[^)]+)\)", PAGE)
    assert (ROOT / "docs" / shown).is_file()
