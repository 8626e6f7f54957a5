"""How difficult the scenes of these tests are."""

import pytest

from vsepp.base.spec import Difficulty

VALUES = {
    "objects_min": 1,
    "objects_max": 3,
    "near_duplicate": 0.4,
    "overlap": 0.25,
    "shortest_side": 0.75,
    "colour_jitter": 0.03,
    "noise": 0.01,
    "jpeg_quality": 92,
    "omit_object": 0.2,
    "omit_attribute": 0.25,
    "omit_background": 0.35,
    "vague": 0.05,
    "synonym": 0.35,
    "relation": 0.5,
    "extra_captions": 0.3,
}


@pytest.fixture(scope="session")
def settings():
    return Difficulty(**VALUES)
