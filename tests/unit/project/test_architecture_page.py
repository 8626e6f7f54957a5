"""The page on architecture names what is there: functions, kinds of artefacts, and the linter's layers."""

import re
import tomllib
from pathlib import Path

import pytest

from vsepp.pipeline.steps import STEPS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
PICTURE, LAYERS = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("file", "names"), re.findall(r"(\S+\.py): (\w+(?:, \w+)*)", PICTURE))
def test_a_function_of_the_picture_is_in_its_file(file, names):
    source = (ROOT / "vsepp" / file).read_text(encoding="utf-8")
    for name in names.split(", "):
        assert re.search(rf"^(def|class) {name}\b", source, re.MULTILINE)


def test_every_kind_of_artefact_is_on_the_page_once():
    steps = re.findall(r"│  (?:or )?([a-z]+) ", PICTURE)
    rows = [
        name
        for row in re.findall(r"^\| (`[a-z_`, ]+`) \|.*\|.*\|$", PAGE, re.MULTILINE)
        for name in row.split(", ")
    ]
    assert sorted([*steps, *(name.strip("`") for name in rows)]) == sorted(STEPS)


def test_the_layers_are_the_linters():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert LAYERS.splitlines() == [layer.replace("vsepp.", "") for layer in contracts[0]["layers"]]
