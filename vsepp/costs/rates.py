"""Records of measured rates: what a device was measured to do, and the sizes of networks that it met."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from vsepp.errors import VseppError


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
    """What a device was measured to do; one record of `benchmarks/rates.json`."""

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


def parse_rates(content: Any, where: str) -> list[Rates]:
    """Records of measured rates.

    Parameters
    ----------
    content
        What `benchmarks/rates.json` holds: a list of `{device, machine, date, cores, rates, …}`.
    where
        The file, for messages.

    Raises
    ------
    VseppError
        On anything else, naming the record and the key.
    """
    if not isinstance(content, list):
        raise VseppError(
            f"{where}: expected a list of records, got {type(content).__name__}; measure it again"
        )
    found = []
    for number, record in enumerate(content):
        values = record if isinstance(record, dict) else {}
        kinds = {"device": str, "machine": str, "date": str, "cores": int, "rates": dict}
        for key, kind in kinds.items():
            if not isinstance(values.get(key), kind):
                raise VseppError(
                    f"{where}: record {number}: {key}: expected {kind.__name__}, got {values.get(key)!r}; "
                    "delete the record and measure again with `vsepp plan --calibrate --save`"
                )
        for entry, rates in values["rates"].items():
            if not isinstance(rates, dict):
                raise VseppError(
                    f"{where}: record {number}: rates.{entry}: expected rates by name, got {rates!r}; "
                    "delete it and measure again"
                )
            wrong = [
                key for key, value in rates.items() if "_per_s" in key and not (_number(value) and value > 0)
            ]
            if wrong:
                raise VseppError(
                    f"{where}: record {number}: rates.{entry}.{wrong[0]}: expected a number above 0, "
                    f"got {rates[wrong[0]]!r}; delete it and measure again"
                )
        found.append(Rates(**{key: values[key] for key in kinds}))
    return found


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def networks(records: Iterable[Rates]) -> dict[str, Network]:
    """Sizes of architectures: the known ones, and those that a measurement met."""
    found = dict(NETWORKS)
    for record in records:
        for entry, rates in record.rates.items():
            if {"dim", "parameters"} <= rates.keys():
                found[entry.rpartition("@")[0]] = Network(rates["dim"], rates["parameters"])
    return found


def merged(records: Sequence[Mapping[str, Any]], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Records with a new one: what it did not measure is kept of the device's earlier one, with its date."""
    same = ("device", "machine")
    earlier = [record for record in records if all(record.get(key) == new[key] for key in same)]
    rates = {name: entry for record in earlier for name, entry in record["rates"].items()}
    for name, entry in new["rates"].items():
        rates[name] = {**rates.get(name, {}), **entry}
    kept = [dict(record) for record in records if record not in earlier]
    return [*kept, {**new, "rates": dict(sorted(rates.items()))}]


def measured_lines(record: Mapping[str, Any], path: Path | None) -> list[str]:
    """What was measured, as text; `path` is the file that it was written to, if any."""
    lines = [
        f"Measured on {record['device']}, {record['machine']}, threads {record['threads']}; load averages tell of other work"
    ]
    for name, entry in record["rates"].items():
        for key, rate in entry.items():
            if "_per_s" in key:
                part = key.split("_")[0] + "_" if key.startswith(("forward_", "train_")) else ""
                batch = entry.get(f"{part}batch")
                count = entry[f"{part}repetitions"]
                said = f"{count} repetition{'s' if count > 1 else ''}" + (f", batch {batch}" if batch else "")
                said += f", load {entry['load_average']}"
                lines.append(f"  {name:32} {key:24} {rate:>14,.5g}  ({said})")
    lines.append(f"Written to {path}" if path else "Not written to a file: --save does that")
    return [*lines, ""]
