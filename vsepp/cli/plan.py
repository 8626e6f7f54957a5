"""What a preset costs, before anything is spent: files, disk, hours."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.bench.records import read_results
from vsepp.bench.report import digits
from vsepp.bench.rounds import Rounds
from vsepp.cli.common import add_step, gpu_count
from vsepp.cli.fetch import LOCK
from vsepp.cli.measuring import Measuring, machine_name
from vsepp.cli.parameters import add_plan_options, plan_of
from vsepp.errors import VseppError

if TYPE_CHECKING:
    from vsepp.config.plan import Plan

RESULTS = Path("benchmarks") / "results"


def add_steps(steps: Any) -> None:
    """Add `plan`."""
    parser = add_step(
        steps, "plan", plan, "say what a preset costs, in files, disk and hours, before anything is spent"
    )
    add_plan_options(parser)
    parser.add_argument(
        "--rates", type=Path, metavar="FOLDER", help=f"measured rates; {RESULTS} beside the parameters"
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="part of the name of the recorded device whose hours to show; with --calibrate auto, cpu or cuda",
    )
    parser.add_argument(
        "--gpus", type=int, metavar="N", help="GPUs to spread the jobs over; all that are here"
    )
    parser.add_argument("--calibrate", action="store_true", help="measure the rates of this machine first")
    parser.add_argument("--seconds", type=float, default=4.0, help="with --calibrate: time for each rate")
    parser.add_argument(
        "--save", action="store_true", help="with --calibrate: write them beside the other results"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, nothing rounded")


def plan(given: argparse.Namespace) -> None:
    """Print what a plan costs."""
    from vsepp.costs.describe import describe
    from vsepp.costs.devices import choose_columns
    from vsepp.costs.rates import networks, rates_of
    from vsepp.costs.render import render
    from vsepp.sources.sums import read_lock

    if given.save and not given.calibrate:
        raise VseppError("--save: there is nothing to save; expected --calibrate beside it")
    if given.gpus is not None and given.gpus < 1:
        raise VseppError(f"--gpus: got {given.gpus}; expected at least 1")
    chosen = plan_of(given)
    folder, measured = _records(given)
    if given.calibrate:
        measured.append(_calibrated(chosen, given, folder if given.save else None))
    records = rates_of(measured)
    wanted = None if given.calibrate else given.device
    columns = choose_columns(records, wanted, _gpu_name(), machine_name(), given.gpus or max(gpu_count(), 1))
    report = describe(
        chosen, networks(records), columns, read_lock(given.params / LOCK), shutil.disk_usage(".").free
    )
    print(json.dumps(report, indent=1, ensure_ascii=False) if given.json else render(report))


def _records(given: argparse.Namespace) -> tuple[Path, list[dict[str, Any]]]:
    """Folder of measured rates, and what it holds."""
    folder = given.rates or given.params.parent / RESULTS
    if folder.is_dir():
        return folder, read_results(folder) if any(folder.glob("*.json")) else []
    if given.rates is not None and not given.save:
        raise VseppError(
            f"{folder}: no such folder; expected one of results, as `vsepp plan --calibrate --save --rates {folder}` writes it"
        )
    return folder, []


def _gpu_name() -> str | None:
    """Name of the first GPU of this machine, as its driver gives it; nothing where there is none."""
    if not gpu_count():
        return None
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return "unknown GPU"
    return done.stdout.splitlines()[0].strip() if done.stdout.strip() else "unknown GPU"


def _calibrated(plan: Plan, given: argparse.Namespace, folder: Path | None) -> dict[str, Any]:
    """Measure what the plan needs; the record, written into `folder` where there is one."""
    from vsepp.bench.made_up import feature_dims
    from vsepp.costs.calibration import wanted_measurements
    from vsepp.costs.rates import Network, networks

    machine = argparse.Namespace(device=given.device or "auto", threads=None)
    measuring = Measuring.start(machine)
    known = networks([])
    others = {run.spec.encoder.architecture: run.spec.encoder for run in plan.models.values()}
    unknown = {name: spec for name, spec in others.items() if name not in known}
    known |= {name: Network(dim, 0) for name, dim in feature_dims(unknown).items()}
    wanted = wanted_measurements(plan, known, measuring.device.type)
    rounds = Rounds(given.seconds, least=3, most=30, turn_seconds=min(0.3, given.seconds))
    path = folder / measuring.file_name if folder else None
    problems = measuring.measure(((measurement,) for measurement in wanted), rounds, path)
    if problems:
        raise VseppError(f"{len(problems)} of {len(wanted)} rates were not measured: " + "; ".join(problems))
    lines = [
        f"  {entry['name']:44} {digits(entry['per_second']['median']):>12} {entry['unit']}/s  "
        f"({entry['per_second']['repetitions']} turns)"
        for entry in measuring.record["results"]
    ]
    where = f"Written to {path}" if path else "Not written to a file: --save does that"
    head = f"Measured on {measuring.record['device']}, {measuring.record['machine']}"
    print("\n".join([head, *lines, where, ""]), file=sys.stderr if given.json else sys.stdout)
    return measuring.record
