"""Models that come with the package."""

import json
import shutil
from pathlib import Path

import flickr8k
import numpy as np
import pytest
from matplotlib.cbook import get_sample_data
from processes import python
from rounding import assert_near

import vsepp
from vsepp.apps.cli import main
from vsepp.base.declared import WORDS
from vsepp.base.digests import file_digest
from vsepp.base.errors import VseppError
from vsepp.base.manifest import read_manifest, require_intact, write_manifest
from vsepp.data.captions import TOKENIZERS
from vsepp.shipped.folders import model_folder, shipped_models

CAPTIONS = ["a bowl of fruit", "a man in a suit smiles", "two dogs on the grass"]


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("efficientnet_lite_pytorch")
    return vsepp.load("flickr8k", device="cpu")


def test_the_model_is_whole_small_and_says_what_it_is():
    folder = shipped_models()["flickr8k"]
    require_intact(folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 4_000_000
    card, licence = ((folder / name).read_text() for name in ("README.md", "LICENSE.md"))
    assert "research and education only" in card and "Flickr8k" in licence
    assert "What it cannot do" in card and "95 % interval" in card


def test_a_photograph_finds_its_caption(model, tmp_path, capsys):
    photograph = get_sample_data("grace_hopper.jpg", asfileobj=False)
    scores = model.scores(model.embed_images([photograph]), model.embed_captions(CAPTIONS))
    assert CAPTIONS[vsepp.rank(scores, k=1)[0, 0]] == "a man in a suit smiles"
    (tmp_path / "captions.txt").write_text("\n".join(CAPTIONS))
    options = ["--image", photograph, "--captions", str(tmp_path / "captions.txt"), "--json"]
    assert main(["query", "flickr8k", *options]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert_near([answer["score"] for answer in answers], sorted(scores[0], reverse=True), 1e-6)


def test_a_folder_that_happens_to_have_the_name_is_no_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flickr8k").mkdir()
    assert model_folder("flickr8k") == shipped_models()["flickr8k"]
    (tmp_path / "flickr8k/manifest.json").write_text("{}")
    assert model_folder("flickr8k") == Path("flickr8k")


def test_a_wrong_name_is_answered_before_torch_is_imported():
    script = """
import sys
from vsepp.apps.cli import main
assert main(["query", "flikr8k", "--text", "a dog"]) == 1
assert main(["query", "flickr8k", "--text", "a dog", "--pictures", "nowhere"]) == 1
print("torch" in sys.modules)
"""
    assert python(script).split() == ["False"]
    with pytest.raises(VseppError, match="did you mean flickr8k"):
        model_folder("flikr8k")


def test_other_weights_of_the_encoder_are_refused(model, tmp_path):
    folder = shutil.copytree(shipped_models()["flickr8k"], tmp_path / "model")
    description = json.loads((folder / "vsepp.json").read_text())
    (folder / "vsepp.json").write_text(json.dumps(description | {"installed_encoder": "0" * 64}))
    with pytest.raises(VseppError, match=r"SHA-256 .*0000"):
        vsepp.load(folder)


@pytest.mark.whole
def test_its_recalls_are_those_of_its_card(model):
    folder = flickr8k.archives("Flicker8k_Dataset")
    names, captions = (
        flickr8k.text_of(folder, "Flickr_8k.testImages.txt").split(),
        flickr8k.captions_in(folder),
    )
    images = model.embed_images([folder / "Flicker8k_Dataset" / name for name in names])
    owners = np.repeat(np.arange(len(names)), [len(captions[name]) for name in names])
    texts = model.embed_captions([text for name in names for text in captions[name]])
    metrics = vsepp.evaluate(images, texts, owners).metrics
    card = (shipped_models()["flickr8k"] / "README.md").read_text().splitlines()
    (row,) = [line for line in card if "this one | 5K," in line]
    on_card = [float(cell.split()[0]) for cell in row.strip("| ").split(" | ")[2:8]]
    recalls = [
        metrics.i2t.r1,
        metrics.i2t.r5,
        metrics.i2t.r10,
        metrics.t2i.r1,
        metrics.t2i.r5,
        metrics.t2i.r10,
    ]
    assert np.abs(np.subtract(recalls, on_card)).max() <= 0.3  # weights in 16 bits, features in fp32


def test_words_that_were_split_in_another_way_are_warned_of(monkeypatch, caplog):
    monkeypatch.setitem(TOKENIZERS, WORDS, "another way")
    vsepp.load("flickr8k", device="cpu")
    (warning,) = caplog.messages
    assert "vocabulary.json" in warning and "another way" in warning


@pytest.mark.parametrize(("key", "size"), [("joint_dim", 10**12), ("dim", 10**9)])
def test_sizes_that_no_weights_have_are_refused_before_memory_is_taken(tmp_path, key, size):
    folder = tmp_path / "model"
    shutil.copytree(shipped_models()["flickr8k"], folder)
    config = json.loads((folder / "config.json").read_text())
    (config["model"]["text"] if key == "dim" else config["model"])[key] = size
    (folder / "config.json").write_text(json.dumps(config))
    manifest = read_manifest(folder)
    outputs = {**manifest["outputs"], "config.json": file_digest(folder / "config.json")}
    write_manifest(folder, {**manifest, "outputs": outputs})
    with pytest.raises(VseppError, match=r"model\.safetensors"):
        vsepp.load(folder, device="cpu")
