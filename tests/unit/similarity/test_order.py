import itertools
import math

import pytest
import torch

from vsepp.errors import VseppError
from vsepp.similarity import order

FORMS = ("squared", "root")


def embeddings(n, m, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(k, d, dtype=torch.float64, generator=generator).requires_grad_() for k in (n, m))


def naive(images, captions, form):
    """−‖max(0, g − f)‖² element by element, or its root, under autograd."""
    rows = []
    for image in images:
        squared = [
            sum(torch.relu(g - f) ** 2 for f, g in zip(image, caption, strict=True)) for caption in captions
        ]
        rows.append(torch.stack([-(s if form == "squared" else s.sqrt()) for s in squared]))
    return torch.stack(rows)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bound", [1, 7, 40, 1 << 20])
def test_values_and_gradients_are_those_of_a_naive_loop_whatever_the_tiles(form, bound, monkeypatch):
    monkeypatch.setattr(order, "TILE_ON_CPU", bound)
    images, captions = embeddings(5, 4, 6)
    weights = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = naive(images, captions, form)
    wanted = torch.autograd.grad((expected * weights).sum(), (images, captions))
    found = order.scores(images, captions, form=form)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad((found * weights).sum(), (images, captions)), wanted)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_those_of_finite_differences(form):
    images, captions = embeddings(3, 4, 5, seed=2)
    assert torch.autograd.gradcheck(lambda f, g: order.scores(f, g, form=form), (images, captions))


@pytest.mark.parametrize("form", FORMS)
def test_a_caption_below_its_image_scores_zero_with_a_zero_gradient(form):
    images = torch.tensor([[2.0, 3.0]], requires_grad=True)
    captions = torch.tensor([[1.0, 3.0]], requires_grad=True)
    found = order.scores(images, captions, form=form)
    found.sum().backward()
    assert found.item() == 0
    assert torch.equal(images.grad, torch.zeros(1, 2))
    assert torch.equal(captions.grad, torch.zeros(1, 2))


def test_the_root_is_the_root_of_the_square():
    images, captions = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [-1.0, 2.0]])
    assert order.scores(images, captions, form="squared").tolist() == [[-25.0, -4.0]]
    assert order.scores(images, captions, form="root").tolist() == [[-5.0, -2.0]]


def test_order_is_not_symmetric():
    low, high = torch.tensor([[0.0]]), torch.tensor([[1.0]])
    assert order.scores(high, low, form="squared").item() == 0
    assert order.scores(low, high, form="squared").item() == -1


def test_an_unknown_form_is_refused():
    with pytest.raises(VseppError, match="'cube'"):
        order.scores(torch.zeros(1, 1), torch.zeros(1, 1), form="cube")


def test_tiles_cover_every_pair_once_within_the_bound(monkeypatch):
    for bound, (n, m, d) in itertools.product((1, 30, 64, 10_000), ((1, 1, 8), (9, 5, 8), (4, 17, 3))):
        monkeypatch.setattr(order, "TILE_ON_CPU", bound)
        seen = torch.zeros(n, m, dtype=torch.long)
        for rows, columns in order._tiles(torch.empty(n, d), torch.empty(m, d)):
            seen[rows, columns] += 1
            assert seen[rows, columns].numel() * d <= max(bound, d)
        assert (seen == 1).all(), math.prod((n, m))
