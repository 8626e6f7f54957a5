"""What `vsepp sync` refuses, and how it says why results could not be fetched: with real repositories of DVC, of four phases."""

import importlib.util
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from dag import ROOT
from dvc.repo import Repo, lock_repo
from ssh_server import free_port

from vsepp.cli import main
from vsepp.cli.sync import PHASES, _alone, _fetch, _require_version
from vsepp.errors import VseppError

PLAN = SimpleNamespace(report=Path("reports/tiny/paper"))


@pytest.fixture(autouse=True)
def own_settings(tmp_path, monkeypatch):
    for kind in ("GLOBAL_CONFIG", "SYSTEM_CONFIG", "SITE_CACHE"):
        monkeypatch.setenv(f"DVC_{kind}_DIR", str(tmp_path / "settings" / kind))


@pytest.fixture(scope="module")
def versioned(tmp_path_factory):
    """A repository of DVC in which each phase made a folder with one file."""
    folder = tmp_path_factory.mktemp("versioned")
    stages = {
        name: {"cmd": f"mkdir -p {name} && echo {name} > {name}/file", "outs": [{name: {"persist": True}}]}
        for name in PHASES
    }
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    dvc(folder, "init", "--quiet", "--no-scm")
    dvc(folder, "repro", "--quiet")
    return folder


def dvc(folder, *arguments):
    subprocess.run([sys.executable, "-m", "dvc", *arguments], cwd=folder, check=True)


@pytest.fixture
def here(versioned, tmp_path, monkeypatch):
    """A copy of that repository without its cache: the present folder."""
    folder = tmp_path / "here"
    shutil.copytree(versioned, folder, ignore=shutil.ignore_patterns("cache", "tmp"))
    monkeypatch.chdir(folder)
    return folder


def fetch(*, remote=None, force=False):
    with _alone() as repo:
        _fetch(repo, Namespace(remote=remote, jobs=None, force=force))


def add_remote(folder, url):
    settings = f"[core]\n    no_scm = True\n    remote = store\n['remote \"store\"']\n    url = {url}\n"
    (folder / ".dvc/config").write_text(settings)


def delete_results():
    for name in PHASES:
        Path(name, "file").unlink()
        Path(name).rmdir()


def test_a_commit_without_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VseppError, match=r"dvc\.lock: missing.*dvc repro"):
        _require_version(PLAN)


@pytest.mark.parametrize("text", ["<<<<<<< HEAD\nstages: {", "- a list", "stages: {models: {outs: [runs]}}"])
def test_a_lock_file_that_cannot_be_read(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("dvc.lock").write_text(text)
    with pytest.raises(VseppError, match=r"(?s)dvc\.lock: cannot be read.*git checkout dvc\.lock"):
        _require_version(PLAN)


def test_a_commit_that_versions_another_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("dvc.lock").write_text("stages: {results: {outs: [{path: reports/mini/paper}]}}")
    with pytest.raises(VseppError, match="versions reports/mini/paper, expected reports/tiny/paper"):
        _require_version(PLAN)


def test_the_command_says_it_in_one_message(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sync", "--params", str(ROOT / "params")]) == 1
    assert capsys.readouterr().err.startswith("vsepp: error: dvc.lock: missing")


def test_a_folder_without_dvc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VseppError, match="no DVC repository"):
        fetch()


def test_while_snakemake_is_at_work(here):
    lock = here / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    delete_results()
    with pytest.raises(VseppError, match="snakemake --unlock"):
        fetch()
    lock.unlink()
    assert not Path("models").exists()


def test_while_dvc_is_at_work(here):
    with Repo() as other, lock_repo(other), pytest.raises(VseppError, match="another command of DVC"):
        fetch()


def test_no_other_command_of_dvc_interferes(here):
    with _alone(), pytest.raises(VseppError, match="another command of DVC"):
        fetch()


def test_no_remote_and_nothing_in_the_cache(here):
    delete_results()
    with pytest.raises(
        VseppError, match=r"no remote is set.*corpus, features, models, results.*dvc remote add"
    ):
        fetch()


def test_a_remote_that_has_not_all(here, versioned, tmp_path):
    whole = shutil.copytree(versioned, tmp_path / "whole")
    for folder in (whole, here):
        add_remote(folder, tmp_path / "store")
    dvc(whole, "push", "--quiet", "corpus", "features", "results")
    delete_results()
    with pytest.raises(
        VseppError, match=r"remote store: does not answer, or has not all of models\. .*dvc push"
    ):
        fetch()


def test_files_that_no_version_holds_are_kept_until_forced(here, tmp_path, versioned):
    shutil.copytree(versioned / ".dvc/cache", here / ".dvc/cache")
    Path("models/mine").write_text("an unfinished run")
    with pytest.raises(VseppError, match=r"no version holds:\n  .*models/mine\n(.|\n)*vsepp sync --force"):
        fetch()
    assert Path("models/mine").read_text() == "an unfinished run"
    fetch(force=True)
    assert not Path("models/mine").exists()


def test_a_remote_of_no_such_name(here):
    with pytest.raises(VseppError, match=r"remote nowhere: .*'nowhere' doesn't exist"):
        fetch(remote="nowhere")


def test_a_server_that_does_not_answer(here):
    add_remote(here, f"http://127.0.0.1:{free_port()}/store")
    delete_results()
    with pytest.raises(VseppError, match="remote store: does not answer"):
        fetch()


@pytest.mark.skipif(importlib.util.find_spec("dvc_s3") is not None, reason="the plugin is installed")
def test_a_remote_whose_plugin_is_not_installed(here):
    add_remote(here, "s3://bucket/store")
    delete_results()
    with pytest.raises(VseppError, match=r"dvc-s3.*install the plugin: pip install"):
        fetch()
