"""Records of measured rates, and the sizes of networks."""

from pathlib import Path

import pytest
import torch

from vsepp.config import make_plan
from vsepp.costs.rates import NETWORKS, Network, Rates, networks, rates_of
from vsepp.models.encoder import build_encoder

PARAMS = Path(__file__).resolve().parents[3] / "params"


@pytest.mark.parametrize("preset", ["mini", "flickr8k", "paper"])
def test_sizes_of_the_encoders_are_those_of_the_networks(preset):
    for spec in make_plan(PARAMS, {"preset": preset}).encoders.values():
        with torch.device("meta"):
            encoder = build_encoder(spec)
        numbers = sum(value.numel() for value in encoder.network.state_dict().values())
        assert NETWORKS[spec.architecture] == Network(encoder.dim, numbers)


def test_sizes_of_other_networks_come_from_their_measurement():
    entry = {"torchvision/resnet50@224/bf16": {"dim": 2048, "weights": 23_561_205}}
    measured = Rates("a GPU", "a machine", "2026-01-01", 4, entry)
    assert networks([measured])["torchvision/resnet50"] == Network(2048, 23_561_205)
    assert "torchvision/resnet50" not in networks([])


def record(date, *results, device="cpu"):
    return {
        "device": device,
        "machine": "m",
        "date": date,
        "cores": 2,
        "command": "c",
        "results": list(results),
    }


def result(entry, rate, value, **facts):
    return {"per_second": {"median": value}, "measures": {"entry": entry, "rate": rate}, "facts": facts}


def test_of_what_was_measured_again_the_newest_counts():
    first = record(
        "2026-01-01T00:00:00",
        result("a", "pairs_per_s", 1.5),
        result("n@8", "forward_images_per_s", 7.0, dim=3, weights=9),
        {"per_second": {"median": 5.0}},
    )
    second = record(
        "2026-02-03T00:00:00", result("a", "pairs_per_s", 2.0), result("a", "captions_per_s", 4.0)
    )
    other = record("2026-03-01T00:00:00", result("a", "pairs_per_s", 9.0), device="a GPU")
    cpu, gpu = rates_of([first, second, other])
    network = {"forward_images_per_s": 7.0, "dim": 3, "weights": 9}
    assert cpu == Rates(
        "cpu", "m", "2026-02-03", 2, {"a": {"pairs_per_s": 2.0, "captions_per_s": 4.0}, "n@8": network}
    )
    assert gpu == Rates("a GPU", "m", "2026-03-01", 2, {"a": {"pairs_per_s": 9.0}})
    assert networks([cpu])["n"] == Network(3, 9)


def test_a_rate_of_one_core_is_taken_times_the_cores():
    (rates,) = rates_of([record("2026-01-01", result("decode@8", "images_per_s_per_core", 3.0))])
    assert rates.per_second("decode@8", "images_per_s_per_core") == 6.0
    assert rates.per_second("decode@9", "images_per_s_per_core") is None
