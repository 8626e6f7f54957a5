"""GOAL against loops over its equations, and against the losses that it takes apart."""

import dataclasses
import math
from itertools import product

import pytest
import specs
import torch

from vsepp.base import components
from vsepp.base.spec import Component
from vsepp.losses import Batch
from vsepp.losses.goal import KNOWN, Options, loss
from vsepp.models.joint import JointEmbedding
from vsepp.models.sets import ImageBatch

TRIPLETS = ("constant", "nca", "circle")
PAIRS = ("constant", "linear", "sigmoid", "linear_ms", "sigmoid_ms")
COMBINATIONS = list(product(TRIPLETS, PAIRS))


def embeddings(pairs, seed, dim=6, closeness=1.5):
    """Normalised images and captions whose pairs are closer than chance."""
    drawn = torch.Generator().manual_seed(seed)
    images = torch.randn(pairs, dim, dtype=torch.float64, generator=drawn)
    captions = closeness * images + torch.randn(pairs, dim, dtype=torch.float64, generator=drawn)
    return [torch.nn.functional.normalize(x, dim=1).requires_grad_() for x in (images, captions)]


def triplet_weight(o, p, n):
    if o.triplet == "constant":  # Eq. 5
        return 1.0 if o.margin is None or o.margin + n - p > 0 else 0.0
    if o.triplet == "nca":  # Eq. 7
        return 1 / (1 + math.exp(o.tau * (p - n)))
    return 1 / (1 + math.exp(o.tau * (p * (2 - p) - n**2 - o.offset)))  # Eq. 8, printed with an offset of 0


def pair_weights(o, p, n, positives, negatives):
    """P₊ and P₋ of Eqs. 9 to 13; the last two are the similarities of the sets 𝒫 and 𝒩."""
    if o.pair == "constant":
        return 1.0, 1.0
    if o.pair == "linear":
        return 1 - p, n
    if o.pair == "linear_ms":
        m_p = sum(p - r for r in positives) / len(positives) if positives else 0.0
        m_n = sum(n - r for r in negatives) / len(negatives) if negatives else 0.0
        return (1 - m_p) * (1 - p), (1 + m_n) * n
    m_p = m_n = 1.0
    if o.pair == "sigmoid_ms":
        empty = 1.0 if o.empty_sets == "plain" else 0.0
        m_p = sum(math.exp(o.alpha * (p - r)) for r in positives) / len(positives) if positives else empty
        m_n = sum(math.exp(-o.beta * (n - r)) for r in negatives) / len(negatives) if negatives else empty
    return (
        1 / (m_p + math.exp(o.alpha * (p - o.threshold))),
        1 / (m_n + math.exp(-o.beta * (n - o.threshold))),
    )


def naive(images, captions, o, queries=None, candidates=None):
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
            others_p = [positives[k] for k in range(queries) if k != i and positives[k] < n + o.epsilon]
            others_n = [s for j, s in similar.items() if j != hardest and s > min(positives) - o.epsilon]
            t = triplet_weight(o, p, n)
            plus, minus = pair_weights(o, p, n, others_p, others_n)
            of_anchors[i] += t * (minus * others[hardest] - plus * others[i])
            of_others[i] -= t * plus * anchors[i]
            of_others[hardest] += t * minus * anchors[i]
    return gradients


def gradients(function, images, captions, o, batch=None, factor=1.0):
    found = factor * function(images @ captions.T, o, *([batch] if batch else []))
    return torch.autograd.grad(found, (images, captions))


VARIANTS = [{}, {"margin": None, "offset": 0.5, "tau": 1.0, "empty_sets": "zero"}, {"epsilon": 0.0}]


@pytest.mark.parametrize("varied", VARIANTS, ids=["printed", "code", "epsilon 0"])
@pytest.mark.parametrize(("triplet", "pair"), COMBINATIONS)
def test_a_combination_has_the_gradient_of_its_equations(triplet, pair, varied):
    options = Options(triplet, pair, **varied)
    for pairs, seed in ((2, 0), (5, 1), (9, 2), (9, 3)):
        batch = embeddings(pairs, seed)
        for found, expected in zip(gradients(loss, *batch, options), naive(*batch, options), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("triplet", "pair"), COMBINATIONS)
