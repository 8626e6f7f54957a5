"""GOAL through the DAG: a gradient that no loss has, on an encoder that plays ViT-B/16, frozen and then fine-tuned."""

import csv

import pytest
from dag import of

pytestmark = pytest.mark.workflow
RUN = "goal-coco-vit-cir-sig-ms"


def test_a_combination_is_trained_frozen_and_fine_tuned_and_stands_in_its_rows(project):
    before = project.manifests()
    config = {"papers": ["goal"], "only": [f"{RUN}*"]}
    project.run(**config)
    assert of(RUN) | of(f"{RUN}-ft") < project.remade(before)
    report = project.folder / "reports/tiny/paper/goal"
    with (report / "tables/table4.csv").open() as file:
        shown = {row["row"]: row for row in csv.DictReader(file) if row["ours_i2t_r1"]}
    assert set(shown) == {"4.15", "4.30"} and {row["n_seeds"] for row in shown.values()} == {"1"}
    for figure in ("table1", "figure2", "figure3", "learning-curves"):
        assert (report / f"figures/{figure}.svg").is_file()
    page = (report / "index.html").read_text()
    assert "T cir · P sig-ms" in page and "not trained here" in page
    assert project.planned(**config) == {}
    project.said("vsepp", "verify", "--config", 'papers=["goal"]', f'only=["{RUN}*"]')
