"""Every key that the two fidelities give two values changes what is computed, and docs/fidelity.md says so."""

import re
import shlex
from itertools import combinations
from operator import attrgetter

import pytest
import tiny_corpus as tiny
import torch
import yaml
from fidelity_page import fidelity_document, overlays
from plans import PARAMS, edit, nested, plan
from safetensors.torch import load_file

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.losses import goal
from vsepp.pipeline.planner import make_plan
from vsepp.training.loop import train

ROOT = PARAMS.parent

PAPER, CODE = overlays(PARAMS).values()
TWO_VALUES = {key for key in PAPER if PAPER[key] != CODE[key]}
ALL = ("train", "restval", "val", "test")

# Key → a run, what of its spec the key decides, and both values where they are not the key's own. What each value computes,
# its step's tests show.
DECIDES = {
    "runs.default.resize": ("flickr-vsepp-1c", "eval_store.resize"),
    "runs.default.random_crop": ("flickr-vsepp-rc", "crop.random"),
    "runs.default.train_store_scale": ("flickr-vsepp-rc", "train_store.side", 256, 384),
    "runs.default.flip": ("flickr-vsepp-rc", "crop.flip"),
    "components.similarity.order.form": (
        "coco-orderpp-10c-rv", "model.similarity", Component("order"), Component("order", {"form": "root"}),
    ),
    "components.loss.goal.margin": ("goal-coco-resnet-con-con", "loss.options", {}, {"margin": None}),
    "components.loss.goal.tau": (
        "goal-coco-vit-nca-con", "loss.options", {"triplet": "nca"}, {"triplet": "nca", "tau": 1.0},
    ),
    "components.loss.goal.offset": (
        "goal-coco-vit-cir-con", "loss.options", {"triplet": "circle"}, {"triplet": "circle", "offset": 0.5},
    ),
    "components.loss.goal.empty_sets": (
        "goal-coco-vit-con-sig-ms", "loss.options", {"pair": "sigmoid_ms"}, {"pair": "sigmoid_ms", "empty_sets": "zero"},
    ),
    "runs.default.image_features": ("flickr-vsepp-1c", "image_features", "computed", "precomputed"),
    "runs.default.vocabulary": ("coco-vsepp-1c", "vocabulary.splits", ("train",), ALL),
    "runs.default.frozen_mode": ("flickr-vsepp-rc", "encoder_mode"),
    "runs.default.finetuned_mode": ("flickr-vsepp-rc-ft", "encoder_mode"),
    "runs.finetune.epochs": ("flickr-vsepp-rc-ft", "schedule.epochs"),
    "runs.finetune.drop_at": ("flickr-vsepp-rc-ft", "schedule.drop_at"),
    "runs.vse-infinity.drop_words_by": ("inf-coco-grid", "size_augmentation.drop_words_by"),
    "runs.inf-bert.drop_words_by": ("inf-coco-grid-bert", "size_augmentation.drop_words_by"),
    "runs.vse-infinity.random_crop": ("inf-flickr-grid", "crop.random"),
    "runs.vse-infinity.vocabulary": ("inf-coco-regions", "vocabulary.splits", ("train", "restval"), ("train", "restval", "val")),
    "runs.vse-infinity.validation_images": ("inf-coco-grid", "validation_images", 5000, 1000),
    "runs.inf-regions-bert.image_head": (
        "inf-coco-regions-bert", "model.image_head", Component("regions"), Component("regions", {"norm_parts": 4}),
    ),
    "runs.inf-grid-start.drop_vectors_by": ("inf-coco-grid", "size_augmentation.drop_vectors_by"),
    "runs.inf-regions.encoder_frozen_epochs": ("inf-flickr-regions", "schedule.encoder_frozen_epochs"),
    "runs.inf-regions.warmup": ("inf-flickr-regions", "schedule.warmup"),
    "runs.inf-grid.warmup_of": ("inf-flickr-grid", "schedule.warmup_of"),
    "runs.inf-regions-bigru.optimiser": (
        "inf-coco-regions", "optimiser", Component("adamw"), Component("adamw", {"weight_decay": 0.01}),
    ),
    "corpora.coco.validation_images": ("coco-vsepp-1c", "validation_images"),
    "corpora.flickr.validation_images": ("flickr-vsepp-rc", "validation_images"),
    "corpora.coco.published_validation_images": ("coco-vsepp-1c", "validation_images"),
}  # fmt: skip


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The same for all tests, so that they share the plans of the paper's values."""
    folder = tmp_path_factory.mktemp("archives")
    for name in ("f30k_precomp", "coco_precomp"):
        (folder / name).mkdir()
    return str(folder)


