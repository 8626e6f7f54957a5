"""Numbers in tables of pages are those of the records, and what pages say in words is what the kept reports say."""

import csv
import re

import pytest
from plans import PARAMS
from record_tables import filled

DOCS = PARAMS.parent / "docs"
REPORTS = DOCS / "results/flickr8k/reports"
MADE_UP = """\
<!-- numbers from records: {preset: flickr8k, papers: [flickr8k_study]} -->

| run | seeds | image R@1 |
|---|---|---|
| VSE0, `f8k-vse0-rc` | 9 | 1.0 |
| VSE++ less VSE0, `f8k-vsepp-rc` − `f8k-vse0-rc` | | |
| random crops less centres, `f8k-vsepp-rc` − `f8k-vse0-rc` − (`f8k-vsepp-1c-bf16` − `f8k-vse0-1c-bf16`) | | |
"""


def kept(name):
    with (REPORTS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.whole
@pytest.mark.parametrize("name", ["flickr8k", "objectives", "other-papers"])
def test_tables_of_a_page_have_the_numbers_of_the_records(name):
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert filled(page, PARAMS) == page, "run sphinx-build docs site"


def test_levels_and_differences_are_those_of_the_kept_report():
    *_, level, difference, of_differences = filled(MADE_UP, PARAMS).splitlines()
    (row,) = [row for row in kept("flickr8k_study/tables/losses.csv") if row["run"] == "f8k-vse0-rc"]
    mean, sd = float(row["ours_t2i_r1"]), float(row["sd_t2i_r1"])
    assert level == f"| VSE0, `f8k-vse0-rc` | {row['n_seeds']} | {mean:.1f} ± {sd:.1f} |"
    (claim,) = [row for row in kept("flickr8k_study/claims.csv") if row["claim"] == "rc/t2i_r1"]
    keys = ("ours", "images_low", "images_high", "seeds_low", "seeds_high")
    value, *ends = (f"{float(claim[key]):+.1f}" for key in keys)
    expected = f"| 3 | **{value} [{ends[0]}, {ends[1]}] [{ends[2]}, {ends[3]}]** |"
    assert difference.replace("\N{NO-BREAK SPACE}", " ").endswith(expected)
    assert re.search(r"\| 3 \| −0\.2 \[.+\] \[.+\] \|$", of_differences), "2.5 less 2.7, both rounded"


def test_the_page_of_objectives_has_the_chosen_runs_of_the_report_in_the_order_of_rsum():
    page = (DOCS / "objectives.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+) \| .+, `(obj-.+)` \| .+ \| .+ \| (\S+) ± \S+ \|$", page, re.MULTILINE)
    chosen = {row["run"]: row["system"] for row in kept("objectives/tables/objectives.csv")}
    assert {run: system for system, run, _ in rows} == chosen and len(rows) == 16
    sums = [float(rsum) for *_, rsum in rows]
    assert sums == sorted(sums, reverse=True)


@pytest.mark.parametrize("name", ["flickr8k", "objectives"])
def test_the_figures_of_a_page_are_kept(name):
    shown = re.findall(r"!\[[^]]+\]\((results/[^)]+)\)", (DOCS / f"{name}.md").read_text(encoding="utf-8"))
    assert shown and all((DOCS / path).is_file() for path in shown)


def test_image_retrieval_is_ahead_in_the_five_settings_and_caption_retrieval_in_none():
    words = {row["claim"]: row["verdict"] for row in kept("flickr8k_study/claims.csv")}
    settings = ("whole-1c", "whole-1c-long", "whole-1c-fp32", "1c")
    assert {words[f"{name}-images/t2i_r1"] for name in settings} | {words["rc/t2i_r1"]} == {"same direction"}
    captions = {words[f"{name}/i2t_r1"] for name in (*settings, "whole-1c-fast", "rc")}
    assert captions == {"inconclusive"}
