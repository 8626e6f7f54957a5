"""The paper `objectives` from one command to the table: trainings on all seeds, and the setting that validation prefers."""

import csv

import numpy as np
import pytest
from dag import of

pytestmark = pytest.mark.workflow
SH, MH = ["obj-sh-01", "obj-sh-04"], ["obj-mh-02"]
SEEDS = [0, 1]


def best_epochs(project, run):
    """The highest rsum on validation of each seed's training."""
    for seed in SEEDS:
        with (project.folder / f"results/tiny/briefly/runs/{run}/seed-{seed}/history.csv").open() as file:
            yield max(float(epoch["rsum"]) for epoch in csv.DictReader(file))


def test_one_command_trains_tunes_and_ranks(project):
    before = project.manifests()
    config = {"label": "briefly", "only": [*SH, *MH], "runs": {"objective": {"seeds": SEEDS}}}
    config["papers"] = ["objectives"]
    project.run("reproduce_tables", **config)
    made = [of(run, seed, "briefly") for run in (*SH, *MH) for seed in SEEDS]
    assert set().union(*made) < project.remade(before)
    report = project.folder / "reports/tiny/briefly/objectives"
    with (report / "tables/objectives.csv").open() as file:
        shown = {row["run"] for row in csv.DictReader(file) if row["ours_i2t_r1"]}
    level = {run: np.mean([*best_epochs(project, run)]) for run in SH}
    assert shown == {max(level, key=level.__getitem__), *MH}
    assert (report / "figures/standings.svg").is_file()
    assert project.planned("reproduce_tables", **config) == {}
