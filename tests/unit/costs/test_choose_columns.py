"""Which of the measured devices are shown."""

import pytest

from vsepp.costs.devices import choose_columns
from vsepp.costs.rates import Rates
from vsepp.errors import VseppError

MACHINE = "some processor, 4 cores"


RECORDS = [
    Rates("cpu", MACHINE, "2026-01-01", 4),
    Rates("cpu", "another, 2 cores", "2026-01-02", 2),
    Rates("NVIDIA A100", "a server, 64 cores", "2026-01-03", 64),
    Rates("NVIDIA H200", "a server, 64 cores", "2026-01-04", 64),
]


def titles(wanted=None, gpu=None, machine=MACHINE, records=RECORDS):
    columns = choose_columns(records, wanted, gpu, machine, 2)
    return [(c.title, c.rates.device if c.rates else None, c.devices) for c in columns]


def test_the_device_that_would_be_used_is_shown():
    assert titles(gpu="NVIDIA A100") == [("GPU", "NVIDIA A100", 2), ("this CPU", "cpu", 1)]
    assert titles() == [("GPU", "NVIDIA H200", 2), ("this CPU", "cpu", 1)]
    # Another GPU's hours are not this one's.
    assert titles(gpu="NVIDIA T4") == [("GPU", None, 2), ("this CPU", "cpu", 1)]
    assert titles(machine="a laptop")[1] == ("a CPU", "cpu", 1)
    assert titles(records=[]) == [("GPU", None, 2)]
    assert titles("a100") == [("GPU", "NVIDIA A100", 2)]
    assert titles("another") == [("a CPU", "cpu", 1)]
    with pytest.raises(VseppError, match="'T4' was not measured; recorded are: cpu"):
        titles("T4")
