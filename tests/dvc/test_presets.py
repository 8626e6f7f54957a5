"""One commit versions one preset; another one can be tried and left again."""

import pytest
from dag import RUNS

pytestmark = [pytest.mark.dvc, pytest.mark.whole]


def reports(project):
    """Every file of the tiny preset's report → its bytes."""
    folder = project.folder / "reports/tiny"
    found = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found
    return found


def test_an_experiment_with_another_preset(project):
    tiny = project.folder / "params/presets/tiny.yaml"
    tiny.with_name("other.yaml").write_text(tiny.read_text().replace("fold_size: 10", "fold_size: 5"))
    project.commit("Another preset")
    before = reports(project)
    chosen = ["params/config.yaml:preset=other", f"params/config.yaml:only=[{RUNS[0]}]"]
    values = [part for value in chosen for part in ("-S", value)]
    assert "Ran experiment" in project.said("dvc", "exp", "run", "--name", "other", *values)
    found = project.folder.glob("results/other/paper/runs/*/seed-0/model.safetensors")
    assert [model.parts[-3] for model in found] == RUNS[:1]
    metrics = f"reports/other/paper/vsepp/metrics/{RUNS[0]}.json"
    assert (project.folder / metrics).is_file()
    assert metrics in project.said("dvc", "metrics", "diff", "HEAD", "other")
    project.call("vsepp", "verify")

    project.call("git", "restore", "params/config.yaml", "dvc.lock")
    project.call("vsepp", "sync")
    assert reports(project) == before
    assert project.planned() == {}
    assert {path.name for path in project.folder.glob("results/tiny/paper/runs/*")} == set(RUNS)
    assert project.is_versioned()
