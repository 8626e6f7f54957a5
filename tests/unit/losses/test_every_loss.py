"""Every loss there is, held to what `objectives` says that losses promise."""

import dataclasses

import pytest
from objectives import OBJECTIVES, PROMISES, is_at_most_twice_as_slow_as_mh, random_captions, write_corpus

from vsepp import components

MASKED = [
    dataclasses.replace(objective, options={"mask_same_image": True})
    for objective in OBJECTIVES
    if hasattr(components.describe("loss", objective.name).options, "mask_same_image")
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """What losses may read."""
    return write_corpus(tmp_path_factory.mktemp("corpus"), random_captions())


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("objective", [*OBJECTIVES, *MASKED], ids=str)
def test_a_loss_keeps_its_promises(objective, promise, folders):
    promise(dataclasses.replace(objective, folders=folders))


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_a_loss_is_at_most_twice_as_slow_as_mh(objective, folders):
    is_at_most_twice_as_slow_as_mh(dataclasses.replace(objective, folders=folders))
