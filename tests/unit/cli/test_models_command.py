"""The list of trained models."""

import json
from pathlib import Path

import pytest

from vsepp.cli import main
from vsepp.provenance.manifest import artefact_digest, write_manifest

PARAMS = Path(__file__).resolve().parents[3] / "params"
RUNS = Path("results/mini/paper/runs")


def listed(capsys, *options):
    assert main(["models", "--params", str(PARAMS), *options]) == 0
    return capsys.readouterr().out


def train(run, weights, dirty=False, ancestors=None):
    folder = RUNS / run / "seed-0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_text(weights)
    git = {"commit": "0123456789abcdef", "dirty": dirty}
    outputs = {"model.safetensors": f"digest of {weights}"}
    facts = {"best_epoch": 3}
    manifest = {"git": git, "ancestors": ancestors or {}, "outputs": outputs, "facts": facts}
    write_manifest(folder, manifest)
    return folder


def evaluate(run, rsum):
    folder = RUNS.parent / "metrics" / run / "seed-0"
    folder.mkdir(parents=True, exist_ok=True)
    values = {"i2t": {"r1": 40.0}, "t2i": {"r1": 30.0}, "rsum": rsum}
    (folder / "metrics.json").write_text(json.dumps({"1K": values, "5K": values}))
    inputs = {"run": artefact_digest(RUNS / run / "seed-0")}
    write_manifest(folder, {"inputs": inputs, "outputs": {"metrics.json": "digest"}})


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_where_nothing_was_trained_it_says_how_to_get_models(capsys):
    assert main(["models", "--params", str(PARAMS)]) == 1
    assert (
        "no trained models here; train them (dvc repro) or get them (vsepp sync)" in capsys.readouterr().err
    )
    assert json.loads(listed(capsys, "--json")) == []


def test_a_model_has_a_line_for_each_protocol_and_none_of_an_earlier_training(capsys):
    train("coco-vse0-1c", "first")
    evaluate("coco-vse0-1c", 321.5)
    train("coco-vsepp-1c", "first")
    evaluate("coco-vsepp-1c", 123.5)
    train("coco-vsepp-1c", "second")
    found = {(entry["run"], entry["protocol"]): entry for entry in json.loads(listed(capsys, "--json"))}
    assert {key: entry["rsum"] for key, entry in found.items()} == {
        ("coco-vse0-1c", "1K"): 321.5,
        ("coco-vse0-1c", "5K"): 321.5,
        ("coco-vsepp-1c", None): None,
    }
    assert found["coco-vse0-1c", "1K"]["best_epoch"] == 3
    table = [line.split() for line in listed(capsys).splitlines()]
    assert table[1][:6] == ["coco-vse0-1c", "0", "1K", "40.0", "30.0", "321.5"]
    assert table[3][:6] == ["coco-vsepp-1c", "0", "–", "–", "–", "–"]


def test_uncommitted_code_is_marked_wherever_in_the_making_it_was(capsys):
    store = {"features.store": {"step": "store", "commit": "abc", "dirty": True}}
    train("coco-vse0-1c", "a")
    train("coco-vsepp-1c", "b", ancestors=store)
    train("coco-vsepp-rc", "c", dirty=True)
    found = {entry["run"]: entry for entry in json.loads(listed(capsys, "--json"))}
    assert {run: entry["commit"] for run, entry in found.items()} == {
        "coco-vse0-1c": "0123456789",
        "coco-vsepp-1c": "0123456789+",
        "coco-vsepp-rc": "0123456789+",
    }
    assert [entry["uncommitted"] for entry in found.values()] == [[], ["features.store"], ["itself"]]
    assert "+ made with uncommitted changes of code or parameters" in listed(capsys)


def test_a_training_that_did_not_end_is_not_listed(capsys):
    train("coco-vse0-1c", "a")
    (train("coco-vsepp-1c", "b") / "model.safetensors").unlink()
    (train("coco-vsepp-rc", "c") / "manifest.json").unlink()
    assert [entry["run"] for entry in json.loads(listed(capsys, "--json"))] == ["coco-vse0-1c"]
