import dataclasses

import numpy as np
import pytest
import specs
import torch

from vsepp.base.errors import VseppError
from vsepp.base.files import path_digest
from vsepp.base.spec import PretrainingSpec
from vsepp.models.encoder import load_encoder
from vsepp.scenes.pretrain import LABELS, labelled_scenes, pretrain

SPEC = PretrainingSpec(seed=1, images=96, side=30, epochs=1, batch_size=32, learning_rate=0.002)


def encoder(name, size=26):
    spec = {"name": name, "architecture": f"mini/{name}_mini", "weights": "scenes", "input_size": size}
    return specs.change(specs.ENCODER, **spec)


def test_every_value_of_a_label_is_about_equally_often():
    images, labels = labelled_scenes(SPEC)
    assert images.shape == (96, 30, 30, 3) and images.dtype == np.uint8
    for column, values in zip(labels.T, LABELS.values(), strict=True):
        counts = np.bincount(column, minlength=len(values))
        assert counts.max() - counts.min() <= 1


def test_equal_seeds_give_equal_weights_and_leave_the_callers_random_numbers_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        torch.manual_seed(5)
        pretrain(encoder("resnet"), dataclasses.replace(SPEC, seed=seed), tmp_path / name)
        assert torch.equal(torch.rand(3), expected)
    assert path_digest(tmp_path / "one") == path_digest(tmp_path / "again") != path_digest(tmp_path / "other")
    assert load_encoder(encoder("resnet"), tmp_path / "one").dim > 0


def test_the_resnet_learns_the_tones_of_the_background(tmp_path):
    facts = pretrain(encoder("resnet"), dataclasses.replace(SPEC, images=400, epochs=6), tmp_path)
    assert facts["held_out_accuracy"]["above"] > 0.5


def test_an_encoder_that_sees_more_than_there_is_is_refused(tmp_path):
    with pytest.raises(VseppError, match=r"pretraining.side.*40 pixels"):
        pretrain(encoder("vgg", 40), SPEC, tmp_path)
