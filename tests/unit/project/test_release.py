"""What a release says stands once, or the same everywhere: its version, its licences, its packages."""

import re
from pathlib import Path

import pytest

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
    tables = [
        path for path in ROOT.glob("params/papers/*/published.csv") if len(path.read_text().splitlines()) > 1
    ]
    assert tables
    for path in tables:
        assert f"`{path.relative_to(ROOT)}`" in listed
