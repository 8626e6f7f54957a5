"""The page about a loss of one's own, done as it says: its module and entries are written, its commands are called."""

import json
import shlex
import shutil
import sys
import tomllib

import pytest
from dag import ROOT, TINY, copy_of_the_project
from installed import install
from pages import DOCS, blocks, one, squared_hinges

from vsepp import components

PAGE = blocks((DOCS / "add-an-objective.md").read_text(encoding="utf-8"))


@pytest.mark.whole
def test_the_page_on_objectives_works_as_written(tmp_path):
    project = copy_of_the_project(tmp_path / "vsepp")
    for name in ("tests", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, project.folder / name)
    (project.folder / "vsepp/losses/squared_hinges.py").write_text(squared_hinges() + "\n")

    command = shlex.split(one(PAGE, "uv run pytest"))
    assert command[:2] == ["uv", "run"]
    assert " passed" in project.said(*command[2:])

    folder = project.folder / "params/papers/mine"
    folder.mkdir()
    for name, start in (("runs.yaml", "mine-mh:"), ("tables.yaml", "paper:")):
        (folder / name).write_text(one(PAGE, start) + "\n")
    project.call("sh", "-c", one(PAGE, "head -n 1"))

    command = shlex.split(one(PAGE, "uv run snakemake"))
    assert command[:2] == ["uv", "run"]
    # A few pictures, and few epochs on them; the rest is as on the page.
    project.call(*command[2:], *(f"{key}={json.dumps(value)}" for key, value in TINY.items()))
    evaluations = project.folder / "results/mini/tiny/evaluations"
    assert {path.name for path in evaluations.iterdir()} == {"mine-squared", "mine-mh"}
    table = (project.folder / "reports/mini/tiny/mine/tables/mine.html").read_text()
    assert "squared hinges" in table


def test_the_package_of_the_page_offers_the_loss(tmp_path, monkeypatch):
    given = tomllib.loads(one(PAGE, "[project]"))["project"]
    ((group, points),) = given["entry-points"].items()
    ((name, module),) = points.items()
    install(monkeypatch, tmp_path, group, name, squared_hinges())
    found = components.load("loss", name)
    monkeypatch.delitem(sys.modules, module)
    assert found.__file__ == str(tmp_path / f"{module}.py") and found.Options().margin == 0.2
