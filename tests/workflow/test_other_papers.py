"""Other papers from one command: relative margins; GOAL, a gradient that no loss has; VSE∞'s regions and grids, BERT."""

import csv

import numpy as np
import pytest
from projects import folders_of
from safetensors.torch import load_file

from vsepp.data.vectors import CaptionVectors

pytestmark = [pytest.mark.workflow, pytest.mark.whole]
MARGIN, FIFTH = "coco-relative-margin", "coco-relative-margin-fifth"
GOAL, REGIONS = "goal-coco-vit-cir-sig-ms", "goal-coco-butd-nca-sig-ms"
GRID = "inf-coco-grid"
CONFIG = {
    "label": "briefly",
    "papers": ["relative_margins", "goal", "vse_infinity"],
    "only": [MARGIN, GOAL, REGIONS, GRID],
    "runs": {"vse-infinity": {"epochs": 2}, "inf-grid-start": {"epochs": 1}, "inf-grid": {"epochs": 1}},
}
REPORTS = "reports/tiny/briefly"


@pytest.fixture(scope="module")
def finished(reproduced, tmp_path_factory):
    """The project with the runs of three more papers, and what was made for them."""
    project = reproduced.copy(tmp_path_factory.mktemp("papers") / "vsepp")
    return project, project.make(**CONFIG)


def filled_rows(project, table):
    """The rows of a table that a trained run fills."""
    with (project.folder / REPORTS / table).open() as file:
        return {row["row"] for row in csv.DictReader(file) if row["ours_i2t_r1"]}


def test_all_runs_are_made_and_nothing_is_left_to_do(finished):
    project, folders = finished
    runs = (MARGIN, GOAL, REGIONS, f"{GRID}-start", GRID)
    assert folders > set().union(*(folders_of(run, variant="briefly") for run in runs))
    assert project.planned("reproduce_tables", **CONFIG) == {}


def test_runs_with_relative_margins_share_the_vectors_of_the_captions(finished):
    project, folders = finished
    (folder,) = {folder for folder in folders if "-captions-tfidf" in folder}
    vectors = CaptionVectors.load(project.folder / folder)
    assert len(vectors) and np.isfinite(vectors.values).all() and (vectors.values > 0).all()
    assert (project.folder / REPORTS / "relative_margins/figures/coco-epochs.svg").is_file()
    more = CONFIG | {"papers": ["relative_margins"], "only": [MARGIN, FIFTH]}
    assert project.planned(**more) == {"train": 1, "evaluate": 1, "report": 1}


def test_combinations_of_goal_stand_in_their_rows(finished):
    project, _ = finished
    assert filled_rows(project, "goal/tables/table4.csv") == {"4.15"}
    assert filled_rows(project, "goal/tables/table5.csv") == {"5.14"}
    for figure in ("table1", "figure2", "figure3"):
        assert (project.folder / REPORTS / f"goal/figures/{figure}.svg").is_file()
    page = (project.folder / REPORTS / "goal/index.html").read_text()
    assert "T cir · P sig-ms" in page and "all others are quoted" in page


def test_vse_infinity_pools_regions_and_the_grid_of_a_cnn_that_is_trained(finished):
    project, _ = finished
    assert filled_rows(project, "vse_infinity/tables/coco-1k.csv") == {"1K.5"}
    assert filled_rows(project, "vse_infinity/tables/coco-5k.csv") == {"5K.5"}
    weights = [
        load_file(project.folder / f"results/tiny/briefly/runs/{run}/seed-0/model.safetensors")
        for run in (GRID, REGIONS)
    ]
    assert [any(name.startswith("encoder.") for name in of_run) for of_run in weights] == [True, False]
    assert all("image_pooling.gru.weight_ih_l0" in of_run for of_run in weights)
