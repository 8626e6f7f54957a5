"""Measure what the package can do on this machine, and show what was measured."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vsepp.bench.catalogue import Measurement, chosen, groups
from vsepp.bench.report import digits, read_results, render
from vsepp.bench.rounds import FULL, QUICK, measure_group
from vsepp.cli.common import add_machine, add_step, use_machine
from vsepp.cli.plan import machine_name
from vsepp.errors import VseppError
from vsepp.provenance.manifest import git_state, versions, write_text
from vsepp.spec import from_json

log = logging.getLogger("vsepp")
RESULTS = Path("benchmarks") / "results"
CHILD = (sys.executable, "-c", "import sys; from vsepp.cli.bench import child; child(*sys.argv[1:])")
"""Starts the process of a measurement, before device, threads, seconds of a turn, and JSON."""


def add_steps(steps: Any) -> None:
    """Add `bench`."""
    parser = add_step(
        steps, "bench", bench, "measure encoders, training steps, a reference step, evaluation and memory"
    )
    parser.add_argument(
        "--quick", action="store_true", help="without networks of full size: some minutes on two cores"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="names or patterns, such as 'step-*'"
    )
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"folder of the results ({RESULTS})")
    parser.add_argument(
        "--report",
        nargs="?",
        type=Path,
        const=RESULTS,
        metavar="FOLDER",
        help="measure nothing; print all results of a folder as Markdown",
    )
    add_machine(parser)


def bench(given: argparse.Namespace) -> None:
    """Measure, or print what was measured."""
    if given.report:
        print(render(read_results(given.report)))
    else:
        _measure(given)


def _measure(given: argparse.Namespace) -> None:
    """Measure one group after the other; what a failing one costs is only its own results."""
    facts: dict[str, Any] = {}
    device = use_machine(given, facts)
    rounds = QUICK if given.quick else FULL
    child = [*CHILD, str(device), str(facts["threads"]), str(rounds.turn_seconds)]
    record = {**_machine(facts), "quick": given.quick, "load_before": os.getloadavg()[0], "results": []}
    path = given.output / _file_name(record)
    problems = []
    for group in chosen(groups(given.quick, device.type), given.only):
        try:
            found = measure_group(group, child, rounds)
        except VseppError as error:
            log.warning("%s", error)
            problems.append(str(error))
            continue
        for entry in found:
            log.info("%-28s %12s %s/s", entry["name"], digits(entry["per_second"]["median"]), entry["unit"])
        record["results"] += found
        # After each group, so that an interrupted measurement keeps what it has.
        record["load_after"] = os.getloadavg()[0]
        write_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    if record["results"]:
        print(render([record]))
        print(f"\nWritten to {path}")
    if problems:
        raise VseppError(f"{len(problems)} of the groups were not measured: " + "; ".join(problems))


def _machine(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "device": facts["device"],
        "machine": machine_name(),
        "cores": os.cpu_count(),
        "threads": facts["threads"],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["vsepp", *sys.argv[1:]]),
        "versions": dict(versions()),
        "git": dict(git_state()),
    }


def _file_name(record: dict[str, Any]) -> str:
    """Date and device: `2026-01-31T120000-cpu.json`."""
    device = re.sub(r"[^a-z0-9]+", "-", record["device"].lower()).strip("-")
    return f"{record['date'][:19].replace(':', '')}-{device}.json"


def child(device: str, threads: str, turn_seconds: str, measurement: str) -> None:
    """Be the process of one measurement. The device is the parent's: nothing is claimed a second time."""
    import torch

    from vsepp.bench.child import serve
    from vsepp.cli.common import _keep_freed_memory

    wanted = from_json(Measurement, measurement)
    if wanted.kind not in ("reference", "argsort"):
        # A setting of this package's own steps; the reference runs as any other program would.
        _keep_freed_memory()
    torch.set_num_threads(int(threads))
    serve(wanted, torch.device(device), float(turn_seconds), sys.stdin, sys.stdout)
