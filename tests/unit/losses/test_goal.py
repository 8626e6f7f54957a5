"""GOAL against loops over its equations, and against the losses that it takes apart."""

import dataclasses
import math
from itertools import product

import pytest
import torch

from vsepp.base import components
from vsepp.losses.batch import WHOLE, Batch
from vsepp.losses.goal import KNOWN, Options, loss

TRIPLETS = ("constant", "nca", "circle")
PAIRS = ("constant", "linear", "sigmoid", "linear_ms", "sigmoid_ms")
COMBINATIONS = list(product(TRIPLETS, PAIRS))


def embeddings(pairs, seed, dim=6, closeness=1.5):
    """Normalised images and captions whose pairs are closer than chance."""
    drawn = torch.Generator().manual_seed(seed)
    images = torch.randn(pairs, dim, dtype=torch.float64, generator=drawn)
    captions = closeness * images + torch.randn(pairs, dim, dtype=torch.float64, generator=drawn)
    return [torch.nn.functional.normalize(x, dim=1).requires_grad_() for x in (images, captions)]


def triplet_weight(options, p, n):
    if options.triplet == "constant":  # Eq. 5
        return 1.0 if options.margin is None or options.margin + n - p > 0 else 0.0
    if options.triplet == "nca":  # Eq. 7
        return 1 / (1 + math.exp(options.tau * (p - n)))
    return 1 / (
        1 + math.exp(options.tau * (p * (2 - p) - n**2 - options.offset))
    )  # Eq. 8, printed with an offset of 0


def pair_weights(options, p, n, positives, negatives):
    """P₊ and P₋ of Eqs. 9 to 13; the last two are the similarities of the sets 𝒫 and 𝒩."""
    if options.pair == "constant":
        return 1.0, 1.0
    if options.pair == "linear":
        return 1 - p, n
    if options.pair == "linear_ms":
        m_p = sum(p - r for r in positives) / len(positives) if positives else 0.0
        m_n = sum(n - r for r in negatives) / len(negatives) if negatives else 0.0
        return (1 - m_p) * (1 - p), (1 + m_n) * n
    m_p = m_n = 1.0
    if options.pair == "sigmoid_ms":
        empty = 1.0 if options.empty_sets == "plain" else 0.0
        m_p = (
            sum(math.exp(options.alpha * (p - r)) for r in positives) / len(positives) if positives else empty
        )
        m_n = (
            sum(math.exp(-options.beta * (n - r)) for r in negatives) / len(negatives) if negatives else empty
        )
    return (
        1 / (m_p + math.exp(options.alpha * (p - options.threshold))),
        1 / (m_n + math.exp(-options.beta * (n - options.threshold))),
    )


def naive(images, captions, options, queries=None, candidates=None):
    """Gradients of Eq. 3 with respect to each image and each caption, triplet by triplet."""
    images, captions = images.detach(), captions.detach()
    queries = len(images) if queries is None else queries
    candidates = range(len(images)) if candidates is None else candidates
    positives = [float(images[k] @ captions[k]) for k in range(queries)]
    gradients = torch.zeros_like(images), torch.zeros_like(captions)
    for anchors, others, side in ((images, captions, 0), (captions, images, 1)):
        of_anchors, of_others = gradients[side], gradients[1 - side]
        for i in range(queries):
            similar = {j: float(anchors[i] @ others[j]) for j in candidates if j != i}
            if not similar:
                continue
            hardest = max(similar, key=similar.get)
            p, n = positives[i], similar[hardest]
            others_p = [positives[k] for k in range(queries) if k != i and positives[k] < n + options.epsilon]
            others_n = [
                s for j, s in similar.items() if j != hardest and s > min(positives) - options.epsilon
            ]
            t = triplet_weight(options, p, n)
            plus, minus = pair_weights(options, p, n, others_p, others_n)
            of_anchors[i] += t * (minus * others[hardest] - plus * others[i])
            of_others[i] -= t * plus * anchors[i]
            of_others[hardest] += t * minus * anchors[i]
    return gradients


def gradients(function, images, captions, options, batch=WHOLE):
    value = function(images @ captions.T, options, batch)
    return torch.autograd.grad(value, (images, captions))


def assert_near(values, expected):
    for value, reference in zip(values, expected, strict=True):
        torch.testing.assert_close(value, reference, rtol=1e-9, atol=1e-12)


