"""Similarities against loops over elements: values, gradients, tiles, and arrays as tensors."""

import itertools
import math

import numpy as np
import pytest
import torch
from rounding import assert_near

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.models.similarity import order_violation
from vsepp.models.similarity.common import Similarity

DOT, SQUARED, ROOT = Component("dot"), Component("order"), Component("order", {"form": "root"})
ALL = pytest.mark.parametrize("similarity", [DOT, SQUARED, ROOT], ids=["dot", "squared", "root"])
FORMS = pytest.mark.parametrize("similarity", [SQUARED, ROOT], ids=["squared", "root"])


def embeddings(n, m, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(k, d, dtype=torch.float64, generator=generator).requires_grad_() for k in (n, m))


def naive(images, captions, similarity):
    """f·g, −‖max(0, g − f)‖² or its root, element by element."""
    scores = np.empty((len(images), len(captions)))
    for (i, image), (c, caption) in itertools.product(enumerate(images), enumerate(captions)):
        if similarity == DOT:
            scores[i, c] = sum(f * g for f, g in zip(image, caption, strict=True))
        else:
            squared = sum(max(0, g - f) ** 2 for f, g in zip(image, caption, strict=True))
            scores[i, c] = -(squared if similarity == SQUARED else math.sqrt(squared))
    return scores


@ALL
def test_arrays_and_tensors_score_as_a_naive_loop_does(similarity, monkeypatch):
    images, captions = (side.detach().numpy() for side in embeddings(5, 4, 6))
    expected = naive(images, captions, similarity)
    for elements in (1, 50, 1 << 22):
        monkeypatch.setattr("vsepp.models.similarity.common._ELEMENTS", elements)
        scores = Similarity(similarity).matrix(images, captions)
        assert isinstance(scores, np.ndarray)
        assert_near(scores, expected, 1e-12)
    tensors = Similarity(similarity).matrix(torch.from_numpy(images), torch.from_numpy(captions))
    assert_near(tensors, expected, 1e-12)


@ALL
@pytest.mark.parametrize("bound", [1, 7, 40, 1 << 20])
def test_all_pairs_have_the_values_and_gradients_of_each_whatever_the_tiles(similarity, bound, monkeypatch):
    monkeypatch.setattr(order_violation, "TILE_ON_CPU", bound)
    module = components.load("similarity", similarity.name)
    options = components.options("similarity", similarity)
    images, captions = embeddings(5, 4, 6)
    weights = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected, scores = (
        module.score(images[:, None], captions, options),
        Similarity(similarity).matrix(images, captions),
    )
    torch.testing.assert_close(scores, expected)
    gradients = torch.autograd.grad((expected * weights).sum(), (images, captions))
    torch.testing.assert_close(torch.autograd.grad((scores * weights).sum(), (images, captions)), gradients)


@FORMS
def test_gradients_are_those_of_finite_differences(similarity):
    assert torch.autograd.gradcheck(Similarity(similarity).matrix, embeddings(3, 4, 5, seed=2))


@FORMS
def test_a_caption_below_its_image_scores_zero_with_a_zero_gradient(similarity):
    images = torch.tensor([[2.0, 3.0]], requires_grad=True)
    captions = torch.tensor([[1.0, 3.0]], requires_grad=True)
    score = Similarity(similarity).matrix(images, captions)
    score.sum().backward()
    assert score.item() == 0
    assert torch.equal(images.grad, torch.zeros(1, 2))
    assert torch.equal(captions.grad, torch.zeros(1, 2))
    assert Similarity(similarity).matrix(captions, images).item() < 0, "order is not symmetric"


@pytest.mark.parametrize(
    ("similarity", "key"),
    [
        (Component("cosine"), "'cosine'.*dot, order"),
        (Component("order", {"form": "cube"}), "form .*'cube'"),
        (Component("dot", {"form": "root"}), "form "),
    ],
)
def test_an_unknown_similarity_or_option_is_refused(similarity, key):
    with pytest.raises(VseppError, match=key):
        Similarity(similarity)
