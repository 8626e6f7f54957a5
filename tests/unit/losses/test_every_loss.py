"""Every loss there is, held to what `objectives` says that losses promise."""

import dataclasses

import pytest
from objectives import OBJECTIVES, PROMISES, is_at_most_twice_as_slow_as_mh, random_captions, write_corpus

from vsepp import components
from vsepp.errors import VseppError
from vsepp.spec import Component

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


@pytest.mark.parametrize("objective", [*OBJECTIVES, *MASKED], ids=str)
def test_a_loss_is_at_most_twice_as_slow_as_mh(objective, folders):
    is_at_most_twice_as_slow_as_mh(dataclasses.replace(objective, folders=folders))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("max_of_hinges", {"margin": 0}, "margin: got 0; input should be greater than 0"),
        ("sum_of_hinges", {"margin": float("nan")}, "margin: got nan; input should be a finite number"),
        ("max_of_hinges", {"curriculum": 1.5}, r"curriculum: got 1.5; input should be less than or equal to 1"),
        ("sum_of_hinges", {"curriculum": 0.5}, "curriculum.*its options are margin, mask_same_image$"),
        ("top_of_hinges", {"k": 0}, "k: got 0; input should be greater than or equal to 1"),
        ("soft_max_of_hinges", {"temperature": 0}, "temperature: got 0; input should be greater than 0"),
        ("semi_hard_hinges", {"margin": -1}, "margin: got -1; input should be greater than 0"),
        ("info_nce", {"temperature": 0}, "temperature: got 0; input should be greater than or equal to 0.01"),
        ("siglip", {"temperature": float("nan")}, "temperature: got nan; input should be a finite number"),
        ("info_nce", {"tau": 1}, "tau.*its options are temperature, mask_same_image$"),
        ("relative_margins", {"vectors": "bert"}, "vectors: got 'bert'; input should be 'tfidf' or 'minilm'"),
        ("relative_margins", {"scale": 0}, "scale: got 0; input should be greater than 0"),
        ("relative_margins", {"margin": 0.2}, "margin.*its options are vectors, scale, hardest, mask_same_image$"),
        ("goal", {"tau": 0.0}, "tau: got 0.0; input should be greater than 0"),
        ("goal", {"tau": float("nan")}, "tau: got nan; input should be a finite number"),
        ("goal", {"margin": -0.2}, "margin: got -0.2; input should be greater than 0"),
        ("goal", {"epsilon": -1.0}, "epsilon: got -1.0; input should be greater than or equal to 0"),
        ("goal", {"triplet": "ncs"}, "triplet: got 'ncs'; input should be 'constant', 'nca' or 'circle'"),
        ("goal", {"pair": "ms"}, "pair: got 'ms'; input should be 'constant', 'linear', 'sigmoid', 'linear_ms' or 'sigmoid_ms'"),
        ("nt_xent", {"tau": -1.0}, "tau: got -1.0; input should be greater than 0"),
        ("circle", {"tau": float("inf")}, "tau: got inf; input should be a finite number"),
        ("binomial_deviance", {"beta": 0.0}, "beta: got 0.0; input should be greater than 0"),
        ("multi_similarity", {"epsilon": -0.1}, "epsilon: got -0.1; input should be greater than or equal to 0"),
        ("gaol", {}, "no loss is named 'gaol'; there are binomial_deviance, circle, goal, "),
    ],
)  # fmt: skip
def test_wrong_names_and_options_are_refused(name, options, said):
    with pytest.raises(VseppError, match=said):
        components.options("loss", Component(name, options))
