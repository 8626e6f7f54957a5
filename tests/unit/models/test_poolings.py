"""Poolings against loops and closed forms; what padding and order may change."""

import numpy as np
import pytest
import torch

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.models.poolings.gpo import position_codes, weighted

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
    found = pooling(name, **({"k": 3} if name == "kmax" else {}))(values, LENGTHS)
    expected = np.stack([LOOPS[name](row) for row in own(values, LENGTHS)])
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def thetas(of_set):
    theta = torch.zeros(len(LENGTHS), int(LENGTHS.max()))
    for row, length in enumerate(LENGTHS.tolist()):
        theta[row, :length] = torch.tensor(of_set(length))
    return theta


@pytest.mark.parametrize(
    ("of_set", "loop"),
    [
        (lambda n: [1 / n] * n, lambda row: row.mean(axis=0)),
        (lambda n: [1.0] + [0.0] * (n - 1), lambda row: row.max(axis=0)),
        (lambda n: [0.0] * (n - 1) + [1.0], lambda row: row.min(axis=0)),
        (
            lambda n: [1 / min(3, n)] * min(3, n) + [0.0] * (n - min(3, n)),
            lambda row: np.sort(row, axis=0)[::-1][:3].mean(axis=0),
        ),
    ],
    ids=["mean", "max", "min", "k-max"],
)
def test_gpo_has_known_poolings_as_special_weights(of_set, loop):
    values = sets()
    expected = np.stack([loop(row) for row in own(values, LENGTHS)])
    np.testing.assert_allclose(weighted(values, LENGTHS, thetas(of_set)).numpy(), expected, atol=1e-6)


def test_gpo_without_a_map_of_its_states_is_the_mean():
    gpo, values = pooling("gpo"), sets()
    torch.nn.init.zeros_(gpo.score.weight)
    torch.testing.assert_close(gpo(values, LENGTHS), pooling("mean")(values, LENGTHS), rtol=0, atol=1e-6)


def test_weights_of_gpo_are_those_of_one_set_at_a_time_and_sum_to_one():
    gpo = pooling("gpo")
    theta = gpo.weights(LENGTHS, 5)
    torch.testing.assert_close(theta.sum(dim=1), torch.ones(5), rtol=0, atol=1e-6)
    codes = position_codes(5, 32)
    for row, length in enumerate(LENGTHS.tolist()):
        assert (theta[row, length:] == 0).all()
        forward, backward = gpo.gru(codes[None, :length])[0][0].split(32, dim=1)
        scores = ((forward + backward) / 2) @ gpo.score.weight[0]
        torch.testing.assert_close(theta[row, :length], torch.softmax(scores / 0.1, dim=0), rtol=0, atol=1e-6)


def test_codes_of_positions_are_sines_and_cosines_from_zero():
    codes = position_codes(3, 4)
    assert codes[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    expected = [np.sin(2), np.cos(2), np.sin(2 / 100), np.cos(2 / 100)]
    np.testing.assert_allclose(codes[2].numpy(), expected, atol=1e-6)


def test_gpo_has_the_size_of_the_released_one():
    assert sum(parameter.numel() for parameter in pooling("gpo").parameters()) == 12_704


@pytest.mark.parametrize("name", NAMES)
def test_the_values_of_padding_change_no_bit(name):
    pool = pooling(name)
    assert torch.equal(pool(sets(pad=0.0), LENGTHS), pool(sets(pad=1e6), LENGTHS))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("first", "mean")])
def test_the_order_of_a_set_changes_no_bit(name):
    pool, values = pooling(name), sets()
    turned = values.clone()
    for row, length in zip(turned, LENGTHS.tolist(), strict=True):
        row[:length] = row[:length].flip(0)
    assert torch.equal(pool(values, LENGTHS), pool(turned, LENGTHS))


@pytest.mark.parametrize("name", NAMES)
def test_a_set_alone_or_with_more_padding_is_what_it_is_in_its_batch(name):
    pool, values = pooling(name), sets()
    whole = pool(values, LENGTHS)
    wider = torch.cat([values, torch.ones(5, 4, 6)], dim=1)
    torch.testing.assert_close(pool(wider, LENGTHS), whole, rtol=0, atol=1e-6)
    for row in range(5):
        one = slice(row, row + 1)
        alone = pool(values[one, : LENGTHS[row]], LENGTHS[one])
        torch.testing.assert_close(alone, whole[one], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_set_of_one_is_its_vector(name):
    values = sets(torch.ones(3, dtype=torch.int64))
    torch.testing.assert_close(pooling(name)(values, torch.ones(3, dtype=torch.int64)), values[:, 0])


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


@pytest.mark.parametrize("known", ["mean", "max", "last"])
def test_gpo_learns_known_poolings(known):
    """Section 5.3 of VSE∞'s supplement; sets of all sizes are seen."""
    rng = torch.Generator().manual_seed(0)
    gpo = pooling("gpo")
    optimiser = torch.optim.Adam(gpo.parameters(), lr=1e-2)
    for step in range(150):
        for group in optimiser.param_groups:
            group["lr"] = 1e-2 * (1 - step / 150)
        lengths = torch.randint(1, 9, (64,), generator=rng)
        error = _distance(gpo, known, lengths, rng)
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
    lengths = torch.arange(1, 9).repeat(16)
    assert _distance(gpo, known, lengths, rng).detach().sqrt() < 5e-3


def _distance(gpo, known, lengths, rng):
    """Mean squared difference to a known pooling, of random sets."""
    values = torch.rand((len(lengths), int(lengths.max()), 16), generator=rng)
    if known == "last":
        padding = (torch.arange(values.shape[1]) >= lengths[:, None])[:, :, None]
        target = values.masked_fill(padding, torch.inf).amin(dim=1)
    else:
        target = pooling(known)(values, lengths)
    return (gpo(values, lengths) - target).square().mean()


def test_options_that_gpo_cannot_have_are_refused():
    with pytest.raises(VseppError, match="code_dim of pooling gpo: got 31; expected an even number"):
        pooling("gpo", code_dim=31)
    with pytest.raises(VseppError, match="temperature"):
        pooling("gpo", temperature=0.0)
