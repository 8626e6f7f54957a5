"""The hashed lock holds every requirement of the project, with hashes and without hosts."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[3]


def pins():
    versions = {}
    text = (ROOT / "requirements.lock").read_text()
    for block in re.split(r"\n(?=\S)", text.replace("\\\n", " ")):
        match = re.match(r"([A-Za-z0-9._-]+)==(\S+)", block)
        if match:
            assert "--hash=sha256:" in block, f"{match[1]} has no hash"
            versions[match[1].lower().replace("_", "-").replace(".", "-")] = Version(match[2])
    return versions


def installed(project, group):
    """Requirements of a dependency group and of the project's extras that it names."""
    for requirement in map(Requirement, project["dependency-groups"][group]):
        if requirement.name != "vsepp":
            yield requirement
        for extra in requirement.extras if requirement.name == "vsepp" else ():
            yield from map(Requirement, project["project"]["optional-dependencies"][extra])


def test_every_requirement_is_pinned_within_its_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [
        *map(Requirement, project["project"]["dependencies"]),
        *(requirement for group in ("run", "test") for requirement in installed(project, group)),
    ]
    locked = pins()
    assert len(wanted) > 15
    assert "eccv-caption" in {requirement.name for requirement in wanted}
    for requirement in wanted:
        name = requirement.name.lower().replace("_", "-")
        assert name in locked, f"{name} is missing: uv pip compile again, see CONTRIBUTING.md"
        assert locked[name] in requirement.specifier, f"{name} {locked[name]} does not satisfy {requirement}"


def test_the_workflow_asks_for_the_snakemake_that_the_project_requires():
    (asked,) = re.findall(r'^min_version\("(.+)"\)$', (ROOT / "Snakefile").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = map(Requirement, project["optional-dependencies"]["workflow"])
    assert [str(r.specifier) for r in required if r.name == "snakemake"] == [f">={asked}"]


def test_no_host_is_named():
    assert "://" not in (ROOT / "requirements.lock").read_text()
