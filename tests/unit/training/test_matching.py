"""Training with a matcher: drawn negatives, the matching loss, and a training that is killed."""

import dataclasses

import numpy as np
import pytest
import tiny_corpus as tiny
import torch
from scipy.stats import chisquare
from specs import change
from tiny_corpus import Killed, artefacts, assert_same_results, killed_at, run_in
from torch.nn.functional import cross_entropy

from vsepp.base.errors import VseppError
from vsepp.base.placement import Placing
from vsepp.base.spec import Component
from vsepp.models.joint import JointEmbedding
from vsepp.models.sets import ImageBatch, Sets
from vsepp.training.batches import epoch_batches, load_batch
from vsepp.training.data import load_training_data
from vsepp.training.distributed import ALONE, ProcessGroup, require_divisible
from vsepp.training.matching import FLOOR, Candidates, draw_negatives, matching_loss
from vsepp.training.step import RunLoss, Training, make_optimiser, take_step

GPO = Component("gpo")
FUSION = Component("fusion", {"layers": 1, "heads": 2, "intermediate": 12, "k": 4})
BERT = {"dim": 10, "layers": 1, "hidden": 8, "heads": 2, "intermediate": 12, "positions": 32}
ITC = Component("info_nce", {"share_same_image": True})
RUN = dataclasses.replace(
    tiny.FROZEN,
    model=change(
        tiny.MODEL,
        text=Component("bert", BERT),
        image_pooling=Component("mean"),
        caption_pooling=Component("first"),
        matcher=FUSION,
    ),
    loss=ITC,
)
GOAL = dataclasses.replace(RUN, loss=Component("goal", {"triplet": "nca", "pair": "linear"}))


@pytest.fixture
def data(corpus, sets):
    return load_training_data(RUN, artefacts(corpus) | {"features": sets}, Placing(tiny.CPU))


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_shares_of_drawn_candidates_follow_their_scores_and_none_shows_the_querys_image():
    rows, times = torch.tensor([4, 7, 4, 1, 0, 7, 2]), 6_000
    scores = 2 * random(7, 7)
    expected = (torch.softmax(scores, dim=1) + FLOOR).masked_fill(rows[:, None] == rows, 0).numpy()
    uniforms = np.random.default_rng(0).random((times, 7))
    drawn = [draw_negatives(scores, rows, torch.from_numpy(numbers)) for numbers in uniforms]
    found, some = (torch.stack(part).numpy() for part in zip(*drawn, strict=True))
    assert some.all()
    for query, weights in enumerate(expected):
        counts, possible = np.bincount(found[:, query], minlength=7), weights > 0
        assert not counts[~possible].any()
        shares = weights[possible] / weights.sum()
        assert chisquare(counts[possible], times * shares).pvalue > 1e-4


def test_candidates_of_other_groups_are_never_drawn_and_shares_are_those_within_a_group():
    rows, scores = torch.tensor([4, 7, 4, 1, 0, 7, 2]), 2 * random(7, 7)
    for number in torch.linspace(0, 1 - 2**-53, 9, dtype=torch.float64):
        uniforms = number.expand(7)
        found, some = draw_negatives(scores, rows, uniforms, among=3)
        assert some.tolist() == [True] * 6 + [False]  # the last group has one pair
        for group in (slice(0, 3), slice(3, 6)):
            alone, _ = draw_negatives(scores[group, group], rows[group], uniforms[group])
            assert torch.equal(found[group], alone + group.start)


def test_a_matcher_without_a_temperature_draws_with_the_one_that_the_loss_trains():
    torch.manual_seed(0)
    model = JointEmbedding(change(RUN.model, matcher__temperature=None), 5, 9).eval()
    fixed = JointEmbedding(change(RUN.model, matcher__temperature=0.25), 5, 9).eval()
    fixed.load_state_dict(model.state_dict())
    sets = [Sets.from_lengths(torch.randn(6, 2, 10), torch.full((6,), 2)) for _ in range(2)]
    draws = Candidates.from_pairs(np.arange(6), np.arange(6), 0, 0, tiny.CPU)
    given = *sets, random(6, 6), draws, 6
    assert torch.equal(matching_loss(model, *given, torch.tensor(4.0)), matching_loss(fixed, *given))
    with pytest.raises(ValueError, match=r"^scale: "):
        matching_loss(model, *given)


def test_before_the_maps_a_matcher_sees_the_features_themselves():
    torch.manual_seed(0)
    model = JointEmbedding(
        change(RUN.model, matcher__before_maps=True, normalise_features=False), 5, 9
    ).eval()
    images = ImageBatch(torch.randn(3, 4, 5), torch.tensor([4, 2, 3]))
    vectors, lengths, seen = model.image_vectors(images)
    assert torch.equal(seen, images.values) and vectors.shape[2] == model.spec.joint_dim
    captions = Sets.from_lengths(torch.randn(3, 2, 10), torch.full((3,), 2))
    assert model.match(Sets.from_lengths(seen, lengths), captions).shape == (3, 2)


def test_the_least_likely_candidate_is_drawn_with_the_floor_and_one_image_alone_gives_none():
    scores = torch.tensor([[0.0, 0.0, -900.0]], dtype=torch.float64)
    rows, last = torch.tensor([0, 1, 2]), torch.tensor([1 - 2**-53], dtype=torch.float64)
    assert draw_negatives(scores, rows, last)[0].item() == 2
    assert draw_negatives(scores, rows, last * 0)[0].item() == 1
    below = (0.5 + FLOOR) / (0.5 + 2 * FLOOR)
    for share, expected in ((below - 1e-9, 1), (below + 1e-9, 2)):
        assert draw_negatives(scores, rows, torch.tensor([share], dtype=torch.float64))[0].item() == expected
    _, some = draw_negatives(scores, torch.tensor([3, 3, 3]), last)
    assert not some.any()


