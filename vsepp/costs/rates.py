"""Measured rates: what a device was measured to do, and the sizes of networks that it met."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Network(NamedTuple):
    """An image encoder cut at its penultimate layer."""

    dim: int
    """D_φ."""
    parameters: int
    """Numbers in its weights, the statistics of batch normalisation included."""


NETWORKS = {
    "mini/vgg_mini": Network(128, 137_040),
    "mini/resnet_mini": Network(128, 309_756),
    "lite/efficientnet_lite0": Network(1280, 3_413_073),
    "lite/efficientnet_lite2": Network(1280, 4_869_232),
    "torchvision/resnet152": Network(2048, 58_295_387),
    "torchvision/vgg19": Network(4096, 139_570_240),
    "torchvision/vit_b_16": Network(768, 85_798_656),
}
"""Sizes of the architectures that the presets name; those of others are known once they were measured."""


@dataclass(frozen=True)
class Rates:
    """What a device was measured to do; from records of `benchmarks/results`."""

    device: str
    """`cpu`, or the GPU's name."""
    machine: str
    date: str
    cores: int
    rates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def per_second(self, entry: str, rate: str) -> float | None:
        """Items a second, on all cores where the rate is of one."""
        value = self.rates.get(entry, {}).get(rate)
        return value * self.cores if value and rate.endswith("_per_core") else value


def rates_of(records: Iterable[Mapping[str, Any]]) -> list[Rates]:
    """Measured rates by machine and device, from records of `vsepp bench` and `vsepp plan --calibrate`.

    Parameters
    ----------
    records
        Oldest first, as `vsepp.bench.records.read_results` gives them: of what was measured again the newest counts.
    """
    found: dict[tuple[str, str], Rates] = {}
    for record in records:
        place = record["device"], record["machine"]
        rates = {name: dict(entry) for name, entry in found[place].rates.items()} if place in found else {}
        for result in record["results"]:
            if "measures" in result:
                entry = rates.setdefault(result["measures"]["entry"], {})
                entry[result["measures"]["rate"]] = result["per_second"]["median"]
                facts = result.get("facts", {})
                entry.update({key: facts[key] for key in ("dim", "weights") if key in facts})
        found[place] = Rates(*place, record["date"][:10], record["cores"], rates)
    return list(found.values())


def networks(records: Iterable[Rates]) -> dict[str, Network]:
    """Sizes of architectures: the known ones, and those that a measurement met."""
    found = dict(NETWORKS)
    for record in records:
        for entry, rates in record.rates.items():
            if {"dim", "weights"} <= rates.keys():
                found[entry.partition("@")[0]] = Network(rates["dim"], rates["weights"])
    return found
