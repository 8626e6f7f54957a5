"""Records of measured rates, and the sizes of networks."""

from pathlib import Path

import pytest
import torch

from vsepp.config import make_plan
from vsepp.costs.rates import NETWORKS, Network, Rates, networks, parse_rates
from vsepp.errors import VseppError
from vsepp.models.encoders import build_encoder

PARAMS = Path(__file__).resolve().parents[3] / "params"


@pytest.mark.parametrize("preset", ["mini", "flickr8k", "paper"])
def test_sizes_of_the_encoders_are_those_of_the_networks(preset):
    for spec in make_plan(PARAMS, {"preset": preset}).encoders.values():
        with torch.device("meta"):
            encoder = build_encoder(spec)
        numbers = sum(value.numel() for value in encoder.network.state_dict().values())
        assert NETWORKS[spec.architecture] == Network(encoder.dim, numbers)


def test_sizes_of_other_networks_come_from_their_measurement():
    entry = {"torchvision/resnet50@224": {"dim": 2048, "parameters": 23_561_205}}
    measured = Rates("a GPU", "a machine", "2026-01-01", 4, entry)
    assert networks([measured])["torchvision/resnet50"] == Network(2048, 23_561_205)
    assert "torchvision/resnet50" not in networks([])


RECORD = {
    "device": "cpu",
    "machine": "m",
    "date": "2026-01-01",
    "cores": 2,
    "rates": {"a": {"pairs_per_s": 1.5}},
}


def test_records_are_read():
    (record,) = parse_rates([RECORD | {"commit": "abc"}], "rates.json")
    assert record == Rates("cpu", "m", "2026-01-01", 2, {"a": {"pairs_per_s": 1.5}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"device": "cpu"}, "rates.json: expected a list of records, got dict"),
        ([RECORD, {**RECORD, "cores": "two"}], "record 1: cores: expected int, got 'two'"),
        (
            [{key: RECORD[key] for key in ("device", "machine", "date", "cores")}],
            "record 0: rates: expected dict",
        ),
        (
            [{**RECORD, "rates": {"a": {"pairs_per_s": 0}}}],
            "rates.a.pairs_per_s: expected a number above 0, got 0",
        ),
        ([{**RECORD, "rates": {"a": {"pairs_per_s": float("nan")}}}], "expected a number above 0, got nan"),
        ([{**RECORD, "rates": {"a": 3}}], "rates.a: expected rates by name, got 3"),
        (["cpu"], "record 0: device: expected str, got None"),
    ],
)
def test_records_that_are_none_are_refused(content, message):
    with pytest.raises(VseppError, match="measure") as error:
        parse_rates(content, "rates.json")
    assert message in str(error.value)
