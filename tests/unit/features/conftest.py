"""Encoders of random weights."""

import pytest
import specs
import torch

from vsepp.models.encoder import build_encoder


@pytest.fixture(scope="session")
def make():
    """Makes encoders of random weights, always the same ones: 24 pixels of 30, or of other sizes."""

    def encoder(architecture="mini/vgg_mini", **changes):
        torch.manual_seed(0)
        spec = {"architecture": architecture, "input_size": 24, "store_side": 30, **changes}
        return build_encoder(specs.change(specs.ENCODER, **spec))

    return encoder
