"""Poolings against loops and closed forms; what padding and order may change."""

import numpy as np
import pytest
import torch

from vsepp.base import components
from vsepp.base.spec import Component
from vsepp.models.poolings.gpo import weighted

NAMES = ["first", "gpo", "kmax", "max", "mean"]
LENGTHS = torch.tensor([5, 1, 3, 5, 2])


def pooling(name, **options):
    torch.manual_seed(0)
    component = Component(name, options)
    return components.load("pooling", name).Pooling(components.options("pooling", component))


def sets(lengths=LENGTHS, dim=6, pad=0.0, longest=None):
    values = torch.from_numpy(
        np.random.default_rng(1).standard_normal((len(lengths), longest or int(lengths.max()), dim))
    ).float()
    return values.masked_fill((torch.arange(values.shape[1]) >= lengths[:, None])[:, :, None], pad)


def own(values, lengths):
    return [row[:length].double().numpy() for row, length in zip(values, lengths, strict=True)]


LOOPS = {
    "first": lambda row: row[0],
    "max": lambda row: row.max(axis=0),
    "mean": lambda row: row.mean(axis=0),
    "kmax": lambda row: np.sort(row, axis=0)[::-1][:3].mean(axis=0),
}


@pytest.mark.parametrize("name", LOOPS)
def test_closed_forms_are_those_of_a_loop(name):
    values = sets()
    pooled = pooling(name, **({"k": 3} if name == "kmax" else {}))(values, LENGTHS)
    expected = np.stack([LOOPS[name](row) for row in own(values, LENGTHS)])
    np.testing.assert_allclose(pooled.numpy(), expected, atol=1e-6)


def test_gpo_has_the_size_of_the_released_one():
    assert sum(parameter.numel() for parameter in pooling("gpo").parameters()) == 12_704


@pytest.mark.parametrize("name", NAMES)
def test_the_values_of_padding_change_no_bit(name):
    pool = pooling(name)
    assert torch.equal(pool(sets(pad=0.0), LENGTHS), pool(sets(pad=1e6), LENGTHS))


@pytest.mark.parametrize("name", NAMES)
def test_a_set_alone_or_with_more_padding_is_what_it_is_in_its_batch(name):
    pool, values = pooling(name), sets()
    whole = pool(values, LENGTHS)
    wider = torch.cat([values, torch.ones(5, 4, 6)], dim=1)
    torch.testing.assert_close(pool(wider, LENGTHS), whole, rtol=0, atol=1e-6)
    for row in range(5):
        part = slice(row, row + 1)
        alone = pool(values[part, : LENGTHS[row]], LENGTHS[part])
        torch.testing.assert_close(alone, whole[part], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_padding_gets_no_gradient_and_a_sets_own_vectors_do(name):
    values = sets().requires_grad_()
    pooling(name)(values, LENGTHS).square().sum().backward()
    padding = torch.arange(5) >= LENGTHS[:, None]
    assert torch.isfinite(values.grad).all() and (values.grad[padding] == 0).all()
    assert (values.grad.abs().sum(dim=(1, 2)) > 0).all()


def test_the_gradient_of_gpo_is_that_of_the_difference_quotient():
    values, theta = sets().double(), pooling("gpo").weights(LENGTHS, 5).detach().double()
    assert torch.autograd.gradcheck(
        lambda x, t: weighted(x, LENGTHS, t), (values.requires_grad_(), theta.requires_grad_())
    )
