"""How precisely products are computed is what was asked for, whatever torch is set to outside."""

import pytest
import torch

from vsepp.models.precision import fp32_products_in, products_in

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
