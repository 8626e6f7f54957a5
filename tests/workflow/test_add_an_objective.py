"""The page about a loss of one's own, done as it says: its module and entries are written, its commands are called."""

import json
import re
import shlex
import shutil

import pytest
from page_blocks import DOCS, block, blocks, squared_hinges
from projects import ROOT, folders_of

PAGE = blocks((DOCS / "extending.md").read_text(encoding="utf-8"))


@pytest.mark.whole
def test_the_page_on_objectives_works_as_written(project):
    for name in ("tests", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, project.folder / name)
    (project.folder / "vsepp/losses/squared_hinges.py").write_text(squared_hinges() + "\n")

    command = shlex.split(block(PAGE, "uv run pytest"))
    assert command[:2] == ["uv", "run"]
    assert " passed" in project.output(*command[2:])

    folder = project.folder / "params/papers/mine"
    folder.mkdir()
    for name, start in (("runs.yaml", "mine-mh:"), ("tables.yaml", "paper:")):
        (folder / name).write_text(block(PAGE, start) + "\n")
    project.call("sh", "-c", block(PAGE, "head -n 1"))

    runs = ["mine-squared", "mine-mh"]
    command = shlex.split(block(PAGE, "uv run snakemake"))
    assert command[:2] == ["uv", "run"]
    before = project.manifests()
    project.call(*command[2:], f"only={json.dumps(runs)}")
    report = "reports/tiny/paper/mine"
    assert project.remade(before) == {*folders_of(runs[0]), *folders_of(runs[1]), report}
    report = project.folder / report
    assert "squared hinges" in (report / "tables/mine.html").read_text()
    (cited,) = re.findall(r'^CITATION = "(.+)"$', squared_hinges(), re.MULTILINE)
    assert cited in (report / "index.html").read_text()
