"""Bytes, against numbers that were worked out by hand and against the networks themselves."""

from pathlib import Path

import pytest
import torch

from vsepp.config import make_plan
from vsepp.costs.disk import (
    ASSUMED_WORDS,
    Item,
    checkpoint_bytes,
    checkpoints_at_once,
    disk_items,
    model_numbers,
    tape_bytes,
)
from vsepp.costs.rates import NETWORKS
from vsepp.models.encoder import build_encoder
from vsepp.models.joint import JointEmbedding

PARAMS = Path(__file__).resolve().parents[3] / "params"


def test_bytes_of_the_papers_artefacts(paper, jobs):
    items = disk_items(paper, jobs)
    tapes = {item.name: item.size for item in items if item.kind == "tapes"}
    vgg = next(size for name, size in tapes.items() if "coco" in name and "vgg" in name)
    assert vgg == 566_435 * 30 * 4096 * 2  # 139 GB
    assert tape_bytes(items) == (vgg, (566_435 + 145_000) * 30 * (4096 + 2048) * 2)
    stores = [item.size for item in items if item.kind == "stores"]
    assert sorted(stores) == [31_014 * 256 * 256 * 3, 123_287 * 256 * 256 * 3]
    assert 123_287 * 4096 * 4 in [item.size for item in items if item.kind == "features"]
    embeddings = {item.name: item.size for item in items if item.kind == "embeddings"}
    assert embeddings["coco-vsepp-1c"] == (5_000 + 25_000) * 1024 * 4
    assert sum(item.size or 0 for item in items if item.kind == "downloads") == (
        13_510_573_713 + 6_645_013_297 + 252_872_794 + 36_745_453 + 574_673_361
    )


def test_tapes_of_one_corpus_and_encoder_lie_there_together():
    items = [
        Item("tapes", "a", 5, Path("a"), "coco × vgg"),
        Item("tapes", "b", 7, Path("b"), "coco × vgg"),
        Item("tapes", "c", 9, Path("c"), "coco × resnet"),
        Item("stores", "d", 99, Path("d")),
    ]
    assert tape_bytes(items) == (12, 21)


@pytest.mark.parametrize("run", ["flickr-vsepp-rc", "flickr-vsepp-rc-resnet-ft"])
def test_numbers_of_a_model_are_those_of_the_model(paper, run):
    spec = paper.runs[run].spec
    network = NETWORKS[spec.encoder.architecture]
    with torch.device("meta"):
        encoder = build_encoder(spec.encoder) if spec.live_encoder else None
    model = JointEmbedding(spec.model, network.dim, ASSUMED_WORDS, encoder)
    numbers = sum(value.numel() for value in model.state_dict().values())
    assert model_numbers(spec, NETWORKS) == (numbers, numbers)
    assert checkpoint_bytes(spec, NETWORKS) == 3 * 4 * 4 * numbers


def test_an_encoder_that_is_not_trained_has_no_moments():
    spec = make_plan(PARAMS, {"preset": "paper", "fidelity": "code"}).runs["flickr-vsepp-rc"].spec
    whole, trained = model_numbers(spec, NETWORKS)
    assert whole - trained == NETWORKS["torchvision/vgg19"].parameters


def test_the_largest_trainings_count_as_running_at_once(paper):
    tuned = checkpoint_bytes(paper.runs["coco-vsepp-rc-rv-ft"].spec, NETWORKS)
    assert checkpoints_at_once(paper, 1) == tuned
    assert checkpoints_at_once(paper, 4) == 4 * tuned  # four runs fine-tune VGG19
