import pytest

from vsepp.errors import VseppError
from vsepp.scenes.difficulty import Difficulty


def test_all_mistakes_are_named_at_once(values):
    wrong = values | {"vague": 1.5, "sparkle": 0.1}
    del wrong["synonym"]
    with pytest.raises(VseppError) as error:
        Difficulty.from_mapping(wrong)
    number = "expected a number from 0 to 1 (probability), got"
    for said in (f"synonym: {number} 'nothing'", f"vague: {number} 1.5", "sparkle: unknown"):
        assert said in str(error.value)


@pytest.mark.parametrize(
    "wrong", [{"objects_max": value} for value in (True, "0.5", float("nan"), 1.5)] + [{"objects_min": 4}]
)
def test_counts_are_whole_numbers_and_the_fewest_objects_not_above_the_most(values, wrong):
    with pytest.raises(VseppError, match=next(iter(wrong))):
        Difficulty.from_mapping(values | wrong)
