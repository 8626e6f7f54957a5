"""InfoNCE with a target that a query's own pair shares with others of its image (ITC)."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from vsepp.base.errors import VseppError
from vsepp.losses import Batch
from vsepp.losses.info_nce import Options, State, loss, needs

SHARED = Options(temperature=0.5, share_same_image=True)
N = 7


@pytest.fixture
def scores():
    return torch.randn(N, N, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()


def test_of_distinct_images_it_is_torchs_cross_entropy(scores):
    found = loss(scores, SHARED, Batch(image_rows=torch.arange(N)))
    logits, targets = scores / 0.5, torch.arange(N)
    expected = cross_entropy(logits, targets) + cross_entropy(logits.T, targets)
    torch.testing.assert_close(found, N * expected)
    slope, theirs = (torch.autograd.grad(value, scores)[0] for value in (found, N * expected))
    torch.testing.assert_close(slope, theirs)
    assert torch.equal(found, loss(scores, Options(temperature=0.5)))


def test_equal_images_share_the_target_in_equal_parts(scores):
    rows = torch.tensor([3, 1, 3, 0, 3, 1, 8])
    same = (rows[:, None] == rows).double()
    targets = same / same.sum(dim=1, keepdim=True)
    found = loss(scores, SHARED, Batch(image_rows=rows))
    logits = scores / 0.5
    expected = N * (cross_entropy(logits, targets) + cross_entropy(logits.T, targets))
    torch.testing.assert_close(found, expected)
    slope, theirs = (torch.autograd.grad(value, scores)[0] for value in (found, expected))
    torch.testing.assert_close(slope, theirs)


def test_of_some_queries_and_candidates_too(scores):
    rows, candidates = torch.tensor([3, 1, 3, 0, 3, 1, 8]), torch.tensor([0, 2, 5, 6])
    found, expected = loss(scores, SHARED, Batch(queries=2, negatives=candidates, image_rows=rows)), 0.0
    for query in range(2):
        chosen = torch.tensor([query, *(int(c) for c in candidates if c != query)])
        same = (rows[chosen] == rows[query]).double()
        for row in (scores[query, chosen], scores[chosen, query]):
            expected = expected + cross_entropy(row / 0.5, same / same.sum())
    torch.testing.assert_close(found, expected)


def test_a_temperature_that_is_trained_itself_has_no_limit_and_the_gradient_of_xvlms_formula(scores):
    options = Options(temperature=0.005, share_same_image=True, learned="temperature")
    state = State(options, {}).double()
    assert [name for name, _ in state.named_parameters()] == ["temperature"] and state.scale() > 100
    rows = torch.tensor([3, 1, 3, 0, 3, 1, 8])
    found = loss(scores, options, Batch(image_rows=rows, state=state))
    tau = state.temperature.detach().clone().requires_grad_()
    same = (rows[:, None] == rows).double()
    targets, logits = same / same.sum(dim=1, keepdim=True), scores / tau
    means = [-(torch.log_softmax(one, dim=1) * targets).sum(dim=1).mean() for one in (logits, logits.T)]
    expected = 2 * N * (means[0] + means[1]) / 2
    torch.testing.assert_close(found, expected)
    ours, theirs = torch.autograd.grad(found, state.temperature), torch.autograd.grad(expected, tau)
    torch.testing.assert_close(ours, theirs)


def test_it_needs_the_images_and_excludes_masking(scores):
    assert needs(SHARED) == ("image_rows",) and needs(Options()) == ()
    with pytest.raises(VseppError, match=r"expected batch\.image_rows"):
        loss(scores, SHARED)
    with pytest.raises(ValueError, match="share_same_image: got true with mask_same_image"):
        Options(mask_same_image=True, share_same_image=True)
