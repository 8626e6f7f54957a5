"""Training with a matcher: drawn negatives and the matching loss."""

import numpy as np
import pytest
import tiny_corpus as tiny
import torch
from scipy.stats import chisquare
from specs import change
from tiny_corpus import artefacts
from torch.nn.functional import cross_entropy

from vsepp.base.placement import Placing
from vsepp.base.spec import Component
from vsepp.models.joint import JointEmbedding
from vsepp.models.sets import Sets
from vsepp.training.batches import epoch_batches, load_batch
from vsepp.training.data import load_training_data
from vsepp.training.matching import FLOOR, Candidates, draw_negatives, matching_loss
from vsepp.training.step import RunLoss, Training, make_optimiser, take_step

FUSION = Component("fusion", {"layers": 1, "heads": 2, "intermediate": 12, "k": 4})
BERT = {"dim": 10, "layers": 1, "hidden": 8, "heads": 2, "intermediate": 12, "positions": 32}
ITC = Component("info_nce", {"share_same_image": True})
RUN = change(
    tiny.FROZEN,
    model__text=Component("bert", BERT),
    model__image_pooling=Component("mean"),
    model__caption_pooling=Component("first"),
    model__matcher=FUSION,
    loss=ITC,
)


@pytest.fixture
def data(corpus, sets):
    return load_training_data(RUN, artefacts(corpus) | {"features": sets}, Placing(tiny.CPU))


@pytest.fixture
def model():
    """A model with a matcher for features of five numbers and nine words."""
    torch.manual_seed(0)
    return JointEmbedding(RUN.model, 5, 9).eval()


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def sets_of(lengths):
    """Sets of ten numbers a vector, of these lengths."""
    return Sets.from_lengths(torch.randn(len(lengths), max(lengths), 10), torch.tensor(lengths))


def test_shares_of_drawn_candidates_follow_their_scores_and_none_shows_the_querys_image():
    rows, times = torch.tensor([4, 7, 4, 1, 0, 7, 2]), 6_000
    scores = 2 * random(7, 7)
    expected = (torch.softmax(scores, dim=1) + FLOOR).masked_fill(rows[:, None] == rows, 0).numpy()
    uniforms = np.random.default_rng(0).random((times, 7))
    drawn = [draw_negatives(scores, rows, torch.from_numpy(numbers)) for numbers in uniforms]
    negatives, exist = (torch.stack(part).numpy() for part in zip(*drawn, strict=True))
    assert exist.all()
    for query, weights in enumerate(expected):
        counts, possible = np.bincount(negatives[:, query], minlength=7), weights > 0
        assert not counts[~possible].any()
        shares = weights[possible] / weights.sum()
        assert chisquare(counts[possible], times * shares).pvalue > 1e-4


def test_the_least_likely_candidate_is_drawn_with_the_floor_and_one_image_alone_gives_none():
    scores = torch.tensor([[0.0, 0.0, -900.0]], dtype=torch.float64)
    rows, last = torch.tensor([0, 1, 2]), torch.tensor([1 - 2**-53], dtype=torch.float64)
    assert draw_negatives(scores, rows, last)[0].item() == 2
    assert draw_negatives(scores, rows, last * 0)[0].item() == 1
    below = (0.5 + FLOOR) / (0.5 + 2 * FLOOR)
    for share, expected in ((below - 1e-9, 1), (below + 1e-9, 2)):
        assert draw_negatives(scores, rows, torch.tensor([share], dtype=torch.float64))[0].item() == expected
    _, exist = draw_negatives(scores, torch.tensor([3, 3, 3]), last)
    assert not exist.any()


