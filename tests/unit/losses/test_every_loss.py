"""Every loss there is, held to what `objectives` says that losses promise."""

import dataclasses

import pytest
from objectives import PROMISES, Objective, is_at_most_twice_as_slow_as_mh

from vsepp import components

OBJECTIVES = [Objective(name) for name in components.known("loss")]
MASKED = [
    dataclasses.replace(objective, options={"mask_same_image": True})
    for objective in OBJECTIVES
    if hasattr(components.describe("loss", objective.name).options, "mask_same_image")
]


def said(value):
    return getattr(value, "__name__", None) or " ".join([value.name, *value.options])


@pytest.mark.parametrize("promise", PROMISES, ids=said)
@pytest.mark.parametrize("objective", [*OBJECTIVES, *MASKED], ids=said)
def test_a_loss_keeps_its_promises(objective, promise):
    promise(objective)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=said)
def test_a_loss_is_at_most_twice_as_slow_as_mh(objective):
    is_at_most_twice_as_slow_as_mh(objective)
