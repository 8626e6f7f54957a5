"""What a release says stands once, or the same everywhere: its version, its licences, its packages."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import vsepp

ROOT = Path(__file__).resolve().parents[3]


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("CITATION.cff", r"^version: (.+)$"),
        ("CHANGELOG.md", r"\A# Changelog\n+## (\S+)"),
        ("Dockerfile", r"^# docker build -t vsepp:(\S+) \.$"),
        ("Dockerfile", r"^# apptainer build vsepp-(\S+)\.sif "),
        ("Dockerfile", r"docker-daemon:vsepp:(\S+)$"),
    ],
)
def test_a_version_that_is_repeated_is_the_packages(file, line):
    assert re.findall(line, text(file), re.MULTILINE) == [vsepp.__version__]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("Dockerfile", r"^FROM python:(.+)-slim$"),
        (".github/workflows/ci.yml", r'python-version: "(.+)"'),
        ("CONTRIBUTING.md", r"--python-version (\S+)"),
        ("pyproject.toml", r'^python_version = "(.+)"'),
    ],
)
def test_a_python_that_is_repeated_is_the_oldest_of_the_package(file, line):
    (oldest,) = re.findall(r'^requires-python = ">=([\d.]+),', text("pyproject.toml"), re.MULTILINE)
    assert set(re.findall(line, text(file), re.MULTILINE)) == {oldest}


def test_files_of_others_that_are_listed_are_there():
    named = re.findall(r"`([\w*./-]+/[\w*.-]*)`", text("LICENSES.md"))
    assert len(named) > 4
    missing = [path for path in named if path != ".github/" and not list(ROOT.glob(path.rstrip("/")))]
    assert missing == []


def test_papers_with_published_numbers_are_listed():
    listed = text("LICENSES.md")
    found = [
        path for path in ROOT.glob("params/papers/*/published.csv") if len(path.read_text().splitlines()) > 1
    ]
    assert found
    for path in found:
        assert f"`{path.relative_to(ROOT)}`" in listed


def test_githubs_runners_call_the_projects_own_checks():
    (job,) = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == ["pip install uv", ".ci/run"]
    actions = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(re.search("@[0-9a-f]{40}$", action) for action in actions)
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_the_environment_of_every_call_has_no_linter():
    project = tomllib.loads(text("pyproject.toml"))
    default = project["tool"]["uv"]["default-groups"]
    assert default == ["run", "test"]
    brought = str([project["dependency-groups"][group] for group in default])
    for tool in ("ruff", "mypy", "snakefmt", "import-linter"):
        assert tool not in brought
