import pytest

from vsepp.training.history import is_collapsed


@pytest.mark.parametrize(
    ("loss", "spread", "rsum", "expected"),
    [
        (0.4, 0.0, 0.0, True),  # all tied: half of the ties count, so no query finds its item early
        (0.4039, 0.04, 1.0, True),
        (0.3961, 0.04, 1.9, True),
        (0.41, 0.0, 1.0, False),
        (0.38, 0.0, 1.0, False),
        (0.4, 0.06, 1.0, False),  # passes through that loss on its way
        (0.4, 0.04, 2.1, False),  # learns to rank there
    ],
)
def test_a_collapse_has_equal_scores_and_their_loss_and_ranks_like_chance(loss, spread, rsum, expected):
    assert is_collapsed(loss, 0.4, spread, rsum) is expected


def test_a_loss_without_negatives_is_no_collapse():
    assert not is_collapsed(0.0, 0.0, 0.0, 0.0)