@pytest.mark.parametrize("key", DECIDES)
def test_the_key_alone_changes_what_a_run_is_made_with(key, archives):
    run, part, *expected = DECIDES[key]
    options = {"label": "one", "preset": "paper", "archives": archives, "only": [run]}
    papers = {"goal": "goal", "inf": "vse_infinity"}
    options["papers"] = [papers.get(run.partition("-")[0], "vsepp")]
    if "published" in key:
        options |= nested("runs.default.image_features", "precomputed_if_given")
    plans = plan(**options), plan(**options, **nested(key, CODE[key]))
    specs = [planned.models[run].spec for planned in plans]
    assert [attrgetter(part)(spec) for spec in specs] == (expected or [PAPER[key], CODE[key]])


@pytest.mark.parametrize("encoder", ["vgg", "resnet"])
def test_a_frozen_encoder_in_the_codes_mode_trains_another_model(encoder, tmp_path):
    """By its dropout, or by the statistics of the batch."""
    places, maps = tiny.build(tmp_path / "tiny"), []
    for mode in ("eval", "legacy-master", "legacy-python3"):
        run = tiny.change(tiny.RC, encoder=tiny.ENCODERS[encoder], schedule__epochs=1, encoder_mode=mode)
        out = tmp_path / mode
        train(run, tiny.data_of(run, places), out / "out", out / "state", torch.device("cpu"))
        maps.append(load_file(out / "out" / "model.safetensors")["image_map.weight"])
    # Weights are of the order of 0.1; what the tape's half precision changes is of the order of 0.00001.
    for first, second in combinations(maps, 2):
        assert (first - second).abs().mean() > 0.005


def test_every_key_with_two_values_is_tested_above():
    assert set(DECIDES) == TWO_VALUES


def test_the_document_is_up_to_date():
    assert fidelity_document(PARAMS) == (ROOT / "docs/fidelity.md").read_text(), "run sphinx-build docs site"


def test_the_document_has_a_row_for_every_key_with_two_values():
    document = fidelity_document(PARAMS)
    rows = {
        cells[0].strip("`"): cells[1:]
        for line in document.splitlines()
        if line.startswith("| `")
        for cells in [[cell.strip() for cell in line.strip("|").split(" | ")]]
    }
    assert set(rows) == TWO_VALUES
    for key, (text, code, *shown) in rows.items():
        assert text and code
        assert [yaml.safe_load(value) for value in shown] == [PAPER[key], CODE[key]]
    assert "`runs.finetune.learning_rate: 0.00002`" in document
    assert {"runs.vsepp.loss", "runs.default.clip_norm"} <= set(re.findall(r"`([\w.]+): ", document))


def test_the_documents_commands_are_accepted():
    commands = re.findall(r"--config (.*)", fidelity_document(PARAMS).split("##")[0])
    assert len(commands) >= 3
    for command in commands:
        pairs = [item.split("=", 1) for item in shlex.split(command)]
        plan = make_plan(PARAMS, {key: yaml.safe_load(value) for key, value in pairs})
        assert plan.variant in command


def test_the_command_of_goals_page_has_the_losses_of_its_authors():
    """With the margin and τ of GOAL's Figure 2."""
    page = (ROOT / "docs/other-papers.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"--config (.*label=authors.*)", page)
    pairs = [item.split("=", 1) for item in shlex.split(command)]
    planned = plan(**{key: yaml.safe_load(value) for key, value in pairs})
    losses = [model.spec.loss for model in planned.models.values() if model.spec.loss.name == "goal"]
    assert len(losses) == 15 * 8 + 15 * 2 + 2
    for loss in [goal.Options(**dict(loss.options)) for loss in losses]:
        assert (loss.margin, loss.tau, loss.offset, loss.alpha, loss.beta) == (0.2, 10.0, 0.5, 2.0, 10.0)
        assert (loss.threshold, loss.epsilon, loss.empty_sets) == (0.5, 0.1, "zero")


def test_overlays_that_name_different_keys_are_refused(params):
    code = params / "fidelity" / "code.yaml"
    content = yaml.safe_load(code.read_text())
    del content["runs"]["default"]["flip"]
    code.write_text(yaml.safe_dump(content))
    edit(code, {"corpora": {"coco": {"first_images": {"train": 10}}}})
    with pytest.raises(VseppError) as error:
        overlays(params)
    where, message = params / "fidelity", str(error.value)
    assert f"{where}: runs.default.flip: missing in code" in message
    assert f"{where}: corpora.coco.first_images: missing in paper" in message
