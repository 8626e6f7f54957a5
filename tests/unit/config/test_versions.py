"""Which results can be versioned, what `sync` fetches and refuses, and which models are here."""

import json
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
import yaml
from dvc.repo import Repo
from plans import plan

from vsepp.config.versions import _fetch, _require_version, list_models, require_copies
from vsepp.errors import VseppError
from vsepp.provenance.artefacts import PHASES
from vsepp.provenance.manifest import artefact_digest, write_manifest


@pytest.fixture(autouse=True)
def own_settings(tmp_path, monkeypatch):
    """A folder where this machine's user has set nothing."""
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
            r"\.dvc/config: cache\.type is symlink.*dvc config --local cache",
        ),
        (
            {".dvc/config": "", "settings/GLOBAL_CONFIG/config": "[cache]\n    type = hardlink\n"},
            r"GLOBAL_CONFIG/config: cache\.type is hardlink.*dvc config --local cache",
        ),
    ],
)
def test_a_cache_of_links_is_refused_with_the_file_that_sets_it(files, said):
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    if said is None:
        require_copies()
    else:
        with pytest.raises(VseppError, match=said):
            require_copies()


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


# --- Fetching: real repositories of DVC, of four phases ---------------------------------------------------------


@pytest.fixture(scope="module")
def versioned(tmp_path_factory):
    """A repository of DVC; each phase made a folder with one file there."""
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


def refused(capfd, command, said, **options):
    """The command of DVC that failed is named below what DVC says."""
    with pytest.raises(VseppError, match=rf"^{command} corpus features models results: failed with status"):
        _fetch(options.get("remote"), False, None)
    assert said in capfd.readouterr().err


def test_nothing_is_fetched_while_snakemake_is_at_work(here):
    lock = here / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    shutil.rmtree("models")
    with pytest.raises(VseppError, match="snakemake --unlock"):
        _fetch(None, False, None)
    assert not Path("models").exists()


def test_without_a_remote_results_come_from_the_cache(here, versioned, capfd):
    for name in PHASES:
        shutil.rmtree(name)
    refused(capfd, "dvc checkout", "Is your cache up to date?")
    shutil.copytree(versioned / ".dvc/cache", here / ".dvc/cache")
    _fetch(None, False, None)
    assert Path("models/file").read_text() == "models\n"


def test_files_that_no_version_holds_are_kept_until_forced(here, versioned, capfd):
    shutil.copytree(versioned / ".dvc/cache", here / ".dvc/cache")
    Path("models/mine").write_text("an unfinished run")
    refused(capfd, "dvc checkout", "models/mine")
    assert Path("models/mine").read_text() == "an unfinished run"
    _fetch(None, True, None)
    assert not Path("models/mine").exists()


def test_a_remote_that_has_not_all_and_one_of_no_such_name(here, tmp_path, capfd):
    (tmp_path / "store").mkdir()
    settings = f"[core]\n    no_scm = True\n    remote = store\n['remote \"store\"']\n    url = {tmp_path / 'store'}\n"
    (here / ".dvc/config").write_text(settings)
    for name in PHASES:
        shutil.rmtree(name)
    refused(capfd, "dvc pull", "Is your cache up to date?")
    refused(capfd, "dvc pull --remote nowhere", "'nowhere' doesn't exist", remote="nowhere")


# --- Models that are here --------------------------------------------------------------------------------------

RUNS = Path("results/mini/paper/runs")


def train(run, weights):
    folder = RUNS / run / "seed-0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_text(weights)
    git = {"commit": "0123456789abcdef", "dirty": False}
    outputs = {"model.safetensors": f"digest of {weights}"}
    facts = {"best_epoch": 3}
    write_manifest(folder, {"step": "run", "git": git, "ancestors": [], "outputs": outputs, "facts": facts})
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
