"""Every loss there is, held to what `objectives` says that losses promise."""

import dataclasses

import pytest
from loss_checks import OBJECTIVES, PROMISES, random_captions, write_corpus

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component

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


@pytest.mark.parametrize("name", sorted({objective.name for objective in OBJECTIVES}))
def test_a_loss_that_says_that_it_trains_a_temperature_gives_its_scale(name):
    state = getattr(components.load("loss", name), "State", None)
    declared = components.describe("loss", name).constants.get("TRAINS_TEMPERATURE", False)
    assert declared == hasattr(state, "scale")


@pytest.mark.parametrize(
    ("name", "options", "key"),
    [
        ("max_of_hinges", {"margin": 0}, "margin .*got 0"),
        ("max_of_hinges", {"curriculum": 1.5}, "curriculum .*got 1.5"),
        ("sum_of_hinges", {"curriculum": 0.5}, "curriculum .*margin, mask_same_image$"),
        ("info_nce", {"temperature": 0}, "temperature .*got 0"),
        ("relative_margins", {"vectors": "bert"}, "vectors .*got 'bert'"),
        ("goal", {"epsilon": -1.0}, "epsilon .*got -1.0"),
        ("goal", {"pair": "ms"}, "pair .*got 'ms'"),
        ("gaol", {}, "'gaol'.* goal"),
    ],
)
def test_wrong_names_and_options_are_refused(name, options, key):
    with pytest.raises(VseppError, match=key):
        components.options("loss", Component(name, options))
