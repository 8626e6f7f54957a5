"""What the page of the Flickr8k study says is what the study's kept report says."""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/flickr8k.md").read_text(encoding="utf-8")
REPORT = ROOT / "docs/results/flickr8k/reports/flickr8k_study"
ROWS = re.findall(r"^\| [^`\n]*`(f8k-[^`]+)` \| (\d+) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)


def rows(name):
    with (REPORT / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_page_has_levels_and_figures_that_are_kept():
    assert len(ROWS) == 8
    shown = re.findall(r"!\[[^]]+\]\((results/flickr8k/[^)]+)\)", PAGE)
    assert len(shown) == 3 and all((ROOT / "docs" / path).is_file() for path in shown)


@pytest.mark.parametrize(("run", "seeds", "captions", "images"), ROWS)
def test_a_level_is_that_of_the_report(run, seeds, captions, images):
    (row,) = [row for row in rows("tables/losses.csv") if row["run"] == run]
    cells = [
        f"{float(row[f'ours_{name}']):.1f} ± {float(row[f'sd_{name}']):.1f}" for name in ("i2t_r1", "t2i_r1")
    ]
    assert [seeds, captions, images] == [row["n_seeds"], *cells]


def test_image_retrieval_is_ahead_in_the_five_settings_and_caption_retrieval_in_none():
    words = {row["claim"]: row["verdict"] for row in rows("claims.csv")}
    settings = ("whole-1c", "whole-1c-long", "whole-1c-fp32", "1c")
    assert {words[f"{name}-images/t2i_r1"] for name in settings} | {words["rc/t2i_r1"]} == {"same direction"}
    captions = {words[f"{name}/i2t_r1"] for name in (*settings, "whole-1c-fast", "rc")}
    assert captions == {"inconclusive"}


def test_random_crops_and_the_gap_are_those_of_the_claim():
    (row,) = [row for row in rows("claims.csv") if row["claim"] == "crops-widen-the-gap/i2t_r1"]
    ends = [f"{float(row[f'{part}_{end}']):+.1f}" for part in ("images", "seeds") for end in ("low", "high")]
    text = f"{float(row['ours']):+.1f} ({ends[0]} to {ends[1]}; {ends[2]} to {ends[3]})"
    assert text.replace("-", "−") in PAGE
