"""Steps of our Adam and AdamW are those of torch's classes to the bit."""

import pytest
import torch
from processes import python

from vsepp.base.errors import VseppError
from vsepp.training.optimisers import adam
from vsepp.training.optimisers.adamw import Optimiser, Options

NAMES = ("encoder.conv.weight", "text.LayerNorm.weight", "text.gru.bias")
STEPS = 6
GROUPS = Options(
    weight_decay=0.3,
    beta2=0.98,
    rates=(("text.gru", 0.5), ("text", 0.1), ("encoder", 0.01)),
    no_decay=("bias", "LayerNorm"),
)


def parameters():
    generator = torch.Generator().manual_seed(0)
    return [
        torch.nn.Parameter(torch.randn(*shape, generator=generator)) for shape in ((5, 3), (4,), (2, 2, 2))
    ]


def take_steps(optimiser, values, factors=(1.0,), steps=range(STEPS)):
    """Steps with their own gradients, some without the second parameter's gradient, while the rate changes."""
    for step in steps:
        generator, rate = torch.Generator().manual_seed(100 + step), 0.1 / (step + 1)
        for number, value in enumerate(values):
            gradient = torch.randn(value.shape, generator=generator)
            value.grad = None if number == 1 and step % 2 else gradient
        if isinstance(optimiser, torch.optim.Optimizer):
            for group, factor in zip(optimiser.param_groups, factors, strict=True):
                group["lr"] = factor * rate
            optimiser.step()
        else:
            optimiser.step(rate)


def assert_equal(values, others):
    assert all(torch.equal(value, other) for value, other in zip(values, others, strict=True))


def test_steps_of_adam_are_those_of_torch():
    ours, theirs = parameters(), parameters()
    take_steps(adam.Optimiser(zip(NAMES, ours, strict=True)), ours)
    take_steps(torch.optim.Adam(theirs, lr=0.1, fused=True), theirs)
    assert_equal(ours, theirs)


def test_steps_of_adamws_groups_are_those_of_torch():
    ours, theirs = parameters(), parameters()
    groups = [
        {"params": [theirs[0]]},
        {"params": [theirs[1]], "weight_decay": 0.0},
        {"params": [theirs[2]], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, lr=0.1, betas=(0.9, 0.98), weight_decay=0.3, fused=True)
    take_steps(Optimiser(zip(NAMES, ours, strict=True), GROUPS), ours)
    take_steps(reference, theirs, factors=(0.01, 0.1, 0.5))
    assert_equal(ours, theirs)


@pytest.mark.parametrize("rates", [(), (("text.", 1.0),)], ids=["one group", "two groups"])
def test_adamw_with_factors_of_one_and_no_decay_is_adam(rates):
    ours, theirs = parameters(), parameters()
    take_steps(Optimiser(zip(NAMES, ours, strict=True), Options(weight_decay=0.0, rates=rates)), ours)
    take_steps(adam.Optimiser(zip(NAMES, theirs, strict=True)), theirs)
    assert_equal(ours, theirs)


@pytest.mark.parametrize(
    ("options", "entry"),
    [
        ({"rates": (("text", 0.1), ("text.gru", 0.5))}, "rates: 'text.gru'"),
        ({"no_decay": ("bias", "norm1")}, "no_decay: 'norm1'"),
    ],
)
def test_an_entry_about_no_parameter_is_refused(options, entry):
    with pytest.raises(VseppError, match=f"{entry}.*encoder, text"):
        Optimiser(zip(NAMES, parameters(), strict=True), Options(**options))


def test_neither_a_step_nor_the_loading_of_weights_imports_a_compiler(tmp_path):
    code = """
import sys
from pathlib import Path

import specs
import torch
from safetensors.torch import save_file

from vsepp.models import weights
from vsepp.models.encoder import build_encoder
from vsepp.training.optimisers.adam import Optimiser

encoder, path = build_encoder(specs.ENCODER), Path(sys.argv[1])
save_file({name: value.contiguous() for name, value in encoder.state_dict().items()}, path)
weights.load(path, lambda shapes: build_encoder(specs.ENCODER), "these")
adam = Optimiser(encoder.named_parameters())
encoder(torch.zeros(1, 3, 24, 24)).sum().backward()
torch.nn.utils.clip_grad_norm_(list(encoder.parameters()), 1.0)
adam.step(0.1)
adam.zero_grad()
assert not [name for name in sys.modules if name.startswith(("torch._dynamo", "torch._inductor", "sympy"))]
"""
    python(code, tmp_path / "weights.safetensors")
