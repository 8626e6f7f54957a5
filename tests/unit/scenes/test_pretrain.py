import dataclasses

import numpy as np
import pytest
import torch

from vsepp.errors import VseppError
from vsepp.models.encoder import load_encoder
from vsepp.provenance.digests import path_digest
from vsepp.scenes.pretrain import FAMILIES, LABELS, TONES, labelled_scenes, pretrain
from vsepp.scenes.render import PALETTE
from vsepp.scenes.world import SHAPES
from vsepp.spec import EncoderSpec, PretrainingSpec

SPEC = PretrainingSpec(seed=1, images=96, side=30, epochs=1, batch_size=32, learning_rate=0.002)


def encoder(name, size=26):
    return EncoderSpec(
        name=name,
        architecture=f"mini/{name}_mini",
        weights="scenes",
        input_size=size,
        store_side=30,
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
    )


def test_neither_colours_nor_shapes_give_the_captions_away():
    for colours in TONES.values():
        for colour in colours:
            assert min(np.abs(np.subtract(colour, named)).sum() for named in PALETTE.values()) > 40
    seen = {shape for shapes in FAMILIES.values() for shape in shapes}
    assert len(seen - set(SHAPES)) >= len(seen) / 2 - 1
    assert set(SHAPES) - seen


def test_every_value_of_a_label_is_about_equally_often():
    images, labels = labelled_scenes(SPEC)
    assert images.shape == (96, 30, 30, 3) and images.dtype == np.uint8
    for column, values in zip(labels.T, LABELS.values(), strict=True):
        counts = np.bincount(column, minlength=len(values))
        assert counts.max() - counts.min() <= 1


def test_equal_seeds_give_equal_weights_whichever_encoders_are_trained_beside(tmp_path):
    both = {name: tmp_path / "both" / name for name in ("vgg", "resnet")}
    facts = pretrain([encoder("vgg"), encoder("resnet")], SPEC, both)
    assert set(facts) == {"vgg", "resnet"}
    torch.rand(7)
    pretrain([encoder("resnet")], SPEC, {"resnet": tmp_path / "alone"})
    assert path_digest(both["resnet"]) == path_digest(tmp_path / "alone")
    pretrain([encoder("resnet")], dataclasses.replace(SPEC, seed=2), {"resnet": tmp_path / "other"})
    assert path_digest(both["resnet"]) != path_digest(tmp_path / "other")
    assert load_encoder(encoder("vgg"), both["vgg"]).dim > 0


def test_the_callers_random_numbers_are_left_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    pretrain([encoder("vgg")], SPEC, {"vgg": tmp_path})
    assert torch.equal(torch.rand(3), expected)


def test_the_resnet_learns_the_tones_of_the_background(tmp_path):
    longer = dataclasses.replace(SPEC, images=400, epochs=6)
    facts = pretrain([encoder("resnet")], longer, {"resnet": tmp_path})["resnet"]
    assert facts["held_out_accuracy"]["above"] > 0.5
    assert facts["train_accuracy"]["surface"] > 0.6


def test_an_encoder_that_sees_more_than_there_is_is_refused(tmp_path):
    with pytest.raises(VseppError, match=r"pretraining.side.*40 pixels"):
        pretrain([encoder("vgg", size=40)], SPEC, {"vgg": tmp_path})


def test_an_encoder_without_a_folder_is_refused(tmp_path):
    with pytest.raises(VseppError, match="no output folder for encoder 'vgg'"):
        pretrain([encoder("vgg")], SPEC, {"resnet": tmp_path})


def test_a_loss_that_is_not_finite_is_refused(tmp_path):
    with pytest.raises(VseppError, match="learning_rate"):
        pretrain([encoder("vgg")], dataclasses.replace(SPEC, epochs=9, learning_rate=1e30), {"vgg": tmp_path})
