"""Rates are measured through the steps' own functions, after a warm-up, and say how often."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from vsepp.bench import rates
from vsepp.bench.rates import Decoding, Effort, Head, Ranking, Wanted
from vsepp.config import make_plan
from vsepp.spec import EncoderSpec, StoreSpec

PARAMS = Path(__file__).resolve().parents[3] / "params"
CPU = torch.device("cpu")
ONCE = Effort(seconds=0.0, least=1, most=1)


@pytest.fixture(scope="module")
def runs():
    found = make_plan(PARAMS, {}).runs
    return {
        name: replace(run.spec, schedule=replace(run.spec.schedule, batch_size=16))
        for name, run in found.items()
    }


def test_a_rate_is_the_median_after_a_warm_up():
    waits = iter([0.3, 0.04, 0.04, 0.5])
    rate, repetitions = rates._rate(lambda: time.sleep(next(waits)), 10, CPU, Effort(0.51, 3, 9))
    assert repetitions == 3
    # 10 items in 0.04 s: neither the first nor the slow one counts, and the mean would give 52 a second.
    assert 60 < rate <= 250


def test_what_takes_longer_than_the_time_is_repeated_once():
    calls = []
    _, repetitions = rates._rate(lambda: (calls.append(1), time.sleep(0.03)), 1, CPU, Effort(0.02, 3, 9))
    assert (repetitions, len(calls)) == (1, 2)


def test_a_fast_call_is_repeated_until_the_time_is_over_or_enough_was_seen():
    assert rates._rate(lambda: None, 1, CPU, Effort(10.0, 3, 7))[1] == 7
    started = time.perf_counter()
    assert rates._rate(lambda: time.sleep(0.001), 1, CPU, Effort(0.05, 3, 10_000))[1] > 3
    assert time.perf_counter() - started < 1


def test_everything_wanted_is_measured(runs):
    frozen, tuned = runs["flickr-vsepp-rc"], runs["flickr-vsepp-rc-ft"]
    wanted = Wanted(
        encoders={"net": frozen.encoder},
        finetuned={"net": tuned},
        heads={"head": Head(frozen, 128)},
        decoding={"decode": Decoding(StoreSpec("squash", 46), (56, 56))},
        ranking={"dot": Ranking(8, "dot"), "order": Ranking(8, "order")},
    )
    assert len(wanted) == 6
    found = list(rates.measure(wanted, CPU, ONCE))
    assert [name for name, _ in found] == ["net", "net", "head", "decode", "dot", "order"]
    per_second = [{key: value for key, value in values.items() if "_per_s" in key} for _, values in found]
    assert [set(entry) for entry in per_second] == [
        {"forward_images_per_s"},
        {"train_pairs_per_s"},
        {"pairs_per_s", "captions_per_s"},
        {"images_per_s_per_core"},
        {"scores_per_s"},
        {"scores_per_s"},
    ]
    assert all(value > 0 for entry in per_second for value in entry.values())
    forward, tuning = found[0][1], found[1][1]
    assert (forward["dim"], forward["parameters"]) == (128, 137_040)
    assert (forward["forward_batch"], tuning["train_batch"]) == (128, 16)
    assert {values.get("repetitions", 1) for _, values in found} == {1}


def test_a_larger_network_is_slower(runs):
    """Not only a number: four times the pixels take at least twice the time."""
    spec = runs["flickr-vsepp-rc"].encoder
    small, large = (
        rates.forward_rate(replace(spec, input_size=size, store_side=size + 4), CPU, Effort(0.0, 3, 3))
        for size in (24, 60)
    )
    assert small["forward_images_per_s"] > 2 * large["forward_images_per_s"]


def test_a_full_size_network_trains_in_the_batch_of_the_frozen_pass_on_a_cpu(runs):
    spec = runs["flickr-vsepp-rc-ft"]
    large = replace(
        spec,
        encoder=replace(spec.encoder, input_size=80, store_side=90),
        train_store=StoreSpec("squash", 90),
        crop=replace(spec.crop, size=80),
        schedule=replace(spec.schedule, batch_size=128),
    )
    assert rates.finetuning_rate(large, CPU, ONCE)["train_batch"] == 16


def test_made_up_captions_are_as_long_as_cocos():
    data = rates._training_data(2_000, 8, lambda rows, epoch: torch.zeros(len(rows), 8))
    assert 12.0 < data.tokens.lengths.mean() < 12.8
    assert data.tokens.ids.max() < data.vocabulary_size


def test_made_up_photographs_are_as_large_as_cocos():
    sizes = [len(rates._photograph(rates.PHOTOGRAPH, seed)) for seed in range(3)]
    assert 100_000 < np.mean(sizes) < 200_000


def test_dimensions_of_features_are_known_without_weights():
    spec = EncoderSpec("vgg", "torchvision/vgg19", "random", 224, 256, (0.5,) * 3, (0.5,) * 3)
    vit = replace(spec, architecture="torchvision/vit_b_16")
    assert rates.feature_dims({"vgg": spec, "vit": vit}) == {"vgg": 4096, "vit": 768}
