"""Both losses against double loops over queries and negatives."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objectives import batch_of, cases

from vsepp import components
from vsepp.errors import VseppError
from vsepp.losses import Batch, first_epoch_after, max_of_hinges, sum_of_hinges
from vsepp.losses.violations import hinge_costs
from vsepp.spec import Component

LOSSES = {"sum": sum_of_hinges, "max": max_of_hinges}


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


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=150, deadline=None)
@given(case=cases(), margin=st.sampled_from([0.05, 0.2, 1.0]))
def test_a_loss_is_its_equation_written_as_loops(name, case, margin):
    pairs, queries, negatives, image_of, seed = case
    scores = torch.randn(pairs, pairs, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    reduce = {"sum": sum, "max": max}[name]
    asked = pairs if queries is None else queries
    among = range(pairs) if negatives is None else negatives
    expected = naive(scores.tolist(), margin, reduce, asked, among, image_of)
    options = LOSSES[name].Options(margin, mask_same_image=image_of is not None)
    found = LOSSES[name].loss(scores, options, batch_of(queries, negatives, image_of))
    assert found.item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    "known", [{}, {"queries": 3}, {"negatives": [0, 4]}, {"image_of": [0, 1, 0, 2, 1]}], ids=str
)
def test_gradients_are_those_of_finite_differences(name, known):
    options, batch = LOSSES[name].Options(mask_same_image="image_of" in known), batch_of(**known)
    scores = torch.randn(
        5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
    ).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: LOSSES[name].loss(s, options, batch), (scores,))


def test_directions_are_not_swapped():
    # Image 0 is close to caption 1, but caption 0 is far from image 1.
    scores = torch.tensor([[1.0, 0.9], [0.0, 1.0]])
    captions, images = hinge_costs(scores, 0.2)
    torch.testing.assert_close(captions, torch.tensor([[0.0, 0.1], [0.0, 0.0]]))
    torch.testing.assert_close(images, torch.tensor([[0.0, 0.0], [0.1, 0.0]]))


def test_sh_counts_every_violation_and_mh_the_hardest():
    scores = torch.tensor([[1.0, 1.1, 0.9], [-5.0, 9.0, -5.0], [-5.0, -5.0, 9.0]])
    assert sum_of_hinges.loss(scores).item() == pytest.approx(0.3 + 0.1)
    assert max_of_hinges.loss(scores).item() == pytest.approx(0.3)


@pytest.mark.parametrize("pairs", [2, 5])
def test_a_collapsed_model_has_twice_the_margin_a_query_under_mh(pairs):
    assert max_of_hinges.loss(torch.full((pairs, pairs), 0.7)).item() == pytest.approx(0.4 * pairs)


def test_the_mask_spares_the_second_caption_of_an_image():
    scores, batch = torch.tensor([[1.0, 3.0], [3.0, 1.0]]), batch_of(image_of=[7, 7])
    masked = max_of_hinges.Options(mask_same_image=True)
    assert max_of_hinges.loss(scores, batch=batch).item() == pytest.approx(4 * 2.2)
    assert max_of_hinges.loss(scores, masked, batch).item() == 0
    with pytest.raises(VseppError, match=r"batch.image_rows is None; expected each pair's image"):
        max_of_hinges.loss(scores, masked)


def test_equally_hard_negatives_share_no_gradient():
    scores = torch.zeros(3, 3, requires_grad=True)
    max_of_hinges.loss(scores, batch=Batch(queries=1)).backward()
    assert scores.grad[0, 1:].tolist().count(1.0) == 1
    assert scores.grad[1:, 0].tolist().count(1.0) == 1
    assert scores.grad[0, 0].item() == -2


@pytest.mark.parametrize(
    ("epochs", "fraction", "first"),
    [(30, 0.5, 15), (12, 2 / 3, 8), (12, 0.6667, 8), (2, 0.5, 1), (1, 0.5, 1), (15, 1.0, 15), (4, 0.0, 0)],
)
def test_a_curriculum_begins_with_sh_for_its_fraction_of_the_epochs(epochs, fraction, first):
    scores = torch.tensor([[1.0, 1.1, 0.9], [-5.0, 9.0, -5.0], [-5.0, -5.0, 9.0]])
    options = max_of_hinges.Options(curriculum=fraction)
    found = [
        max_of_hinges.loss(scores, options, Batch(epoch=epoch, epochs=epochs)) for epoch in range(epochs)
    ]
    sh, mh = sum_of_hinges.loss(scores), max_of_hinges.loss(scores)
    assert sh != mh and found == [sh] * first + [mh] * (epochs - first)
    assert first_epoch_after(fraction, epochs) == first


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("max_of_hinges", {"margin": 0}, "margin: got 0; expected a number above 0"),
        ("sum_of_hinges", {"margin": float("nan")}, "margin: got nan; expected a number above 0"),
        ("max_of_hinges", {"curriculum": 1.5}, r"curriculum: got 1.5; expected a fraction from 0 to 1"),
        ("sum_of_hinges", {"curriculum": 0.5}, "curriculum.*its options are margin, mask_same_image$"),
    ],
)
def test_options_out_of_range_or_of_another_loss_are_refused(name, options, said):
    with pytest.raises(VseppError, match=said):
        components.options("loss", Component(name, options))
