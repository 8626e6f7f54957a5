"""A clone gets the results of its commit from a remote, and computes only what is changed there."""

import shutil

import pytest
from dag import RUNS, Project

pytestmark = [pytest.mark.dvc, pytest.mark.whole]
_, VSEPP, *_ = RUNS
ENTRIES = "params/papers/vsepp/runs.yaml"


def tables(project):
    """Name of every table, in each of its formats → its bytes."""
    folder = project.folder
    found = {path.relative_to(folder): path.read_bytes() for path in folder.glob("reports/**/tables/*")}
    assert found
    return found


def test_a_clone_is_told_how_to_get_the_results_and_makes_what_is_changed_alone(project, tmp_path):
    """The first project is gone; docs/versions.md has the rest."""
    project.call("dvc", "remote", "add", "--default", "store", tmp_path / "store")
    project.commit("Where results are kept")
    project.call("dvc", "push")
    folder = tmp_path / "elsewhere/vsepp"
    folder.parent.mkdir()
    project.call("git", "clone", "--quiet", project.folder, folder)
    assert not (folder / "results").exists() and not (folder / ".dvc/cache").exists()
    before = tables(project)
    shutil.rmtree(project.folder)
    clone = Project(folder)
    said = clone.refusal("vsepp", "verify")
    clone.call("dvc", "pull")
    looked = clone.run("--dry-run")
    assert "train" in looked, "a pull changes every time"
    assert clone.typed(said, 1) and clone.typed(looked, 0), "both tell the one way"
    assert tables(clone) == before
    assert clone.planned() == {}, "it does not miss the stores that nobody pushed"
    assert "didn't change, skipping" in clone.said("dvc", "repro")
    clone.edit(ENTRIES, f"{VSEPP}: {{base: vsepp,", f"{VSEPP}: {{base: vsepp, loss: {{margin: 0.3}},")
    assert clone.planned() == {"train": 1, "evaluate": 1, "report": 1}
