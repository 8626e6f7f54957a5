"""Every key that the two fidelities give two values changes what is computed, and docs/fidelity.md says so."""

import dataclasses
import difflib
import re
import shlex

import numpy as np
import pandas as pd
import pytest
import tiny_corpus as tiny
import torch
import yaml
from PIL import Image
from plans import PARAMS, edit, nested, plan
from safetensors.torch import load_file

from vsepp.config import make_plan
from vsepp.config.describe import fidelity_document, overlays
from vsepp.data.captions import build_vocabulary, encode_captions
from vsepp.data.store import build_store, open_store
from vsepp.data.tokens import UNKNOWN
from vsepp.errors import VseppError
from vsepp.evaluation.encode import split_rows
from vsepp.features.crops import crop_boxes, gather_crops
from vsepp.models.encoder import load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.spec import Component, CorpusSpec
from vsepp.training.epoch import learning_rate
from vsepp.training.loop import train

ROOT = PARAMS.parent

PAPER, CODE = overlays(PARAMS).values()
TWO_VALUES = {key for key in PAPER if PAPER[key] != CODE[key]}
CPU = torch.device("cpu")


def both(key, run, **settings):
    """A run's spec with the paper's and with the code's value of one key, all else as in `fidelity: paper`."""
    return [
        plan(label="one", **nested(key, values[key]), **settings).models[run].spec for values in (PAPER, CODE)
    ]


def store_of(spec, folder):
    """A photograph of 96×64 pixels, every one of them different, decoded as `spec` has it."""
    rows, columns = np.mgrid[:64, :96]
    pixels = np.stack([rows * 4, columns * 2, (rows * 7 + columns * 5) % 256], axis=-1).astype(np.uint8)
    photos = folder / "photos"
    photos.mkdir(parents=True)
    Image.fromarray(pixels).save(photos / "one.png")
    images = pd.DataFrame({"container": ["images"], "member": ["one.png"]})
    corpus = CorpusSpec("one", Component("karpathy"), {"images": str(photos)})
    for place in ("store", "state"):
        (folder / place).mkdir()
    build_store(images, corpus, spec, folder / "store", folder / "state", 1)
    return open_store(folder / "store")


def training_boxes(spec):
    """Crops of eight captions of one image in the first epoch."""
    return crop_boxes(np.arange(8), spec.draw, 0, spec.crop, spec.train_store.side)


def training_crops(spec, folder):
    boxes, flips = training_boxes(spec)
    store = store_of(spec.train_store, folder)
    return gather_crops(store, np.zeros(8, np.int64), boxes, flips, spec.crop.size).numpy()


def with_mode_of(spec, run):
    """A tiny run whose encoder is in the mode that the plan's spec says."""
    return dataclasses.replace(run, encoder_mode=spec.encoder_mode)


def trained(run, places, folder, **folders):
    """Weights after the training of a tiny run."""
    train(run, tiny.data_of(run, places), folder / "out", folder / "state", CPU, folders)
    return load_file(folder / "out" / "model.safetensors")


def statistics_moved(run, places, weights):
    """Whether the running means and variances of batch normalisation are others than before the training."""
    before = load_encoder(run.encoder, places / f"encoder-{run.encoder.name}").state_dict()
    names = [name for name in before if name.endswith(("running_mean", "running_var"))]
    same = [torch.equal(weights[f"encoder.{name}"], before[name]) for name in names]
    assert names and (all(same) or not any(same))
    return not any(same)


def resize(key, folder):
    specs = both(key, "flickr-vsepp-1c")
    squashed, cut = (store_of(spec.eval_store, folder / spec.eval_store.resize) for spec in specs)
    assert squashed.shape == cut.shape
    # Green tells the column: the whole breadth of the photograph, or the middle two thirds of it.
    assert np.ptp(squashed[0, ..., 1]) > 180
    assert 110 < np.ptp(cut[0, ..., 1]) < 130


