"""Measure groups of measurements on the device that was asked for, and record them."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.bench.measurement import Group, Measurement
from vsepp.bench.report import digits
from vsepp.bench.rounds import Rounds, measure_group
from vsepp.cli.common import _keep_freed_memory, use_machine
from vsepp.errors import VseppError
from vsepp.provenance.manifest import git_state, processor, versions, write_text

if TYPE_CHECKING:
    import torch

log = logging.getLogger("vsepp")


def machine_name() -> str:
    """Processor and cores of this machine."""
    return f"{processor()}, {os.cpu_count()} cores"


@dataclass(frozen=True)
class Measuring:
    """A device, and the record of what is measured on it."""

    device: torch.device
    record: dict[str, Any]

    @classmethod
    def start(cls, given: argparse.Namespace, **more: Any) -> Measuring:
        """Take the device that the options ask for; `more` goes into the record."""
        facts: dict[str, Any] = {}
        device = use_machine(given, facts)
        record = {
            "device": facts["device"],
            "machine": machine_name(),
            "cores": os.cpu_count(),
            "threads": facts["threads"],
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": shlex.join(["vsepp", *sys.argv[1:]]),
            "versions": dict(versions()),
            "git": dict(git_state()),
            "load_before": os.getloadavg()[0],
            **more,
            "results": [],
        }
        return cls(device, record)

    @property
    def file_name(self) -> str:
        """Date and device: `2026-01-31T120000-cpu.json`."""
        device = re.sub(r"[^a-z0-9]+", "-", self.record["device"].lower()).strip("-")
        return f"{self.record['date'][:19].replace(':', '')}-{device}.json"

    def measure(self, groups: Iterable[Group], rounds: Rounds, path: Path | None) -> list[str]:
        """Measure one group after the other into the record, and write it to `path` after each.

        Returns
        -------
        list
            What went wrong; a group that fails costs only its own results.
        """
        problems = []
        serve = partial(child, str(self.device), self.record["threads"], rounds.turn_seconds)
        for group in groups:
            try:
                found = measure_group(group, serve, rounds)
            except VseppError as error:
                log.warning("%s", error)
                problems.append(str(error))
                continue
            for entry in found:
                rate = digits(entry["per_second"]["median"])
                log.info("%-28s %12s %s/s", entry["name"], rate, entry["unit"])
            self.record["results"] += found
            self.record["load_after"] = os.getloadavg()[0]
            if path:
                write_text(path, json.dumps(self.record, indent=1, ensure_ascii=False) + "\n")
        return problems


def child(
    device: str, threads: int, turn_seconds: float, measurement: Measurement, asked: Connection
) -> None:
    """Be the process of one measurement. The device is the parent's: nothing is claimed a second time."""
    import torch

    from vsepp.bench.child import serve

    if measurement.kind not in ("reference", "argsort"):
        # A setting of this package's own steps; the reference runs as any other program would.
        _keep_freed_memory()
    torch.set_num_threads(threads)
    try:
        serve(measurement, torch.device(device), turn_seconds, asked)
    except EOFError:  # the parent gave up
        return
    except Exception as error:  # told by the parent, which goes on with other groups
        asked.send({"error": f"{type(error).__name__}: {error}"})
