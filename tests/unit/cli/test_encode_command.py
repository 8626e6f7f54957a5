"""A trained run that is all there is of its repository, on captioned pictures of one's own."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from dag import ROOT, TINY

from vsepp.cli import main
from vsepp.config import make_plan
from vsepp.spec import CropSpec, StoreSpec, VocabularySpec, to_json


def call(step, *arguments, **options):
    """Call a step that must succeed; folders and specs by the name of their option."""
    named = [str(part) for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    assert main([step, *map(str, arguments), *named]) == 0, f"vsepp {step}"


def embeddings(folder):
    with np.load(folder / "embeddings.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All artefacts of two corpora, and two runs on the first: one frozen, one with its encoder inside."""
    root = tmp_path_factory.mktemp("made")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    plan = make_plan(ROOT / "params", TINY)
    spec = plan.runs["coco-vsepp-1c"].spec
    spec = replace(spec, encoder=replace(spec.encoder, weights="random"))
    live = replace(spec, trainset="RC", crop=replace(spec.crop, kind="RC"), encoder_mode="legacy")
    scenes = root / "scenes"
    call("scenes", spec=to_json(plan.scenes), output=scenes)
    for seed, name in enumerate(("encoder", "other_encoder")):
        torch.manual_seed(seed)
        call("encoder", spec=to_json(spec.encoder), output=root / name)
    for name, corpus in zip(("coco", "flickr"), plan.corpora.values(), strict=True):
        files = {
            role: path.replace(str(plan.scenes_folder), str(scenes)) for role, path in corpus.files.items()
        }
        make_data(root / name, to_json(replace(corpus, files=files)), spec, root / "encoder")
    data = root / "coco"
    shared = {
        "corpus": data / "corpus",
        "tokens": data / "tokens",
        "encoder": root / "encoder",
        "device": "cpu",
    }
    call("train", spec=to_json(spec), features=data / "features", output=root / "run", **shared)
    stores = {"eval_store": data / "store", "train_store": data / "store"}
    call("train", spec=to_json(live), output=root / "live", **shared, **stores)
    yield SimpleNamespace(
        root=root, data=data, own=root / "flickr", run=root / "run", spec=spec, live=root / "live"
    )
    torch.set_num_threads(before)


def make_data(folder, corpus, spec, encoder):
    call("corpus", spec=corpus, output=folder / "corpus")
    call("tokens", spec=to_json(spec.vocabulary), corpus=folder / "corpus", output=folder / "tokens")
    store = to_json(spec.eval_store)
    call("store", spec=store, corpus_spec=corpus, corpus=folder / "corpus", output=folder / "store")
    make_features(folder / "store", encoder, spec, folder / "features")


def make_features(store, encoder, spec, output, crop=None):
    crops = to_json(crop or spec.eval_crop)
    options = {"encoder_spec": to_json(spec.encoder), "crop": crops, "store": store, "encoder": encoder}
    call("features", output=output, device="cpu", **options)


def test_a_run_needs_no_spec_and_no_word_ids(made, tmp_path):
    read = {
        "run": made.run,
        "corpus": made.data / "corpus",
        "features": made.data / "features",
        "device": "cpu",
    }
    tokens = made.data / "tokens"
    call("encode", spec=to_json(made.spec), tokens=tokens, output=tmp_path / "whole", **read)
    call("encode", output=tmp_path / "alone", **read)
    whole, alone = embeddings(tmp_path / "whole"), embeddings(tmp_path / "alone")
    assert whole.keys() == alone.keys()
    assert all(np.array_equal(whole[name], alone[name]) for name in whole)
    inputs = json.loads((tmp_path / "alone" / "manifest.json").read_text())["inputs"]
    assert set(inputs) == {"run", "corpus", "features"}


def test_ones_own_pictures_are_embedded_by_a_copied_run_and_scored(made, tmp_path, capsys):
    model = tmp_path / "model"
    shutil.copytree(made.run, model)
    read = {"corpus": made.own / "corpus", "features": made.own / "features"}
    call("encode", run=model, output=tmp_path / "out", device="cpu", **read)
    found = embeddings(tmp_path / "out")
    assert found["image_embeddings"].shape == (20, 128)
    assert len(found["caption_embeddings"]) == len(found["caption_to_image"]) == 100
    capsys.readouterr()
    for run in (model, model / "model.safetensors"):
        assert main(["evaluate", str(tmp_path / "out/embeddings.npz"), "--run", str(run)]) == 0
    assert main(["evaluate", str(tmp_path / "out/embeddings.npz"), "--run", str(made.live)]) == 1
    assert "made from another run than" in capsys.readouterr().err


