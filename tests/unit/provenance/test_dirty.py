"""An artefact says whether some commit holds the code that made it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vsepp
from vsepp.provenance.manifest import dirty_parts, read_manifest, recorded, write_manifest

PACKAGE = Path(vsepp.__file__).parent
_STATE = "import json; from vsepp.provenance.manifest import git_state; print(json.dumps(dict(git_state())))"


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout"
    for name in (
        "provenance/manifest.py",
        "provenance/digests.py",
        "provenance/__init__.py",
        "runtime/__init__.py",
        "runtime/files.py",
        "runtime/progress.py",
        "components.py",
        "errors.py",
        "spec.py",
        "__init__.py",
    ):
        (folder / "vsepp" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PACKAGE / name, folder / "vsepp" / name)
    (folder / ".gitignore").write_text("__pycache__/\n/results/\n")
    for name in ("dvc.lock", "params/runs.yaml", "docs/page.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("first\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=N", "-c", "user.email=n@example.org", "commit", "--quiet", "-m", "x")
    return folder


def git(folder, *arguments):
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def state(folder):
    done = subprocess.run(
        [sys.executable, "-c", _STATE], cwd=folder, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def is_dirty(folder):
    return state(folder)["dirty"]


def test_what_a_commit_holds_is_clean(checkout):
    assert is_dirty(checkout) is False


@pytest.mark.parametrize(
    "path", ["vsepp/errors.py", "params/runs.yaml", "vsepp/losses_of_mine.py", "params/mine.yaml"]
)
def test_edited_and_added_code_and_parameters_are_dirt(checkout, path):
    with (checkout / path).open("a") as stream:
        stream.write("\n")
    assert is_dirty(checkout) is True


def test_staged_code_is_dirt(checkout):
    (checkout / "vsepp" / "errors.py").unlink()
    (checkout / "vsepp" / "errors.py").write_text("class VseppError(Exception): pass\n")
    git(checkout, "add", "--all")
    assert is_dirty(checkout) is True


def test_what_is_written_while_results_are_made_is_no_dirt(checkout):
    (checkout / "dvc.lock").write_text("second\n")
    (checkout / "params" / "sources.lock.yaml").write_text("archive.zip: {sha256: ab}\n")
    (checkout / "results").mkdir()
    (checkout / "results" / "model").write_text("weights")
    (checkout / "notes.txt").write_text("mine")
    assert is_dirty(checkout) is False


def test_the_commit_of_a_repository_that_does_not_hold_the_code_is_not_its_own(checkout, tmp_path):
    """As of a package that was installed below somebody's project."""
    installed = checkout / "results" / "site-packages"
    shutil.copytree(checkout / "vsepp", installed / "vsepp")
    assert state(installed) == {"commit": "unknown", "dirty": None}


def made(folder, dirty, **inputs):
    folder.mkdir()
    with recorded(folder, "step", spec={}, inputs=inputs):
        (folder / "file").write_text(folder.name)
    manifest = read_manifest(folder)
    write_manifest(folder, {**manifest, "git": {"commit": "c", "dirty": dirty}})
    return folder


def test_dirt_of_ancestors_reaches_everything_that_was_made_from_them(tmp_path):
    encoder = made(tmp_path / "encoder", dirty=True)
    features = made(tmp_path / "features", dirty=False, encoder=encoder)
    run = made(tmp_path / "run", dirty=False, features=features / "file")
    metrics = made(tmp_path / "metrics", dirty=True, run=run)
    assert dirty_parts(read_manifest(features)) == ["encoder"]
    assert dirty_parts(read_manifest(run)) == ["features.encoder"]
    assert dirty_parts(read_manifest(metrics)) == ["itself", "run.features.encoder"]


def test_without_dirt_there_is_nothing_to_mark(tmp_path):
    encoder = made(tmp_path / "encoder", dirty=False)
    assert dirty_parts(read_manifest(made(tmp_path / "features", dirty=None, encoder=encoder))) == []
