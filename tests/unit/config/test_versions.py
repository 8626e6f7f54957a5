"""Which results can be versioned, what `sync` refuses, why results could not be fetched, and which models are here."""

import importlib.util
import json
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
import yaml
from dvc.repo import Repo, lock_repo
from plans import plan
from ssh_server import free_port

from vsepp.config.versions import (
    _alone,
    _fetch,
    _require_version,
    list_models,
    require_copies,
)
from vsepp.errors import VseppError
from vsepp.provenance.artefacts import PHASES
from vsepp.provenance.manifest import artefact_digest, write_manifest


@pytest.fixture(autouse=True)
def own_settings(tmp_path, monkeypatch):
    """A folder in which nothing is set by this machine's user."""
    for kind in ("GLOBAL_CONFIG", "SYSTEM_CONFIG", "SITE_CACHE"):
        monkeypatch.setenv(f"DVC_{kind}_DIR", str(tmp_path / "settings" / kind))
    monkeypatch.chdir(tmp_path)


# --- What can be versioned -------------------------------------------------------------------------------------


COPIES = "[cache]\n    type = reflink,copy\n"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, None),  # no DVC
        ({".dvc/config": COPIES}, None),
        ({".dvc/config": "[core]\n    analytics = false\n"}, None),
        ({".dvc/config": COPIES, "settings/GLOBAL_CONFIG/config": "[cache]\n    type = hardlink\n"}, None),
        (
            {".dvc/config": COPIES, ".dvc/config.local": "[cache]\n    type = hardlink,copy\n"},
            r"config\.local: cache\.type is hardlink, copy.*hardlinks new times.*dvc config --local cache",
        ),
        (
            {".dvc/config": "[cache]\n    type = symlink\n"},
            r"\.dvc/config: cache\.type is symlink.*dvc config --project cache",
        ),
        (
            {".dvc/config": "", "settings/GLOBAL_CONFIG/config": "[cache]\n    type = hardlink\n"},
            r"GLOBAL_CONFIG/config: cache\.type is hardlink.*dvc config --global cache",
        ),
    ],
)
def test_a_cache_of_links_is_refused_with_the_file_that_sets_it(files, said):
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    if said is None:
        require_copies(Path(".dvc"))
    else:
        with pytest.raises(VseppError, match=said):
            require_copies(Path(".dvc"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, r"dvc\.lock: missing.*dvc repro"),
        ("<<<<<<< HEAD\nstages: {", r"dvc\.lock: cannot be read.*git checkout dvc\.lock"),
        ("- a list", r"dvc\.lock: cannot be read.*git checkout dvc\.lock"),
        ("stages: {models: {outs: [runs]}}", r"dvc\.lock: cannot be read.*git checkout dvc\.lock"),
        (
            "stages: {results: {outs: [{path: reports/mini/paper}]}}",
            "versions reports/mini/paper, expected reports/tiny/paper",
        ),
    ],
)
def test_a_commit_without_a_version_of_these_results(text, said):
    if text is not None:
        Path("dvc.lock").write_text(text)
    with pytest.raises(VseppError, match=f"(?s){said}"):
        _require_version("reports/tiny/paper")


# --- Why results could not be fetched: real repositories of DVC, of four phases ---------------------------------


@pytest.fixture(scope="module")
def versioned(tmp_path_factory):
    """A repository of DVC in which each phase made a folder with one file."""
    folder = tmp_path_factory.mktemp("versioned")
    stages = {
        name: {"cmd": f"mkdir -p {name} && echo {name} > {name}/file", "outs": [{name: {"persist": True}}]}
        for name in PHASES
    }
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    with chdir(folder):
        Repo.init(no_scm=True).close()
        with Repo() as repo:
            repo.reproduce()
    return folder


@pytest.fixture
def here(versioned, tmp_path, monkeypatch):
    """A copy of that repository without its cache: the present folder."""
    folder = tmp_path / "here"
    shutil.copytree(versioned, folder, ignore=shutil.ignore_patterns("cache", "tmp"))
    monkeypatch.chdir(folder)
    return folder


def fetch(remote=None, force=False):
    with _alone() as repo:
        _fetch(repo, remote, force, None)