def test_a_run_whose_weights_hold_its_encoder_needs_no_other(made, tmp_path):
    read = {
        "run": made.live,
        "corpus": made.own / "corpus",
        "eval_store": made.own / "store",
        "device": "cpu",
    }
    with_encoder = {**read, "encoder": made.root / "encoder"}
    call("encode", output=tmp_path / "with", **with_encoder)
    torch.manual_seed(99)
    call("encode", output=tmp_path / "without", **read)
    one, other = embeddings(tmp_path / "with"), embeddings(tmp_path / "without")
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def misfits(made):
    """Folders that are right but for one thing."""
    root = made.root / "misfits"
    store = made.own / "store"
    make_features(store, made.root / "other_encoder", made.spec, root / "other_weights")
    make_features(
        store, made.root / "encoder", made.spec, root / "ten_crops", CropSpec("10C", made.spec.crop.size)
    )
    larger = replace(made.spec, encoder=replace(made.spec.encoder, mean=(0.4, 0.5, 0.5)))
    make_features(store, made.root / "encoder", larger, root / "other_spec")
    words = to_json(VocabularySpec(made.spec.vocabulary.splits, 1))
    call("tokens", spec=words, corpus=made.own / "corpus", output=root / "other_words")
    return root


@pytest.mark.parametrize(
    ("role", "folder", "expected"),
    [
        ("features", "other_weights", "of another encoder than the one that"),
        ("features", "ten_crops", "another crop than .*expected kind '1C', got '10C'"),
        ("features", "other_spec", r"another encoder than .*expected mean \[0.5, 0.5, 0.5\], got \[0.4"),
        ("features", "../coco/features", "made from the images of another corpus than"),
        ("tokens", "other_words", "of another vocabulary than that of .*Leave --tokens out"),
        ("tokens", "../coco/tokens", "made from another captions than"),
        ("corpus", "../coco/corpus", "made from the images of another corpus"),
        ("run", "../live", "needs the folder of its eval_store"),
        ("run", "../encoder", "no config.json; expected the folder of a trained run"),
    ],
)
def test_what_does_not_belong_to_the_run_is_refused(made, misfits, tmp_path, capsys, role, folder, expected):
    read = {"run": made.run, "corpus": made.own / "corpus", "features": made.own / "features"}
    read[role] = misfits / folder
    arguments = [part for name, path in read.items() for part in (f"--{name}", str(path))]
    assert main(["encode", *arguments, "--output", str(tmp_path / "out"), "--device", "cpu"]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert re.search(expected, error), error
    assert not (tmp_path / "out" / "embeddings.npz").exists()


@pytest.mark.parametrize(
    ("option", "folder", "expected"),
    [
        ("--encoder", "other_encoder", "of another encoder than the one that"),
        ("--eval-store", "small_store", "resized in another way .*expected side 46, got 44"),
        ("--eval-store", "coco/store", "made from the images of another corpus than"),
    ],
)
def test_what_does_not_belong_to_a_run_with_an_encoder_is_refused(
    made, tmp_path, capsys, option, folder, expected
):
    small = made.root / "small_store"
    if not small.exists():
        spec = json.loads((made.own / "corpus" / "manifest.json").read_text())["spec"]
        corpus = {"corpus_spec": json.dumps(spec), "corpus": made.own / "corpus"}
        call("store", spec=to_json(StoreSpec("squash", 44)), output=small, **corpus)
    read = {"--run": made.live, "--corpus": made.own / "corpus", "--eval-store": made.own / "store"}
    read[option] = made.root / folder
    arguments = [str(part) for pair in read.items() for part in pair]
    assert main(["encode", *arguments, "--output", str(tmp_path / "out"), "--device", "cpu"]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert re.search(expected, error), error


def test_a_run_whose_files_were_changed_is_refused(made, tmp_path, capsys):
    model = tmp_path / "model"
    shutil.copytree(made.run, model)
    config = Path(model / "config.json")
    config.write_text(
        config.read_text()
        .replace('"order_seed": 0', '"order_seed": 1')
        .replace('"order_seed":0', '"order_seed":1')
    )
    read = ["--corpus", str(made.own / "corpus"), "--features", str(made.own / "features")]
    assert (
        main(["encode", "--run", str(model), *read, "--output", str(tmp_path / "out"), "--device", "cpu"])
        == 1
    )
    assert "config.json: is not what its step wrote" in capsys.readouterr().err


def test_the_same_model_trained_again_is_the_same_run_to_its_embeddings(made, tmp_path, capsys):
    read = {"corpus": made.data / "corpus", "features": made.data / "features", "device": "cpu"}
    again = tmp_path / "again"
    more = {"tokens": made.data / "tokens", "encoder": made.root / "encoder"}
    call("train", spec=to_json(made.spec), output=again, **read, **more)
    weights = [(run / "model.safetensors").read_bytes() for run in (made.run, again)]
    assert weights[0] == weights[1]
    histories = [(run / "history.csv").read_bytes() for run in (made.run, again)]
    assert histories[0] != histories[1], "they hold the seconds that each epoch took"
    call("encode", run=made.run, output=tmp_path / "out", **read)
    call("evaluate", tmp_path / "out" / "embeddings.npz", run=again)
