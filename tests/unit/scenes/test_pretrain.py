"""Small encoders are trained on labelled scenes."""

import dataclasses
import json

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from vsepp.models.encoder import build_encoder
from vsepp.scenes.pretrain import ARCHITECTURES, LABELS, Pretraining, encoder_spec, labelled_scenes, pretrain
from vsepp.shipped.folders import encoder_weights

SHORT = Pretraining(images=96, side=30, input_size=26, epochs=1)


def test_every_value_of_a_label_is_about_equally_often():
    images, labels = labelled_scenes(SHORT)
    assert images.shape == (96, 30, 30, 3) and images.dtype == np.uint8
    for column, values in zip(labels.T, LABELS.values(), strict=True):
        counts = np.bincount(column, minlength=len(values))
        assert counts.max() - counts.min() <= 1


def test_equal_seeds_give_equal_weights():
    first, again, other = (
        pretrain("mini/resnet_mini", dataclasses.replace(SHORT, seed=seed))[0].network[0].weight
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_weights_that_come_with_the_package_are_of_the_declared_networks_and_settings():
    files = [encoder_weights(architecture) for architecture in ARCHITECTURES]
    assert sum(file.stat().st_size for file in files) < 3 << 20
    for architecture, file in zip(ARCHITECTURES, files, strict=True):
        with safe_open(file, "pt") as stream:
            assert json.loads(stream.metadata()["settings"]) == dataclasses.asdict(Pretraining())
        network = build_encoder(encoder_spec(architecture, Pretraining())).network
        declared = {name: (value.dtype, value.shape) for name, value in network.state_dict().items()}
        assert {name: (value.dtype, value.shape) for name, value in load_file(file).items()} == declared
