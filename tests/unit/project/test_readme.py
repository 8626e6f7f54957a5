"""What the README says of the Flickr8k study is what the study's kept report says."""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REPORT = ROOT / "docs/results/flickr8k/reports/flickr8k_study"
METRICS = ("i2t_r1", "i2t_r10", "t2i_r1", "t2i_r10")
LINES = {key: line for line, key in re.findall(r"^(\| [^`\n]*`([^`\n]+)`.*)$", README, re.MULTILINE)}
"""The lines of its table by what they name: a run, or a claim."""
RUNS = [key for key in LINES if key.startswith("f8k-")]
CLAIMS = [key for key in LINES if key not in RUNS]


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def cells(key):
    return re.split(r" *\| *", LINES[key])[2:-1]


def test_the_readme_has_the_study():
    assert {"f8k-vse0-1c-whole", "f8k-vsepp-1c-whole"} <= set(RUNS) and "whole-1c" in CLAIMS
    shown = re.findall(r"!\[[^]]+\]\((docs/results/flickr8k/reports/flickr8k_study/figures/[^)]+)\)", README)
    assert shown and all((ROOT / path).is_file() for path in shown)


@pytest.mark.parametrize("run", RUNS)
def test_a_row_is_that_of_the_report(run):
    (row,) = [row for row in rows(REPORT / "tables/losses.csv") if row["run"] == run]
    numbers = [f"{float(row[f'ours_{name}']):.1f} ± {float(row[f'sd_{name}']):.1f}" for name in METRICS]
    assert cells(run) == [row["n_seeds"], *numbers]


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_gain_is_that_of_the_claim(claim):
    found = {row["claim"]: row for row in rows(REPORT / "claims.csv")}
    of_captions = found[f"{claim}/i2t_r1"]
    of_images = found.get(f"{claim}/t2i_r1") or found[f"{claim}-images/t2i_r1"]
    assert cells(claim) == [of_captions["n_seeds"], gain(of_captions), "", gain(of_images), ""]


def gain(row):
    low, high = ([float(row[f"{over}_{end}"]) for over in ("images", "seeds")] for end in ("low", "high"))
    return f"{float(row['ours']):+.1f} ({low[0]:+.1f} to {high[0]:+.1f}; {low[1]:+.1f} to {high[1]:+.1f})"