VARIANTS = [{}, {"margin": None, "offset": 0.5, "tau": 1.0, "empty_sets": "zero"}, {"epsilon": 0.0}]


@pytest.mark.parametrize("varied", VARIANTS, ids=["printed", "code", "epsilon 0"])
@pytest.mark.parametrize(("triplet", "pair"), COMBINATIONS)
def test_a_combination_has_the_gradient_of_its_equations(triplet, pair, varied):
    options = Options(triplet, pair, **varied)
    for pairs, seed in ((2, 0), (5, 1), (9, 2), (9, 3)):
        batch = embeddings(pairs, seed)
        assert_near(gradients(loss, *batch, options), naive(*batch, options))


@pytest.mark.parametrize(("triplet", "pair"), COMBINATIONS)
@pytest.mark.parametrize(("queries", "negatives"), [(4, None), (None, [0, 3, 7]), (5, [6, 2]), (None, [1])])
def test_queries_and_candidates_are_those_of_the_batch(triplet, pair, queries, negatives):
    options, (images, captions) = Options(triplet, pair), embeddings(8, 4)
    batch = Batch(queries, None if negatives is None else torch.tensor(negatives))
    expected = naive(images, captions, options, queries, negatives)
    assert_near(gradients(loss, images, captions, options, batch), expected)


@pytest.mark.parametrize(("combination", "known"), KNOWN.items())
def test_table_1_says_which_combinations_are_known_losses(combination, known):
    triplet, pair = combination.split(", ")
    factor = known["factor"]
    module = components.load("loss", known["loss"])
    takes = {option.name for option in dataclasses.fields(module.Options)}
    for seed, varied in product(range(4), ({}, {"tau": 4.0, "alpha": 3.0, "beta": 7.0, "margin": 0.3})):
        batch, shared = embeddings(9, seed), {key: value for key, value in varied.items() if key in takes}
        options = Options(triplet, pair, **shared | known["options"])
        ours = gradients(loss, *batch, options)
        theirs = gradients(module.loss, *batch, module.Options(**shared))
        if factor:
            scale = {"1": 1.0, "τ": options.tau, "2τ": 2 * options.tau}[factor]
            assert_near([scale * gradient for gradient in ours], theirs)
        else:
            flat = [torch.cat(both).flatten() for both in (ours, theirs)]
            assert torch.cosine_similarity(*flat, dim=0) < 1 - 1e-3


@pytest.mark.parametrize(("triplet", "pair"), COMBINATIONS)
def test_the_value_is_the_mh_loss_or_the_sum_of_the_differences(triplet, pair):
    mh = components.load("loss", "max_of_hinges")
    scores = torch.randn(7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert loss(scores, Options(triplet, pair)) == pytest.approx(mh.loss(scores).item())
    hardest = scores.masked_fill(torch.eye(7, dtype=torch.bool), -torch.inf)
    expected = hardest.amax(0).sum() + hardest.amax(1).sum() - 2 * scores.trace()
    assert loss(scores, Options(triplet, pair, margin=None)) == pytest.approx(expected.item())


def naive_sh(scores, margin, queries):
    """Eq. 5, negative by negative: of captions for an image, and of images for a caption."""
    total = 0.0
    for query, other in product(range(queries), range(len(scores))):
        if query != other:
            total += max(0.0, margin + scores[query, other] - scores[query, query])
            total += max(0.0, margin + scores[other, query] - scores[query, query])
    return total


@pytest.mark.parametrize(("margin", "of_sh"), [(0.3, 0.3), (None, 0.2)])
@pytest.mark.parametrize(("triplet", "pair"), COMBINATIONS)
def test_a_curriculum_begins_with_all_negatives(triplet, pair, margin, of_sh):
    images, captions = embeddings(7, seed=3)
    scores = images @ captions.T
    plain = Options(triplet=triplet, pair=pair, margin=margin)
    options = dataclasses.replace(plain, curriculum=0.04)
    first, second = (Batch(queries=5, epoch=epoch, epochs=25) for epoch in (0, 1))
    value = float(loss(scores, options, first).detach())
    assert value == pytest.approx(naive_sh(scores.detach().numpy(), of_sh, 5))
    assert torch.equal(loss(scores, options, second), loss(scores, plain, second))
    assert torch.equal(loss(scores, plain, first), loss(scores, plain, second))
