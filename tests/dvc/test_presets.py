"""One commit versions one preset; another one can be tried and left again."""

import pytest
from repository import RUNS

pytestmark = pytest.mark.dvc


def reports(repository):
    """Every file of the tiny preset's report → its bytes."""
    folder = repository.folder / "reports/tiny"
    found = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found
    return found


def test_an_experiment_with_another_preset(repository):
    tiny = repository.folder / "params/presets/tiny.yaml"
    tiny.with_name("other.yaml").write_text(tiny.read_text().replace("fold_size: 10", "fold_size: 5"))
    repository.commit("Another preset")
    before = reports(repository)
    chosen = ["params/config.yaml:preset=other", "params/config.yaml:only=[coco-vse0-1c]"]
    output = repository.call(
        "dvc", "exp", "run", "--name", "other", *(part for value in chosen for part in ("-S", value))
    ).stdout
    assert "Ran experiment" in output, output
    found = repository.folder.glob("results/other/paper/runs/*/seed-0/model.safetensors")
    assert [model.parts[-3] for model in found] == ["coco-vse0-1c"]
    assert (repository.folder / "reports/other/paper/metrics/coco-vse0-1c.json").is_file()
    difference = repository.call("dvc", "metrics", "diff", "HEAD", "other").stdout
    assert "reports/other/paper/metrics/coco-vse0-1c.json" in difference
    repository.call("vsepp", "verify")

    repository.call("git", "restore", "params/config.yaml", "dvc.lock")
    repository.call("vsepp", "sync")
    assert reports(repository) == before
    assert repository.is_done()
    assert {path.name for path in repository.folder.glob("results/tiny/paper/runs/*")} == set(RUNS)
    assert "Data and pipelines are up to date" in repository.call("dvc", "status").stdout