@pytest.mark.parametrize(("queries", "negatives"), [(4, None), (None, [0, 3, 7]), (5, [6, 2]), (None, [1])])
def test_queries_and_candidates_are_those_of_the_batch(triplet, pair, queries, negatives):
    options, (images, captions) = Options(triplet, pair), embeddings(8, 4)
    batch = Batch(queries, None if negatives is None else torch.tensor(negatives))
    expected = naive(images, captions, options, queries, negatives)
    for found, wanted in zip(gradients(loss, images, captions, options, batch), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


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
            for a, b in zip(ours, theirs, strict=True):
                torch.testing.assert_close(scale * a, b, rtol=1e-9, atol=1e-12)
        else:
            flat = [torch.cat(both).flatten() for both in (ours, theirs)]
            assert torch.cosine_similarity(*flat, dim=0) < 1 - 1e-3


def test_an_offset_is_that_of_the_circle_loss():
    batch, circle = embeddings(9, 0), components.load("loss", "circle")
    ours = gradients(loss, *batch, Options("circle", "linear", offset=0.5), factor=20.0)
    for a, b in zip(ours, gradients(circle.loss, *batch, circle.Options(offset=0.5)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(("triplet", "pair"), COMBINATIONS)
def test_the_value_is_the_mh_loss_or_the_sum_of_the_differences(triplet, pair):
    mh = components.load("loss", "max_of_hinges")
    scores = torch.randn(7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert loss(scores, Options(triplet, pair)) == pytest.approx(mh.loss(scores).item())
    hardest = scores.masked_fill(torch.eye(7, dtype=torch.bool), -torch.inf)
    expected = hardest.amax(0).sum() + hardest.amax(1).sum() - 2 * scores.trace()
    assert loss(scores, Options(triplet, pair, margin=None)) == pytest.approx(expected.item())


@pytest.mark.parametrize("head", ["linear", "regions"])
@pytest.mark.parametrize(
    "text",
    [
        Component("bigru", {"word_dim": 6, "dim": 8}),
        Component(
            "bert", {"layers": 1, "hidden": 8, "heads": 2, "intermediate": 8, "dim": 8, "dropout": 0.0}
        ),
    ],
    ids=["bigru", "bert"],
)
def test_through_a_tower_weights_get_the_gradient_of_the_equations(head, text):
    gpo, options = Component("gpo"), Options("nca", "sigmoid_ms")
    spec = specs.change(
        specs.MODEL,
        joint_dim=8,
        text=text,
        image_head=Component(head),
        image_pooling=gpo,
        caption_pooling=gpo,
    )
    torch.manual_seed(0)
    model = JointEmbedding(spec, 5, 20).double()
    drawn = torch.Generator().manual_seed(0)
    lengths, ids = torch.tensor([4, 2, 3, 4, 1]), torch.randint(0, 20, (5, 4), generator=drawn)
    regions = torch.randn(5, 4, 5, generator=drawn)
    images, captions = model.embed_images(ImageBatch(regions, lengths)), model.embed_captions(ids, lengths)
    weights = list(model.parameters())
    by_equations = naive(images, captions, options)
    surrogate = sum(
        (x * of_x.detach()).sum() for x, of_x in zip((images, captions), by_equations, strict=True)
    )
    expected = torch.autograd.grad(surrogate, weights, retain_graph=True, allow_unused=True)
    found = torch.autograd.grad(loss(images @ captions.T, options), weights, allow_unused=True)
    for one, other in zip(found, expected, strict=True):
        if other is None:
            assert one is None
        else:
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


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
    found = float(loss(scores, options, first).detach())
    assert found == pytest.approx(naive_sh(scores.detach().numpy(), of_sh, 5))
    assert torch.equal(loss(scores, options, second), loss(scores, plain, second))
    assert torch.equal(loss(scores, plain, first), loss(scores, plain, second))
