"""The page about a loss of one's own, done as it says: its module and entries are written, its commands are called."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dag import ROOT, TINY, copy_of_the_project
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
    report = project.folder / "reports/mini/tiny/mine"
    assert "squared hinges" in (report / "tables/mine.html").read_text()
    (cited,) = re.findall(r'^CITATION = "(.+)"$', squared_hinges(), re.MULTILINE)
    assert cited in (report / "index.html").read_text()


# Two images and two captions: with a margin of .2 each is violated by .1.
USE = """
import torch
from vsepp import components

module = components.load("loss", "squared_hinges")
scores = torch.tensor([[1.0, 0.9], [0.9, 1.0]])
print(*components.known("loss"), module.__file__, round(float(module.loss(scores)), 6))
"""


@pytest.mark.whole
def test_the_package_of_the_page_is_built_and_installed_and_offers_the_loss(tmp_path):
    package, site = tmp_path / "squared-hinges", tmp_path / "site"
    package.mkdir()
    (package / "pyproject.toml").write_text(one(PAGE, "[project]") + "\n")
    (package / "squared_hinges.py").write_text(squared_hinges() + "\n")
    *command, folder = shlex.split(one(PAGE, "uv pip install"))
    assert Path(folder).name == package.name
    # Into a folder of its own, by the setuptools that is here: torch needs it.
    where = ("--target", str(site), "--python", sys.executable)
    offline = ("--offline", "--no-deps", "--no-build-isolation")
    subprocess.run([*command, *offline, *where, str(package)], check=True)

    paths = os.pathsep.join([str(site), os.environ["PYTHONPATH"]])
    said = subprocess.run(
        [sys.executable, "-c", USE], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, check=True
    )
    *known, file, value = said.stdout.decode().split()
    assert known == sorted([*components.known("loss"), "squared_hinges"])
    assert file == str(site / "squared_hinges.py") and float(value) == 0.04
