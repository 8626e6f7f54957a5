"""InfoNCE with a target that a query's own pair shares with others of its image (ITC)."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from vsepp.base.errors import VseppError
from vsepp.losses.batch import Batch
from vsepp.losses.info_nce import Options, State, loss, needs

SHARED = Options(temperature=0.5, share_same_image=True)
N = 7
ROWS = [3, 1, 3, 0, 3, 1, 8]
"""Of each pair, its image."""


@pytest.fixture
def scores():
    return torch.randn(N, N, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()


@pytest.mark.parametrize("rows", [range(N), ROWS], ids=["distinct images", "equal images"])
def test_equal_images_share_the_target_in_equal_parts(scores, rows):
    rows = torch.tensor(rows)
    same = (rows[:, None] == rows).double()
    targets, logits = same / same.sum(dim=1, keepdim=True), scores / 0.5
    value = loss(scores, SHARED, Batch(image_rows=rows))
    expected = N * (cross_entropy(logits, targets) + cross_entropy(logits.T, targets))
    torch.testing.assert_close(value, expected)
    ours, theirs = torch.autograd.grad(value, scores), torch.autograd.grad(expected, scores)
    torch.testing.assert_close(ours, theirs)


def test_of_some_queries_and_candidates_too(scores):
    rows, candidates = torch.tensor(ROWS), torch.tensor([0, 2, 5, 6])
    value, expected = loss(scores, SHARED, Batch(queries=2, negatives=candidates, image_rows=rows)), 0.0
    for query in range(2):
        chosen = torch.tensor([query, *(int(c) for c in candidates if c != query)])
        same = (rows[chosen] == rows[query]).double()
        for row in (scores[query, chosen], scores[chosen, query]):
            expected = expected + cross_entropy(row / 0.5, same / same.sum())
    torch.testing.assert_close(value, expected)


def test_a_temperature_that_is_trained_itself_has_no_limit():
    state = State(Options(temperature=0.005, learned="temperature"), {})
    assert [name for name, _ in state.named_parameters()] == ["temperature"]
    assert state.scale().item() == pytest.approx(200)


def test_it_needs_the_images_and_excludes_masking(scores):
    assert needs(SHARED) == ("image_rows",) and needs(Options()) == ()
    with pytest.raises(VseppError, match=r"batch\.image_rows"):
        loss(scores, SHARED)
    with pytest.raises(ValueError, match=r"share_same_image: .*mask_same_image"):
        Options(mask_same_image=True, share_same_image=True)
