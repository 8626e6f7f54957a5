"""Losses summed over parts of the queries against the same losses of all scores at once."""

import dataclasses

import pytest
import tiny_corpus as tiny
import torch
from closeness import assert_near

from vsepp import components
from vsepp.losses import Batch, by_query
from vsepp.losses.by_query import loss_by_queries, parts_of
from vsepp.spec import Component
from vsepp.training import step

PAIRS, DIM = 23, 5
MASK, SHARE = {"mask_same_image": True}, {"share_same_image": True}
LOSSES = [
    *(Component(name, options) for name in ("sum_of_hinges", "max_of_hinges") for options in ({}, MASK)),
    Component("max_of_hinges", {"curriculum": 1.0}),
    *(Component("info_nce", options) for options in ({}, MASK, SHARE)),
    *(Component("siglip", options) for options in ({}, MASK)),
]
KNOWN = {
    "the batch": {},
    "few queries": {"queries": 9},
    "few candidates": {"negatives": torch.tensor([1, 4, 5, 22])},
    "both": {"queries": 9, "negatives": torch.tensor([0, 7, 20])},
}


@pytest.fixture(autouse=True)
def some_queries_at_a_time(monkeypatch):
    monkeypatch.setattr(by_query, "_AT_ONCE", 4 * PAIRS)


def embeddings(whole=False, seed=0):
    """Images and captions; whole numbers have exact scores, many of them equal."""
    generator = torch.Generator().manual_seed(seed)
    if whole:
        both = torch.randint(-1, 2, (2, PAIRS, DIM), generator=generator).float()
    else:
        both = torch.nn.functional.normalize(torch.randn(2, PAIRS, DIM, generator=generator), dim=-1)
    return both[0].requires_grad_(), both[1].requires_grad_()


def product(images, captions):
    return images @ captions.T


def trained(component, known, whole, in_parts, device=tiny.CPU):
    """Value and gradients of a loss."""
    module, options = components.load("loss", component.name), components.options("loss", component)
    state = module.State(options, {}).to(device) if hasattr(module, "State") else None
    there = {name: value.to(device) if name == "negatives" else value for name, value in known.items()}
    image_rows = torch.arange(PAIRS, device=device) // 3
    batch = Batch(image_rows=image_rows, epoch=0, epochs=2, state=state, **there)
    images, captions = (each.detach().to(device).requires_grad_() for each in embeddings(whole))
    if in_parts:
        value = loss_by_queries(
            lambda scores: module.loss(scores, options, batch), images, captions, product, batch
        )
    else:
        value = module.loss(product(images, captions), options, batch)
    (3 * value).backward()
    own = [] if state is None else [each.grad for each in state.parameters()]
    return [value.detach(), images.grad, captions.grad, *own]


def both_ways(component, known, whole=False):
    """Value and gradients, of all scores at once and of parts."""
    return zip(*(trained(component, known, whole, in_parts) for in_parts in (False, True)), strict=True)


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("component", LOSSES, ids=str)
def test_value_and_gradients_are_those_of_all_scores_at_once(component, known):
    for whole, parts in both_ways(component, known):
        assert parts.shape == whole.shape
        assert_near(parts, whole, 1e-6)


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("options", [{}, MASK, {"curriculum": 1.0}], ids=str)
def test_of_equally_hard_negatives_the_same_one_receives_the_gradient(options, known):
    hardest = Component("max_of_hinges", {"margin": 1.0, **options})
    for whole, parts in both_ways(hardest, known, whole=True):
        assert torch.equal(parts, whole)


@pytest.mark.gpu
@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("component", LOSSES, ids=str)
def test_parts_on_a_gpu_are_those_of_a_cpu(component, known, cuda):
    expected = trained(component, known, whole=True, in_parts=True)
    for found, value in zip(trained(component, known, True, True, cuda), expected, strict=True):
        assert found.device == cuda
        assert_near(found.cpu(), value, 1e-5)


def test_every_loss_that_says_so_is_tested():
    names = {
        name for name in components.known("loss") if getattr(components.load("loss", name), "BY_QUERY", False)
    }
    assert names == {component.name for component in LOSSES}


@pytest.mark.parametrize("queries", [None, 7, 8, 9])
def test_parts_cover_the_queries_once(queries):
    asked = [row for part in parts_of(Batch(queries=queries), PAIRS) for row in range(PAIRS)[part]]
    assert asked == list(range(queries or PAIRS))


def test_no_gradient_is_computed_where_none_is_needed():
    images, captions = (each.detach() for each in embeddings())
    asked = []

    def loss(scores):
        asked.append(scores.captions.requires_grad)
        return scores.captions.sum() + scores.images.sum()

    value = loss_by_queries(loss, images, captions, product, Batch())
    assert not any(asked) and not value.requires_grad
    assert_near(value, 2 * product(images, captions).sum(), 1e-6)


def test_a_training_with_large_batches_learns_what_it_learns_with_all_scores(corpus, tmp_path, monkeypatch):
    run = dataclasses.replace(tiny.FROZEN, loss=Component("info_nce"))
    data = tiny.data_of(run, corpus)
    whole, _ = tiny.run_in(tmp_path / "whole", run, data)
    monkeypatch.setattr(step, "TOGETHER", 4)
    parts, _ = tiny.run_in(tmp_path / "parts", run, data)
    for one, other in zip(tiny.weights(whole).values(), tiny.weights(parts).values(), strict=True):
        assert_near(other, one, 1e-5)
    for one, other in zip(tiny.history(whole), tiny.history(parts), strict=True):
        assert float(other["loss"]) == pytest.approx(float(one["loss"]), rel=1e-5)