def test_the_numbers_that_decide_depend_on_crop_seed_epoch_and_caption_alone():
    ids = np.arange(100, 400, dtype=np.int64)
    one = Candidates.from_pairs(ids // 5, ids, 0, 2, tiny.CPU)
    part = Candidates.from_pairs(ids[7:90] // 5, ids[7:90], 0, 2, tiny.CPU)
    assert torch.equal(part.for_images, one.for_images[7:90])
    assert torch.equal(part.for_captions, one.for_captions[7:90])
    for other in (
        Candidates.from_pairs(ids, ids, 1, 2, tiny.CPU),
        Candidates.from_pairs(ids, ids, 0, 3, tiny.CPU),
    ):
        assert not (other.for_images == one.for_images).any()
    assert abs(np.corrcoef(one.for_images, one.for_captions)[0, 1]) < 0.2


@pytest.mark.parametrize("queries", [6, 4])
def test_the_loss_is_the_mean_over_pairs_and_drawn_ones_and_scores_get_no_gradient(queries):
    torch.manual_seed(0)
    model = JointEmbedding(RUN.model, 5, 9).eval()
    images = Sets.from_lengths(torch.randn(6, 4, 10), torch.tensor([4, 1, 2, 3, 4, 2]))
    captions = Sets.from_lengths(torch.randn(6, 5, 10), torch.tensor([5, 2, 3, 4, 2, 5]))
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


def test_pairs_of_one_image_are_matched_without_negatives():
    torch.manual_seed(0)
    model = JointEmbedding(RUN.model, 5, 9).eval()
    images, captions = (Sets.from_lengths(torch.randn(3, 2, 10), torch.full((3,), 2)) for _ in range(2))
    draws = Candidates.from_pairs(np.zeros(3, np.int64), np.arange(3), 0, 0, tiny.CPU)
    loss = matching_loss(model, images, captions, random(3, 3), draws, 3)
    expected = cross_entropy(model.match(images, captions), torch.ones(3, dtype=torch.int64))
    torch.testing.assert_close(loss, 6 * expected)


@pytest.mark.resume
@pytest.mark.parametrize("run", [RUN, GOAL], ids=["ITC", "GOAL"])
def test_a_run_with_a_matcher_goes_on_to_the_same_bits(data, tmp_path, run):
    whole, _ = run_in(tmp_path / "whole", run, data, checkpoint_seconds=0)
    for seed, call in enumerate((3, 4)):
        torch.manual_seed(seed)
        with pytest.raises(Killed):
            run_in(tmp_path / "cut", run, killed_at(data, call), checkpoint_seconds=0)
    out, _ = run_in(tmp_path / "cut", run, data, checkpoint_seconds=0)
    assert_same_results(whole, out)


def trained(run, data, epochs):
    """A model after some epochs, and the matching loss of each step as a mean."""
    torch.manual_seed(0)
    model = JointEmbedding(run.model, data.images.dim, len(data.vocabulary))
    loss, found = RunLoss.from_run(run, {}, tiny.CPU), []
    training = Training(run, model, loss, make_optimiser(run, model, loss), tiny.CPU)
    for epoch in range(epochs):
        for drawn in epoch_batches(
            len(data.pairs), dataclasses.replace(RUN.schedule, batch_size=16), 0, epoch
        ):
            batch = load_batch(training, data, drawn, epoch)
            with torch.no_grad():
                vectors, lengths, _ = model.image_vectors(batch.images)
                states = model.text(batch.captions, batch.lengths)
                sets = Sets.from_lengths(vectors, lengths), Sets.from_lengths(states, batch.lengths)
                equal = torch.zeros(batch.pairs, batch.pairs)
                found.append(
                    matching_loss(model, *sets, equal, batch.candidates, batch.pairs) / batch.pairs / 2
                )
            take_step(training, batch, 0.003)
    return model, torch.stack(found)


def test_a_matcher_learns_which_images_and_captions_belong_together(data):
    # Negatives of any colour: the highest-scoring negatives have the positive's colour, and nothing tells them from it.
    run = tiny.change(RUN, model__joint_dim=32, model__text__dim=32, model__matcher__temperature=1e3)
    _, found = trained(tiny.change(run, model__text__dropout=0.0, model__matcher__dropout=0.0), data, 30)
    # Two thirds are no match: who knows nothing more pays .637.
    assert found[-8:].mean() < 0.55 < 0.6 < found[:4].mean()


def test_any_loss_of_the_embeddings_stands_beside_the_matching_loss(data):
    states = {}
    for run in (RUN, GOAL, dataclasses.replace(RUN, loss=Component("max_of_hinges"))):
        model, found = trained(run, data, 1)
        assert found.isfinite().all()
        states[run.loss.name] = {
            name: value.clone() for name, value in model.state_dict().items() if name.startswith("matcher.")
        }
    torch.manual_seed(0)
    first = JointEmbedding(RUN.model, data.images.dim, len(data.vocabulary)).state_dict()
    for state in states.values():
        assert not any(
            torch.equal(value, first[name]) for name, value in state.items() if "key.bias" not in name
        )


def test_a_run_with_a_matcher_is_not_divided():
    with pytest.raises(VseppError, match=r"run tiny: matcher 'fusion' takes images .*got 2 processes"):
        require_divisible(RUN, ProcessGroup(0, 2))
    require_divisible(RUN, ALONE)
