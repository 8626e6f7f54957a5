import pytest
import torch
from test_adam import give_gradients, parameters

from vsepp.base.errors import VseppError
from vsepp.training.optimisers import adam
from vsepp.training.optimisers.adamw import Optimiser, Options

NAMES = ("encoder.conv.weight", "text.LayerNorm.weight", "text.gru.bias")
STEPS = 6


def take_steps(optimiser, params, steps, rates=None):
    """Steps with their own gradients, some without the second parameter's gradient, while the rate changes."""
    for step in steps:
        give_gradients(params, step)
        if isinstance(optimiser, torch.optim.Optimizer):
            for group, factor in zip(optimiser.param_groups, rates, strict=True):
                group["lr"] = factor * (0.1 / (step + 1))
            optimiser.step()
        else:
            optimiser.step(0.1 / (step + 1))


def assert_equal(some, others):
    assert all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


def test_groups_are_those_of_torchs_own_class_to_the_bit():
    mine, theirs = parameters(), parameters()
    options = Options(
        weight_decay=0.3,
        beta2=0.98,
        rates=(("text.gru", 0.5), ("text", 0.1), ("encoder", 0.01)),
        no_decay=("bias", "LayerNorm"),
    )
    own = Optimiser(zip(NAMES, mine, strict=True), options)
    groups = [
        {"params": [theirs[0]]},
        {"params": [theirs[1]], "weight_decay": 0.0},
        {"params": [theirs[2]], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, lr=0.1, betas=(0.9, 0.98), weight_decay=0.3, fused=True)
    for step in range(STEPS):
        take_steps(own, mine, [step])
        take_steps(reference, theirs, [step], (0.01, 0.1, 0.5))
        assert_equal(mine, theirs)


def test_a_group_without_any_gradient_stays_as_it_is():
    mine = parameters()
    before = [parameter.detach().clone() for parameter in mine]
    own = Optimiser(zip(NAMES, mine, strict=True), Options(weight_decay=0.3, rates=(("encoder.", 0.01),)))
    give_gradients(mine, 0)
    mine[0].grad = None
    own.step(0.1)
    assert torch.equal(mine[0], before[0])
    assert not any(torch.equal(mine[k], before[k]) for k in (1, 2))


@pytest.mark.parametrize("rates", [(), (("text.", 1.0),)], ids=["one group", "two groups"])
def test_with_factors_of_one_and_no_decay_it_is_adam_to_the_bit(rates):
    mine, theirs = parameters(), parameters()
    own = Optimiser(zip(NAMES, mine, strict=True), Options(weight_decay=0.0, rates=rates))
    reference = adam.Optimiser(zip(NAMES, theirs, strict=True))
    for optimiser, params in ((own, mine), (reference, theirs)):
        take_steps(optimiser, params, range(STEPS))
    assert_equal(mine, theirs)


def test_a_state_goes_on_to_the_same_bits():
    options = Options(weight_decay=0.3, rates=(("encoder.", 0.01),), no_decay=("bias",))
    mine, theirs = parameters(), parameters()
    whole = Optimiser(zip(NAMES, mine, strict=True), options)
    take_steps(whole, mine, range(STEPS))
    cut = Optimiser(zip(NAMES, theirs, strict=True), options)
    take_steps(cut, theirs, range(3))
    again = Optimiser(zip(NAMES, theirs, strict=True), options)
    again.load_state_dict(cut.state_dict())
    take_steps(again, theirs, range(3, STEPS))
    assert_equal(mine, theirs)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"rates": (("image_encoder.", 0.1),)}, "rates: 'image_encoder.'"),
        ({"rates": (("text", 0.1), ("text.gru", 0.5))}, "rates: 'text.gru'"),
        ({"no_decay": ("bias", "norm1")}, "no_decay: 'norm1'"),
    ],
)
def test_an_entry_about_no_parameter_is_refused(options, named):
    with pytest.raises(
        VseppError, match=rf"optimiser 'adamw': {named} is about no .* begin with encoder, text"
    ):
        Optimiser(zip(NAMES, parameters(), strict=True), Options(**options))
