"""Trained models: what is listed of them, and one of them used away from its repository."""

import json

import numpy as np
import pytest
from dag import RUNS, Project

from vsepp.base.manifest import read_manifest, uncommitted_steps

pytestmark = pytest.mark.dvc
VSE0, VSEPP, RC, FT = RUNS
REPORT = "reports/tiny/paper/vsepp"


def test_what_uncommitted_code_made_is_marked_and_so_is_all_that_is_made_from_it(project):
    before = {run: project.weights(run) for run in RUNS}
    project.edit("vsepp/losses/sum_of_hinges.py", "captions.sum() + images.sum()", "captions.sum()")
    project.run("all_models")
    project.edit("reports/templates/index.html.j2", new="\n")
    project.commit("What I had, and another page")
    project.run("all_results")
    assert {run for run in RUNS if project.weights(run) != before[run]} == {VSE0}
    assert {run for run in RUNS if uncommitted_steps(read_manifest(project.evaluation(run)))} == {VSE0}
    assert (project.folder / REPORT / "index.html").read_text().count("<sup>†</sup></td>") == 1
    project.call("vsepp", "verify")
    report = uncommitted_steps(read_manifest(project.folder / REPORT))
    assert report == ["run"], "the page is of a commit, the model is not"


def test_results_are_compared_and_held_to_what_was_expected_of_them(project):
    assert "protocol 5x1K: 5 folds of 10 images" in project.vsepp("compare", RC, FT)
    file = project.folder / "docs/results/tiny/expected.csv"
    assert f"{file.name}: no such file" in project.vsepp("verify", "--scores", status=1)
    rsum = json.loads((project.evaluation() / "metrics.json").read_text())["5x1K"]["rsum"]
    head = "run,protocol,seed,metric,expected,tolerance\n"
    file.parent.mkdir(parents=True)
    file.write_text(f"{head}{RUNS[0]},5x1K,0,rsum,{rsum},seeds\n{RUNS[1]},5x1K,0,rsum,0,nothing\n")
    said = project.vsepp("verify", "--scores")
    assert said.splitlines()[-1] == "2 scores: 1 within tolerance, 1 not held"
    file.write_text(f"{head}{RUNS[0]},5x1K,0,rsum,{rsum + 9},seeds\n")
    said = project.vsepp("verify", "--scores", status=1)
    assert f"{RUNS[0]}, 5x1K, seed 0: rsum {rsum:.2f}, expected " in said
    assert "1 of 1 score outside" in said
    project.vsepp("verify", "--phase", "models")


def test_a_model_fetched_alone_gives_the_embeddings_and_recalls_of_its_repository(reproduced, tmp_path):
    """In a folder of someone else's, with the data that it was tested on, each fetched by itself."""
    (tmp_path / "elsewhere").mkdir()
    mine = Project(tmp_path / "elsewhere")
    whole = reproduced.folder
    (corpus,) = (whole / "results/tiny/corpora").glob("coco-*")
    (features,) = (whole / "results/tiny/features").glob("coco-*-vgg-1C-*")
    parts = {"model": reproduced.model(VSEPP), "corpus": corpus, "features": features}
    for name, path in parts.items():
        mine.call("dvc", "get", whole, path.relative_to(whole).as_posix(), "--out", name)
    read = [part for option in ("corpus", "features") for part in (f"--{option}", option)]
    protocol = ["--protocol", "1K", "--fold-size", "10", "--output", "out"]
    mine.call("vsepp", "evaluate", "--run", "model", *read, *protocol, PYTHONPATH=str(whole))
    theirs, ours = reproduced.evaluation(VSEPP), mine.folder / "out"
    with (
        np.load(reproduced.model(VSEPP) / "embeddings.npz") as expected,
        np.load(ours / "embeddings.npz") as found,
    ):
        assert expected.files == found.files
        assert all(np.array_equal(expected[name], found[name]) for name in expected.files)
    expected, found = (json.loads((folder / "metrics.json").read_text()) for folder in (theirs, ours))
    assert found["1K"] == expected["1K"]
