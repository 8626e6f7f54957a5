"""Encoded images and captions stand in file order and do not depend on blocks."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import specs
import torch
from rounding import assert_near

from vsepp.base.spec import Component
from vsepp.data.captions import Tokens
from vsepp.data.tables import split_rows
from vsepp.evaluation import encode
from vsepp.evaluation.encode import encode_split
from vsepp.models.joint import JointEmbedding
from vsepp.models.sets import ImageBatch

CPU = torch.device("cpu")
SPEC = dataclasses.replace(
    specs.MODEL, normalise_images=False, similarity=Component("order", {"form": "root"})
)
SPLITS = ["train", "test", "val", "test", "test", "train"]
# Captions are not sorted by image, images have different numbers of them, and lengths are mixed.
OWNERS = [3, 0, 1, 3, 4, 2, 1, 3, 5]
CAPTIONS = [
    [1, 9, 8, 2],
    [1, 2],
    [1, 7, 2],
    [1, 2],
    [1, 4, 5, 6, 7, 2],
    [1, 5, 2],
    [1, 6, 6, 2],
    [1, 8, 2],
    [1, 2],
]


@pytest.fixture
def tables():
    images = pd.DataFrame({"split": SPLITS})
    captions = pd.DataFrame({"image_index": np.int32(OWNERS), "split": [SPLITS[owner] for owner in OWNERS]})
    return images, captions


@pytest.fixture
def model():
    torch.manual_seed(0)
    return JointEmbedding(SPEC, 5, 10)


def features():
    return torch.rand(len(SPLITS), 5, generator=torch.Generator().manual_seed(1))


def test_rows_of_a_split_keep_the_order_of_the_file(tables):
    rows = split_rows(*tables, "test")
    assert rows.images.tolist() == [1, 3, 4]
    assert rows.captions.tolist() == [0, 2, 3, 4, 6, 7]
    assert rows.caption_to_image.tolist() == [1, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_each_item_is_embedded_as_if_alone_and_stands_where_the_file_has_it(
    tables, model, batch_size, monkeypatch
):
    monkeypatch.setattr(encode, "BATCH", batch_size)
    asked = []

    def inputs(rows):
        asked.extend(rows.tolist())
        return ImageBatch(features()[rows])

    rows = split_rows(*tables, "test")
    embedded = encode_split(model, SimpleNamespace(eval=inputs), Tokens.from_lists(CAPTIONS), rows, CPU)
    assert asked == rows.images.tolist(), "each image once"
    with torch.no_grad():
        images = [model.embed_images(ImageBatch(features()[row][None]))[0] for row in rows.images]
        captions = [
            model.embed_captions(torch.tensor([CAPTIONS[row]]), torch.tensor([len(CAPTIONS[row])]))[0]
            for row in rows.captions
        ]
    assert_near(embedded.scores.images, torch.stack(images), 1e-5)
    assert_near(embedded.scores.captions, torch.stack(captions), 1e-5)
    assert embedded.scores.images.dtype == embedded.scores.captions.dtype == np.float32
    assert embedded.caption_to_image.tolist() == rows.caption_to_image.tolist()
    assert embedded.scores.similarity == SPEC.similarity


def test_the_model_is_in_evaluation_mode_meanwhile_and_gets_its_modes_back(tables, model):
    model.text.words = torch.nn.Sequential(model.text.words, torch.nn.Dropout(0.9))
    model.train()
    model.text.eval()
    rows, tokens = split_rows(*tables, "test"), Tokens.from_lists(CAPTIONS)
    model.text.words[1].train()
    images = SimpleNamespace(eval=lambda rows: ImageBatch(features()[rows]))
    embedded = [encode_split(model, images, tokens, rows, CPU) for _ in range(2)]
    assert np.array_equal(embedded[0].scores.captions, embedded[1].scores.captions)
    assert model.training and not model.text.training and model.text.words[1].training
