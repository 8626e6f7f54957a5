"""What the README says is what the kept study says, and its lines of Python print what it says that they print."""

import csv
import re
import shlex
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from processes import python
from query_picture import ANSWERS, PHOTOGRAPHS, PICTURE, SENTENCE, answers

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REPORT = ROOT / "docs/results/flickr8k/reports/flickr8k_study"
CLAIMS = {
    "30 epochs": "whole-1c-long",
    "12 epochs †": "whole-1c",
    "random crops": "rc",
    "five times the learning rate": "whole-1c-fast",
}
"""A line of its table of differences → the claim of the study."""


@pytest.fixture(scope="module")
def claims():
    with (REPORT / "claims.csv").open(newline="", encoding="utf-8") as file:
        return {row["claim"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize(("name", "claim"), CLAIMS.items())
def test_a_difference_is_that_of_the_claim(claims, name, claim):
    (line,) = re.findall(rf"^\| {name} \|.*$", README, re.MULTILINE)
    of_captions = claims[f"{claim}/i2t_r1"]
    of_images = claims.get(f"{claim}/t2i_r1") or claims[f"{claim}-images/t2i_r1"]
    cells = re.split(r" *\| *", line)[2:-1]
    expected = [cell for row in (of_captions, of_images) for cell in difference(row)]
    if "learning rate" in name:  # which the paper did not try
        expected[1::2] = "–", "–"
    assert cells == [of_captions["n_seeds"], *expected]


def difference(row):
    ends = [[float(row[f"{part}_{end}"]) for end in ("low", "high")] for part in ("images", "seeds")]
    low, high = max(ends, key=lambda pair: pair[1] - pair[0])
    return f"{float(row['ours']):+.1f} [{low:+.1f}, {high:+.1f}]", f"{float(row['paper']):+.1f}"


def test_the_status_counts_the_verdicts_on_the_papers_claims(claims):
    (line,) = [line for line in README.splitlines() if line.startswith("| Flickr8k")]
    verdicts = Counter(row["verdict"] for row in claims.values() if row["of_the_paper"] == "1")
    one_seed = verdicts.pop("inconclusive (one seed)")
    assert f"{sum(verdicts.values()) + one_seed} tests of the paper's claims:" in line
    assert f"{verdicts.pop('inconclusive') + one_seed} inconclusive ({one_seed} of them one seed)" in line
    assert f"{verdicts.pop('not reproduced: collapsed')} collapsed" in line
    assert verdicts
    for verdict, count in verdicts.items():
        assert f"{count} {verdict}" in line


def test_the_lines_of_python_print_what_the_readme_says(monkeypatch):
    pytest.importorskip("efficientnet_lite_pytorch")
    monkeypatch.chdir(ROOT)
    code, printed = re.search(r"## Use\n\n((?:    .*\n|\n)+)prints `(.+)`", README).groups()
    assert python(textwrap.dedent(code)).strip() == printed


def test_the_picture_is_the_answer_to_the_first_command():
    pytest.importorskip("efficientnet_lite_pytorch")
    command, alternative, picture = re.search(
        r"^    (uv run vsepp query .+)\n\n!\[(.+)\]\((.+)\)$", README, re.MULTILINE
    ).groups()
    folder = str(PHOTOGRAPHS.relative_to(ROOT))
    asked = ["flickr8k", "--text", SENTENCE, "--pictures", folder, "-k", str(ANSWERS)]
    assert shlex.split(command)[4:] == asked and ROOT / picture == PICTURE
    hits = answers()
    assert [hit.file_name for hit in hits] == [
        "photographer.jpg",
        "grace_hopper.jpg",
        "astronaut.jpg",
        "raccoon.jpg",
    ]
    scores = [float(score) for score in re.findall(r"\d\.\d{3}", alternative)]
    assert [hit.score for hit in hits] == pytest.approx(scores, abs=0.002)
