"""SH, MH and losses that people compare VSE++ with, each against a double loop over queries and negatives."""

import math

import pytest
import torch
from hypothesis import given, settings
from loss_checks import batch_of, cases, scores_of

from vsepp.base import components
from vsepp.base.spec import Component
from vsepp.losses import info_nce, siglip
from vsepp.losses.batch import Batch

MARGIN = 0.3


def violations(positive, negatives):
    return [max(0.0, MARGIN - positive + negative) for negative in negatives]


def sh(positive, negatives):  # Eq. 5
    return sum(violations(positive, negatives))


def mh(positive, negatives):  # Eq. 6
    return max([0.0, *violations(positive, negatives)])


def top(positive, negatives):
    return sum(sorted(violations(positive, negatives))[-2:])


def soft_max(positive, negatives, tau=0.2):
    return tau * math.log(1 + sum(math.exp(cost / tau) - 1 for cost in violations(positive, negatives)))


def semi_hard(positive, negatives):
    return max([0.0, *violations(positive, [negative for negative in negatives if negative <= positive])])


def nce(positive, negatives, tau=0.2):
    total = sum(math.exp(score / tau) for score in [positive, *negatives])
    return -math.log(math.exp(positive / tau) / total)


def sigmoids(positive, negatives, tau=0.2, bias=-1.5):
    def cost(sign, similarity):
        return math.log(1 + math.exp(-sign * (similarity / tau + bias)))

    return cost(1, positive) / 2 + sum(cost(-1, negative) for negative in negatives) / 2


def multi_similarity(positive, negatives, alpha=2.0, beta=5.0, threshold=0.4, epsilon=0.3):
    near = [negative for negative in negatives if negative > positive - epsilon]
    if not near:
        return 0.0
    pull = math.log(1 + math.exp(-alpha * (positive - threshold))) / alpha
    return pull + math.log(1 + sum(math.exp(beta * (negative - threshold)) for negative in near)) / beta


NAIVE = {
    "sum_of_hinges": (sh, {"margin": MARGIN}),
    "max_of_hinges": (mh, {"margin": MARGIN}),
    "top_of_hinges": (top, {"margin": MARGIN, "k": 2}),
    "soft_max_of_hinges": (soft_max, {"margin": MARGIN, "temperature": 0.2}),
    "semi_hard_hinges": (semi_hard, {"margin": MARGIN}),
    "info_nce": (nce, {"temperature": 0.2}),
    "multi_similarity": (multi_similarity, {"beta": 5.0, "threshold": 0.4, "epsilon": 0.3}),
    "siglip": (sigmoids, {"temperature": 0.2, "bias": -1.5}),
}


@pytest.mark.parametrize("name", NAIVE)
@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_a_loss_is_its_equation_written_as_loops(name, case):
    pairs, queries, negatives, image_of, seed = case
    scores = scores_of(pairs, seed)
    naive, options = NAIVE[name]
    if "mask_same_image" in vars(components.load("loss", name).Options()):
        options = {**options, "mask_same_image": image_of is not None}
    else:
        image_of = None
    expected, s = 0.0, scores.tolist()
    for q in range(queries or pairs):
        candidates = [
            candidate
            for candidate in (range(pairs) if negatives is None else negatives)
            if (candidate != q if image_of is None else image_of[candidate] != image_of[q])
        ]
        expected += naive(s[q][q], [s[q][candidate] for candidate in candidates])
        expected += naive(s[q][q], [s[candidate][q] for candidate in candidates])
    options = components.options("loss", Component(name, options))
    value = components.load("loss", name).loss(scores, options, batch_of(queries, negatives, image_of))
    assert value.item() == pytest.approx(expected, abs=1e-9)


def test_a_learned_temperature_begins_at_the_option_and_stops_at_clips_limit():
    options = info_nce.Options(temperature=0.05)
    state = info_nce.State(options, {})
    scores = scores_of(dtype=torch.float32)
    learned = info_nce.loss(scores, options, Batch(state=state))
    torch.testing.assert_close(learned, info_nce.loss(scores, options))
    learned.backward()
    assert state.log_scale.grad.abs() > 0.01
    with torch.no_grad():
        state.log_scale.fill_(9.0)
    at_the_limit = info_nce.loss(scores, options, Batch(state=state))
    torch.testing.assert_close(at_the_limit, info_nce.loss(scores, info_nce.Options(temperature=0.01)))
    at_the_limit.backward()
    assert state.log_scale.item() == pytest.approx(math.log(100))


def test_a_learned_temperature_and_bias_of_sigmoids_begin_at_the_options():
    options = siglip.Options()
    state = siglip.State(options, {})
    scores = scores_of(dtype=torch.float32)
    learned = siglip.loss(scores, options, Batch(state=state))
    torch.testing.assert_close(learned, siglip.loss(scores, options))
    learned.backward()
    assert state.log_scale.grad.abs() > 0.01 and state.bias.grad.abs() > 0.01
    signs = 2 * torch.eye(6) - 1
    as_printed = -torch.nn.functional.logsigmoid(signs * (10 * scores - 10)).sum()
    torch.testing.assert_close(learned, as_printed)
