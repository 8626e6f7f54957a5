"""How precisely products are computed is what was asked for, whatever torch is set to outside."""

import pytest
import torch
from torch import nn

from vsepp.models.precision import fp32_products_in, products_in
from vsepp.models.text.gru import Options, TextEncoder

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SETTINGS = {"fp32": (False, False), "tf32": (True, True), "bf16": (False, True)}


def settings():
    """Whether matrix products, and whether convolutions and the GRU, may be in TF32 on a GPU."""
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.fixture(params=[(False, True), (True, False)], ids=["torch's own", "turned round"])
def outside(request):
    before = settings()
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = request.param
    yield request.param
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize("precision", SETTINGS)
def test_a_gpus_products_are_in_the_given_precision_and_in_the_former_one_afterwards(precision, outside):
    with fp32_products_in(precision, CUDA):
        assert settings() == SETTINGS[precision]
        with fp32_products_in("fp32", CUDA):
            assert settings() == (False, False)
        assert settings() == SETTINGS[precision]
    assert settings() == outside
    with pytest.raises(KeyError), fp32_products_in(precision, CUDA):
        raise KeyError
    assert settings() == outside


@pytest.mark.parametrize("precision", SETTINGS)
def test_products_of_a_cpu_are_in_the_given_precision_and_nothing_is_set_for_gpus(precision, outside):
    inputs = torch.ones(2, 2)
    with torch.autocast("cpu", torch.bfloat16), products_in(precision, CPU):
        assert (inputs @ inputs).dtype == (torch.bfloat16 if precision == "bf16" else torch.float32)
        assert settings() == outside


@pytest.mark.gpu
@pytest.mark.parametrize("layer", ["matrix product", "convolution", "GRU"])
def test_fp32_on_a_gpu_is_ieee_and_tf32_has_ten_bits_of_fraction(layer, cuda):
    torch.manual_seed(0)
    module, inputs = {
        "matrix product": (nn.Linear(512, 512), (torch.randn(256, 512),)),
        "convolution": (nn.Conv2d(64, 64, 3), (torch.randn(16, 64, 32, 32),)),
        "GRU": (
            TextEncoder(50, Options(256, 512)),
            (torch.randint(50, (64, 9)), torch.full((64,), 9)),
        ),
    }[layer]
    exact = module.double()(*(x.double() if x.is_floating_point() else x for x in inputs))
    module = module.float().cuda()
    there = [x.cuda() if x.is_floating_point() or x.dim() > 1 else x for x in inputs]
    errors = {}
    for precision in ("fp32", "tf32"):
        with torch.inference_mode(), fp32_products_in(precision, CUDA):
            found = module(*there).double().cpu()
        errors[precision] = float((found - exact).norm() / exact.norm())
    assert errors["fp32"] < 1e-5 and errors["tf32"] < 2e-3
    # Which kernel cuDNN takes is its own choice.
    if layer == "matrix product" and torch.cuda.get_device_capability() >= (8, 0):
        assert errors["tf32"] > 2e-5
