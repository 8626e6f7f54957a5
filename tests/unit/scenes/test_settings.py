import pytest

from vsepp.errors import VseppError
from vsepp.scenes.settings import Settings


def test_all_mistakes_are_named_at_once(values):
    wrong = values | {"vague": 1.5, "sparkle": 0.1}
    del wrong["synonym"]
    with pytest.raises(VseppError) as error:
        Settings.from_mapping(wrong)
    for name in ("synonym: missing", "vague: expected a number from 0 to 1", "sparkle: unknown"):
        assert name in str(error.value)


def test_fewest_objects_above_most_objects_is_refused(values):
    with pytest.raises(VseppError, match="objects_min"):
        Settings.from_mapping(values | {"objects_min": 4, "objects_max": 2})


@pytest.mark.parametrize("value", [True, "0.5", None, float("nan"), 1.5])
def test_counts_must_be_whole_numbers(values, value):
    with pytest.raises(VseppError, match="objects_max"):
        Settings.from_mapping(values | {"objects_max": value})
