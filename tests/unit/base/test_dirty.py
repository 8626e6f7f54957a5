"""An artefact says whether some commit holds the code that made it."""

import shutil
import subprocess

import pytest

from vsepp.base.provenance import git_state


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout"
    for name in (
        "vsepp/__init__.py",
        "vsepp/base/errors.py",
        "dvc.lock",
        "params/config.yaml",
        "docs/page.md",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("first\n")
    (folder / ".gitignore").write_text("/results/\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=N", "-c", "user.email=n@example.org", "commit", "--quiet", "-m", "x")
    return folder


def git(folder, *arguments):
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_what_a_commit_holds_is_clean(checkout):
    assert git_state(checkout) == {"commit": git(checkout, "rev-parse", "HEAD"), "dirty": False}


@pytest.mark.parametrize(
    ("path", "dirty"),
    [
        ("vsepp/base/errors.py", True),
        ("vsepp/losses_of_mine.py", True),
        ("params/config.yaml", True),
        # What is written while results are made, and what decides nothing.
        ("dvc.lock", False),
        ("params/sources.lock.yaml", False),
        ("docs/page.md", False),
    ],
)
@pytest.mark.parametrize("staged", [False, True], ids=["written", "staged"])
def test_edited_and_added_code_and_parameters_are_dirt(checkout, path, dirty, staged):
    (checkout / path).parent.mkdir(exist_ok=True)
    with (checkout / path).open("a") as stream:
        stream.write("\n")
    if staged:
        git(checkout, "add", "--all")
    assert git_state(checkout)["dirty"] is dirty


def test_the_commit_of_a_repository_that_does_not_hold_the_code_is_not_its_own(checkout, monkeypatch):
    """As of a package that was installed below somebody's project."""
    installed = checkout / "results" / "site-packages"
    shutil.copytree(checkout / "vsepp", installed / "vsepp")
    assert git_state(installed) == {"commit": "unknown", "dirty": None}
    monkeypatch.setenv("VSEPP_GIT_COMMIT", "of the image")
    assert git_state(installed.parent) == {"commit": "of the image", "dirty": None}
