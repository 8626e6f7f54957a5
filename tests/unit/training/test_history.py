import pytest

from vsepp.evaluation.ranks import chance_rsum
from vsepp.training.loop import is_collapsed


@pytest.mark.parametrize(
    ("n_images", "limit"), [(1000, 2 * chance_rsum(1000, 5000)), (50, chance_rsum(50, 250) + 16)]
)
def test_a_model_has_collapsed_below_twice_chance_and_on_a_small_split_below_chance_and_16(n_images, limit):
    assert is_collapsed(0.0, n_images, 5 * n_images)  # all tied: half of the ties count
    assert is_collapsed(0.99 * limit, n_images, 5 * n_images)
    assert not is_collapsed(1.01 * limit, n_images, 5 * n_images)
