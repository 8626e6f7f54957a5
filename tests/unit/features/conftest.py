import pytest
import specs
import torch

from vsepp.models.encoder import build_encoder


@pytest.fixture(autouse=True)
def one_thread():
    # Small networks on a shared machine: more threads would only wait for each other.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def make():
    """Makes encoders of random weights, always the same ones: 24 pixels of 30, or of other sizes."""

    def encoder(architecture="mini/vgg_mini", **changes):
        torch.manual_seed(0)
        spec = {"architecture": architecture, "input_size": 24, "store_side": 30, **changes}
        return build_encoder(specs.change(specs.ENCODER, **spec))

    return encoder