def add_remote(folder, url):
    settings = f"[core]\n    no_scm = True\n    remote = store\n['remote \"store\"']\n    url = {url}\n"
    (folder / ".dvc/config").write_text(settings)


def delete_results():
    for name in PHASES:
        shutil.rmtree(name)


def test_a_folder_without_dvc():
    with pytest.raises(VseppError, match="not a DVC repository"):
        fetch()


def test_while_another_command_is_at_work(here, monkeypatch):
    monkeypatch.setattr("dvc.lock.DEFAULT_TIMEOUT", 0.06)
    lock = here / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    delete_results()
    with pytest.raises(VseppError, match="snakemake --unlock"):
        fetch()
    assert not Path("models").exists()
    lock.unlink()
    for busy in (lock_repo(Repo()), _alone()):  # of DVC, and of this one
        with busy, pytest.raises(VseppError, match="another command of DVC"):
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
    with chdir(whole), Repo() as repo:
        repo.push(["corpus", "features", "results"])
    delete_results()
    with pytest.raises(
        VseppError, match=r"remote store: does not answer, or lacks a part of models\. .*dvc push"
    ):
        fetch()


def test_files_that_no_version_holds_are_kept_until_forced(here, versioned):
    shutil.copytree(versioned / ".dvc/cache", here / ".dvc/cache")
    Path("models/mine").write_text("an unfinished run")
    with pytest.raises(
        VseppError, match=r"no version holds:\n  .*models/mine\n(.|\n)*overwrite the rest with force"
    ):
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


# --- Models that are here --------------------------------------------------------------------------------------

RUNS = Path("results/mini/paper/runs")


def train(run, weights, dirty=False, ancestors=None):
    folder = RUNS / run / "seed-0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_text(weights)
    git = {"commit": "0123456789abcdef", "dirty": dirty}
    outputs = {"model.safetensors": f"digest of {weights}"}
    facts = {"best_epoch": 3}
    write_manifest(folder, {"git": git, "ancestors": ancestors or {}, "outputs": outputs, "facts": facts})
    return folder


def evaluate(run, rsum):
    folder = RUNS.parent / "evaluations" / run / "seed-0"
    folder.mkdir(parents=True, exist_ok=True)
    values = {"folds": 1, "fold_size": 200, "i2t": {"r1": 40.0}, "t2i": {"r1": 30.0}, "rsum": rsum}
    (folder / "metrics.json").write_text(json.dumps({"1K": values, "5K": values}))
    inputs = {"run": artefact_digest(RUNS / run / "seed-0")}
    write_manifest(folder, {"inputs": inputs, "outputs": {"metrics.json": "digest"}})


def test_a_model_is_listed_for_each_protocol_and_without_scores_of_an_earlier_training():
    assert list_models(plan()) == []
    train("coco-vse0-1c", "first")
    evaluate("coco-vse0-1c", 321.5)
    train("coco-vsepp-1c", "first")
    evaluate("coco-vsepp-1c", 123.5)
    train("coco-vsepp-1c", "second")
    found = {(entry["run"], entry["protocol"]): entry for entry in list_models(plan())}
    assert {key: entry["rsum"] for key, entry in found.items()} == {
        ("coco-vse0-1c", "1K"): 321.5,
        ("coco-vse0-1c", "5K"): 321.5,
        ("coco-vsepp-1c", None): None,
    }
    scored = found["coco-vse0-1c", "1K"]
    assert (scored["i2t_r1"], scored["t2i_r1"], scored["best_epoch"]) == (40.0, 30.0, 3)
    assert (scored["folds"], scored["fold_size"]) == (1, 200)
    assert (scored["seed"], scored["folder"]) == (0, str(RUNS / "coco-vse0-1c/seed-0"))


def test_a_training_that_did_not_end_is_not_listed():
    train("coco-vse0-1c", "a")
    (train("coco-vsepp-1c", "b") / "model.safetensors").unlink()
    (train("coco-vsepp-rc", "c") / "manifest.json").unlink()
    assert [entry["run"] for entry in list_models(plan())] == ["coco-vse0-1c"]
