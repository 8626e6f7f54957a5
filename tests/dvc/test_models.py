"""Trained models beside each other, and beside what was expected of them."""

import json
import re

import pytest
from projects import RUNS

pytestmark = pytest.mark.dvc
*_, RC, FT = RUNS


def test_results_are_compared_and_held_to_what_was_expected_of_them(project):
    assert "protocol 5x1K: 5 folds of 10 images" in project.vsepp("compare", RC, FT)
    file = project.folder / "docs/results/tiny/expected.csv"
    assert f"{file.name}: no such file" in project.vsepp("verify", "--scores", status=1)
    rsum = json.loads((project.evaluation() / "metrics.json").read_text())["5x1K"]["rsum"]
    head = "run,protocol,seed,metric,expected,tolerance\n"
    file.parent.mkdir(parents=True)
    file.write_text(f"{head}{RUNS[0]},5x1K,0,rsum,{rsum},seeds\n{RUNS[1]},5x1K,0,rsum,0,nothing\n")
    output = project.vsepp("verify", "--scores")
    assert re.findall(r"\d+", output.splitlines()[-1]) == ["2", "1", "1"]
    file.write_text(f"{head}{RUNS[0]},5x1K,0,rsum,{rsum + 9},seeds\n")
    output = project.vsepp("verify", "--scores", status=1)
    assert f"{RUNS[0]}, 5x1K, seed 0: rsum {rsum:.2f}, " in output
    assert "1 of 1 score outside" in output
    project.vsepp("verify", "--phase", "models")
