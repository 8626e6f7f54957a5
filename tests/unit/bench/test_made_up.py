"""Made-up captions, photographs and networks have the sizes of real ones."""

from dataclasses import replace

import numpy as np

from vsepp.bench.made_up import VOCABULARY, captions_of, feature_dims, photograph
from vsepp.costs.calibration import PHOTOGRAPH
from vsepp.spec import EncoderSpec


def test_captions_are_as_long_as_cocos():
    tokens = captions_of(2_000)
    assert 12.0 < tokens.lengths.mean() < 12.8
    assert tokens.ids.max() < VOCABULARY


def test_photographs_are_as_large_as_cocos():
    sizes = [len(photograph(PHOTOGRAPH, seed)) for seed in range(3)]
    assert 100_000 < np.mean(sizes) < 200_000


def test_dimensions_of_features_are_known_without_weights():
    spec = EncoderSpec("vgg", "torchvision/vgg19", "random", 224, 256, (0.5,) * 3, (0.5,) * 3)
    vit = replace(spec, architecture="torchvision/vit_b_16")
    assert feature_dims({"vgg": spec, "vit": vit}) == {"vgg": 4096, "vit": 768}