def test_the_numbers_that_decide_depend_on_crop_seed_epoch_and_caption_alone():
    ids = np.arange(100, 400, dtype=np.int64)
    whole = Candidates.from_pairs(ids // 5, ids, 0, 2, tiny.CPU)
    part = Candidates.from_pairs(ids[7:90] // 5, ids[7:90], 0, 2, tiny.CPU)
    assert torch.equal(part.for_images, whole.for_images[7:90])
    assert torch.equal(part.for_captions, whole.for_captions[7:90])
    for draw, epoch in ((1, 2), (0, 3)):
        others = Candidates.from_pairs(ids, ids, draw, epoch, tiny.CPU)
        assert not (others.for_images == whole.for_images).any()
    assert abs(np.corrcoef(whole.for_images, whole.for_captions)[0, 1]) < 0.2


@pytest.mark.parametrize("queries", [6, 4])
def test_the_loss_is_the_mean_over_pairs_and_drawn_pairs_and_scores_get_no_gradient(model, queries):
    images, captions = sets_of([4, 1, 2, 3, 4, 2]), sets_of([5, 2, 3, 4, 2, 5])
    scores = random(6, 6).requires_grad_()
    draws = Candidates.from_pairs(np.array([0, 1, 1, 2, 3, 4]), np.arange(6), 0, 0, tiny.CPU)
    loss = matching_loss(model, images, captions, scores, draws, queries)
    sharp = scores.detach() / 0.07
    other_captions, _ = draw_negatives(sharp[:queries], draws.image_rows, draws.for_images[:queries])
    other_images, _ = draw_negatives(sharp.T[:queries], draws.image_rows, draws.for_captions[:queries])
    costs = []
    for query in range(queries):
        pairs = ((query, query, 1), (query, other_captions[query], 0), (other_images[query], query, 0))
        for image, caption, label in pairs:
            rows = torch.tensor([int(image)]), torch.tensor([int(caption)])
            logits = model.match(images.take(rows[0]), captions.take(rows[1]))
            costs.append(cross_entropy(logits, torch.tensor([label])))
    torch.testing.assert_close(loss, 2 * queries * torch.stack(costs).mean())
    loss.backward()
    assert scores.grad is None and all(p.grad is not None for p in model.matcher.parameters())


def test_pairs_of_one_image_are_matched_without_negatives(model):
    images, captions = sets_of([2] * 3), sets_of([2] * 3)
    draws = Candidates.from_pairs(np.zeros(3, np.int64), np.arange(3), 0, 0, tiny.CPU)
    loss = matching_loss(model, images, captions, random(3, 3), draws, 3)
    expected = cross_entropy(model.match(images, captions), torch.ones(3, dtype=torch.int64))
    torch.testing.assert_close(loss, 6 * expected)


def matching_losses(run, data, epochs):
    """The matching loss of each step of a training, as a mean."""
    torch.manual_seed(0)
    model = JointEmbedding(run.model, data.images.dim, len(data.vocabulary))
    loss, costs = RunLoss.from_run(run, {}, tiny.CPU), []
    training = Training(run, model, loss, make_optimiser(run, model, loss), tiny.CPU)
    for epoch in range(epochs):
        for drawn in epoch_batches(len(data.pairs), run.schedule, 0, epoch):
            batch = load_batch(training, data, drawn, epoch)
            with torch.no_grad():
                vectors, lengths, _ = model.image_vectors(batch.images)
                states = model.text(batch.captions, batch.lengths)
                sets = Sets.from_lengths(vectors, lengths), Sets.from_lengths(states, batch.lengths)
                equal = torch.zeros(batch.pairs, batch.pairs)
                cost = matching_loss(model, *sets, equal, batch.candidates, batch.pairs)
                costs.append(cost / batch.pairs / 2)
            take_step(training, batch, 0.003)
    return torch.stack(costs)


def test_a_matcher_learns_which_images_and_captions_belong_together(data):
    # Negatives of any colour: the highest-scoring negatives have the positive's colour, and nothing tells them from it.
    sizes = {"model__joint_dim": 32, "model__text__dim": 32, "model__matcher__temperature": 1e3}
    dropout = {"model__text__dropout": 0.0, "model__matcher__dropout": 0.0}
    costs = matching_losses(tiny.change(RUN, **sizes, **dropout), data, 30)
    # Two thirds are no match: who knows nothing more pays .637.
    assert costs[-8:].mean() < 0.55 < 0.6 < costs[:4].mean()