def random_crop(key, folder):
    window, resized = both(key, "flickr-vsepp-rc")
    shapes = [np.unique(training_boxes(spec)[0][:, 2:], axis=0) for spec in (window, resized)]
    assert shapes[0].tolist() == [[window.crop.size] * 2]
    assert len(shapes[1]) == 8
    before, after = (training_crops(spec, folder / spec.crop.random) for spec in (window, resized))
    assert before.shape == after.shape
    assert not any(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def train_store_scale(key, folder):
    specs = both(key, "flickr-vsepp-rc")
    plain, larger = (training_crops(spec, folder / str(spec.train_store.side)) for spec in specs)
    # A crop of as many pixels shows less of the photograph when that is stored larger.
    shown = [np.ptp(crops[..., 1].reshape(8, -1), axis=1).mean() for crops in (plain, larger)]
    assert shown[1] < 0.8 * shown[0]


def flip(key, folder):
    specs = both(key, "flickr-vsepp-rc")
    plain, mirrored = (training_crops(spec, folder / str(spec.crop.flip)) for spec in specs)
    same = [np.array_equal(one, other) for one, other in zip(plain, mirrored, strict=True)]
    turned = [np.array_equal(one[:, ::-1], other) for one, other in zip(plain, mirrored, strict=True)]
    assert any(turned) and any(same)
    assert all(a != b for a, b in zip(same, turned, strict=True))


def order_form(key, folder):
    scores = []
    for spec in both(key, "coco-orderpp-10c-rv"):
        torch.manual_seed(0)
        model = JointEmbedding(spec.model, 8, 10)
        images = model.embed_images(torch.randn(3, 8))
        captions = model.embed_captions(torch.tensor([[1, 4, 2], [1, 5, 2]]), torch.tensor([3, 3]))
        scores.append(model.scores(images, captions).detach())
    squared, root = scores
    assert not torch.allclose(squared, root)
    torch.testing.assert_close(squared, -(root**2))


def image_features(key, folder):
    (folder / "f30k_precomp").mkdir()
    found = []
    for values in (PAPER, CODE):
        overrides = {"label": "one", "preset": "paper", "archives": str(folder), **nested(key, values[key])}
        made = make_plan(PARAMS, overrides)
        read = made.table["run", "flickr-vsepp-1c/seed-0"].inputs
        features = made.owner(read["features"]).kind
        reader = made.owner(read["corpus"]).spec.reader.name
        found.append(
            (made.models["flickr-vsepp-1c"].spec.image_features, features, reader, "encoder" in read)
        )
    assert found == [
        ("computed", "features", "karpathy", True),
        ("precomputed", "published", "precomp", False),
    ]


def vocabulary(key, folder):
    captions = pd.DataFrame(
        {
            "text": ["a dog"] * 4 + ["a zebra"] * 4,
            "split": ["train"] * 4 + ["test"] * 4,
        }
    )
    known = [build_vocabulary(captions, spec.vocabulary) for spec in both(key, "flickr-vsepp-1c")]
    assert ["zebra" in words.index for words in known] == [False, True]
    unknown = [UNKNOWN in encode_captions(captions, words)[7] for words in known]
    assert unknown == [True, False]


def frozen_mode(key, folder):
    places = tiny.build(folder / "tiny")
    specs = both(key, "flickr-vsepp-rc")
    for encoder in tiny.ENCODERS.values():
        run = tiny.change(tiny.RC, encoder=encoder, schedule__epochs=1)
        frozen, legacy = (
            trained(with_mode_of(spec, run), places, folder / encoder.name / spec.encoder_mode)
            for spec in specs
        )
        # Weights are of the order of 0.1; what the tape's half precision changes is of the order of 0.00001.
        difference = (frozen["image_map.weight"] - legacy["image_map.weight"]).abs().mean()
        assert difference > 0.005, f"{encoder.name}: dropout or statistics of the batch"
        assert not any(name.startswith("encoder.") for name in frozen)
        if encoder.name == "resnet":
            assert statistics_moved(run, places, legacy)


def finetuned_mode(key, folder):
    places = tiny.build(folder / "tiny")
    start = tiny.change(tiny.RC, encoder=tiny.ENCODERS["resnet"], schedule__epochs=1)
    start_from = folder / "start" / "out"
    trained(start, places, start_from.parent)
    run = tiny.change(tiny.FINETUNED, encoder=start.encoder, schedule__epochs=1)
    found = [
        trained(with_mode_of(spec, run), places, folder / spec.encoder_mode, init_from=start_from)
        for spec in both(key, "flickr-vsepp-rc-ft")
    ]
    assert [statistics_moved(run, places, weights) for weights in found] == [False, True]
    assert not torch.equal(found[0]["image_map.weight"], found[1]["image_map.weight"])


def rates(key):
    return [
        [learning_rate(spec.schedule, epoch) for epoch in range(spec.schedule.epochs)]
        for spec in both(key, "flickr-vsepp-rc-ft", preset="paper")
    ]


def finetune_epochs(key, folder):
    assert rates(key) == [[0.00002] * 15, [0.00002] * 30]


def finetune_drop_at(key, folder):
    steady, falling = rates(key)
    assert steady == [0.00002] * 15
    assert falling == pytest.approx([0.00002] * 8 + [0.000002] * 7)


def validation_images(key, folder):
    role = key.split(".")[1]
    there = {"coco": 5000, "flickr": 1014}[role]
    images = pd.DataFrame({"split": ["val"] * there + ["test"] * 5})
    captions = pd.DataFrame({"image_index": np.repeat(np.arange(len(images)), 5)})
    rows = [
        split_rows(images, captions, "val", spec.validation_images) for spec in both(key, f"{role}-vsepp-1c")
    ]
    assert [len(split.images) for split in rows] == {"coco": [5000, 1000], "flickr": [1000, 1014]}[role]
    assert [len(split.captions) for split in rows] == [5 * len(split.images) for split in rows]


TESTED = {
    "runs.default.resize": resize,
    "runs.default.random_crop": random_crop,
    "runs.default.train_store_scale": train_store_scale,
    "runs.default.flip": flip,
    "components.similarity.order.form": order_form,
    "runs.default.image_features": image_features,
    "runs.default.vocabulary": vocabulary,
    "runs.default.frozen_mode": frozen_mode,
    "runs.default.finetuned_mode": finetuned_mode,
    "runs.finetune.epochs": finetune_epochs,
    "runs.finetune.drop_at": finetune_drop_at,
    "corpora.coco.validation_images": validation_images,
    "corpora.flickr.validation_images": validation_images,
}


@pytest.mark.parametrize("key", TESTED)
def test_the_key_alone_changes_the_computation(key, tmp_path):
    TESTED[key](key, tmp_path)


def test_every_key_with_two_values_is_tested_above():
    assert set(TESTED) == TWO_VALUES


def test_the_document_is_up_to_date():
    shipped = (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8")
    difference = "".join(
        difflib.unified_diff(
            shipped.splitlines(True), fidelity_document(PARAMS).splitlines(True), "docs/fidelity.md", "params"
        )
    )
    assert not difference, f"run `vsepp fidelity --output docs/fidelity.md`:\n{difference}"


def test_the_document_names_every_key_with_both_values_and_what_paper_and_code_say():
    rows = {
        cells[0].strip("`"): cells[1:]
        for line in fidelity_document(PARAMS).splitlines()
        if line.startswith("| `")
        for cells in [[cell.strip() for cell in line.strip("|").split(" | ")]]
    }
    assert set(PAPER) <= set(rows)
    for key in PAPER:
        description, text, code, value_of_paper, value_of_code, differ = rows[key]
        if key.startswith("components."):
            assert "as in the paper" in description and "as in the released code" in description
        else:
            assert description and text and code
        for shown, value in ((value_of_paper, PAPER[key]), (value_of_code, CODE[key])):
            assert yaml.safe_load(shown) == value
        assert differ == ("yes" if key in TWO_VALUES else "no")
    shared = set(rows) - set(PAPER)
    assert {"runs.vsepp.loss", "runs.default.clip_norm", "runs.finetune.learning_rate"} <= shared
    assert rows["runs.finetune.learning_rate"][-1] == "0.00002"


def test_the_documents_commands_are_accepted():
    commands = re.findall(r"--config (.*)", fidelity_document(PARAMS).split("##")[1])
    assert len(commands) >= 3
    for command in commands:
        pairs = [item.split("=", 1) for item in shlex.split(command)]
        plan = make_plan(PARAMS, {key: yaml.safe_load(value) for key, value in pairs})
        assert plan.variant in command


def test_overlays_that_name_different_keys_are_refused(params):
    code = params / "fidelity" / "code.yaml"
    content = yaml.safe_load(code.read_text())
    del content["runs"]["default"]["flip"]
    code.write_text(yaml.safe_dump(content))
    edit(code, {"corpora": {"coco": {"first_images": {"train": 10}}}})
    with pytest.raises(VseppError) as caught:
        overlays(params)
    where, message = params / "fidelity", str(caught.value)
    assert f"{where}: runs.default.flip: missing in code; paper names it, so give it there too" in message
    assert f"{where}: corpora.coco.first_images: missing in paper; code names it" in message


def test_the_document_follows_the_overlays(params):
    edit(params / "fidelity/code.yaml", {"runs": {"default": {"flip": False}}})
    edit(params / "papers/vsepp/fidelity.yaml", {"code": {"runs": {"finetune": {"epochs": 15}}}})
    for key, value in (("default.flip", "false"), ("finetune.epochs", "15")):
        (row,) = [line for line in fidelity_document(params).splitlines() if f"runs.{key}`" in line]
        assert row.endswith(f"| {value} | {value} | no |")
