"""Both losses against double loops over queries and negatives."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vsepp.losses import max_of_hinges, sum_of_hinges
from vsepp.losses.violations import hinge_costs

LOSSES = {"sum": sum_of_hinges.loss, "max": max_of_hinges.loss}


def naive(scores, margin, reduce, queries, negatives, image_of):
    """Eq. 5 (reduce=sum) or Eq. 6 (reduce=max) written out: scores[image][caption]."""
    total = 0.0
    for q in range(queries):
        captions, images = [0.0], [0.0]
        for other in negatives:
            same = other == q if image_of is None else image_of[other] == image_of[q]
            if not same:
                captions.append(max(0.0, margin - scores[q][q] + scores[q][other]))
                images.append(max(0.0, margin - scores[q][q] + scores[other][q]))
        total += reduce(captions) + reduce(images)
    return total


@st.composite
def cases(draw):
    pairs = draw(st.integers(1, 7))
    queries = draw(st.none() | st.integers(1, pairs))
    negatives = draw(st.none() | st.lists(st.integers(0, pairs - 1), min_size=1, max_size=pairs, unique=True))
    image_of = draw(st.none() | st.lists(st.integers(0, 3), min_size=pairs, max_size=pairs))
    seed = draw(st.integers(0, 2**16))
    margin = draw(st.sampled_from([0.05, 0.2, 1.0]))
    return pairs, queries, negatives, image_of, seed, margin


def arguments(case):
    pairs, queries, negatives, image_of, seed, margin = case
    scores = torch.randn(pairs, pairs, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    tensors = {
        "queries": queries,
        "negatives": None if negatives is None else torch.tensor(negatives),
        "image_of": None if image_of is None else torch.tensor(image_of),
    }
    return scores, margin, tensors


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=150, deadline=None)
@given(case=cases())
def test_a_loss_is_its_equation_written_as_loops(name, case):
    pairs, queries, negatives, image_of, _, margin = case
    scores, _, tensors = arguments(case)
    reduce = {"sum": sum, "max": max}[name]
    asked = pairs if queries is None else queries
    among = range(pairs) if negatives is None else negatives
    expected = naive(scores.tolist(), margin, reduce, asked, among, image_of)
    assert LOSSES[name](scores, margin, **tensors).item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    "options", [{}, {"queries": 3}, {"negatives": [0, 4]}, {"image_of": [0, 1, 0, 2, 1]}]
)
def test_gradients_are_those_of_finite_differences(name, options):
    tensors = {key: torch.tensor(v) if isinstance(v, list) else v for key, v in options.items()}
    scores = torch.randn(
        5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
    ).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: LOSSES[name](s, 0.2, **tensors), (scores,))


def test_directions_are_not_swapped():
    # Image 0 is close to caption 1, but caption 0 is far from image 1.
    scores = torch.tensor([[1.0, 0.9], [0.0, 1.0]])
    captions, images = hinge_costs(scores, 0.2)
    torch.testing.assert_close(captions, torch.tensor([[0.0, 0.1], [0.0, 0.0]]))
    torch.testing.assert_close(images, torch.tensor([[0.0, 0.0], [0.1, 0.0]]))


def test_sh_counts_every_violation_and_mh_the_hardest():
    scores = torch.tensor([[1.0, 1.1, 0.9], [-5.0, 9.0, -5.0], [-5.0, -5.0, 9.0]])
    assert sum_of_hinges.loss(scores, 0.2).item() == pytest.approx(0.3 + 0.1)
    assert max_of_hinges.loss(scores, 0.2).item() == pytest.approx(0.3)


@pytest.mark.parametrize("pairs", [2, 5])
def test_a_collapsed_model_has_twice_the_margin_a_query_under_mh(pairs):
    assert max_of_hinges.loss(torch.full((pairs, pairs), 0.7), 0.2).item() == pytest.approx(0.4 * pairs)


def test_the_mask_spares_the_second_caption_of_an_image():
    scores = torch.tensor([[1.0, 3.0], [3.0, 1.0]])
    assert max_of_hinges.loss(scores, 0.2).item() == pytest.approx(4 * 2.2)
    assert max_of_hinges.loss(scores, 0.2, image_of=torch.tensor([7, 7])).item() == 0


def test_equally_hard_negatives_share_no_gradient():
    scores = torch.zeros(3, 3, requires_grad=True)
    max_of_hinges.loss(scores, 0.2, queries=1).backward()
    assert scores.grad[0, 1:].tolist().count(1.0) == 1
    assert scores.grad[1:, 0].tolist().count(1.0) == 1
    assert scores.grad[0, 0].item() == -2
