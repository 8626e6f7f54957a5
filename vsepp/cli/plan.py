"""What a preset costs, before anything is spent: files, disk, hours."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.cli.common import add_step, gpu_count, use_machine
from vsepp.cli.fetch import LOCK
from vsepp.cli.parameters import add_plan_options, plan_of
from vsepp.errors import VseppError
from vsepp.progress import track
from vsepp.provenance.manifest import git_state, processor, versions, write_text

if TYPE_CHECKING:
    from vsepp.bench.rates import Wanted
    from vsepp.config.plan import Plan
    from vsepp.costs.rates import Network

RATES = Path("benchmarks") / "rates.json"


def add_steps(steps: Any) -> None:
    """Add `plan`."""
    parser = add_step(
        steps, "plan", plan, "say what a preset costs, in files, disk and hours, before anything is spent"
    )
    add_plan_options(parser)
    parser.add_argument(
        "--rates", type=Path, metavar="FILE", help=f"measured rates; {RATES} beside the parameters"
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
        "--save", action="store_true", help="with --calibrate: write them to the file of rates"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, nothing rounded")


def plan(given: argparse.Namespace) -> None:
    """Print what a plan costs."""
    from vsepp.costs.describe import describe
    from vsepp.costs.devices import choose_columns
    from vsepp.costs.rates import measured_lines, merged, networks, parse_rates
    from vsepp.costs.render import render
    from vsepp.sources.sums import read_lock

    if given.save and not given.calibrate:
        raise VseppError("--save: there is nothing to save; expected --calibrate beside it")
    if given.gpus is not None and given.gpus < 1:
        raise VseppError(f"--gpus: got {given.gpus}; expected at least 1")
    chosen = plan_of(given)
    path = given.rates or given.params.parent / RATES
    content = _read_json(path, required=given.rates is not None and not given.save)
    records = parse_rates(content, str(path))
    if given.calibrate:
        record = _calibrated(chosen, given)
        content = merged(content, record)
        records = parse_rates(content, str(path))
        if given.save:
            write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        measured = measured_lines(record, path if given.save else None)
        print("\n".join(measured), file=sys.stderr if given.json else sys.stdout)
    wanted = None if given.calibrate else given.device
    columns = choose_columns(records, wanted, _gpu_name(), machine_name(), given.gpus or max(gpu_count(), 1))
    report = describe(
        chosen, networks(records), columns, read_lock(given.params / LOCK), shutil.disk_usage(".").free
    )
    print(json.dumps(report, indent=1, ensure_ascii=False) if given.json else render(report))


def _read_json(path: Path, required: bool) -> Any:
    if not path.is_file():
        if required:
            raise VseppError(
                f"{path}: no such file; write it with `vsepp plan --calibrate --save --rates {path}`"
            )
        return []
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise VseppError(
            f"{path}: not valid JSON ({error}); restore it, or delete it and measure again"
        ) from error


def machine_name() -> str:
    """Processor and cores of this machine."""
    return f"{processor()}, {os.cpu_count()} cores"


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


def wanted_rates(plan: Plan, known: Mapping[str, Network]) -> Wanted:
    """All rates that the plan's jobs need, each once."""
    from vsepp.bench.rates import PHOTOGRAPH, Decoding, Head, Ranking, Wanted
    from vsepp.costs.work import decode_entry, head_entry, jobs_of, network_entry, rank_entry

    jobs = jobs_of(plan, known)
    needed = {(work.entry, work.rate) for job in jobs.values() for work in job.work}
    runs = [run.spec for run in plan.models.values()]
    encoders = {network_entry(run.encoder): run.encoder for run in runs}
    pictures = (plan.scenes.side, plan.scenes.side) if plan.scenes else PHOTOGRAPH
    return Wanted(
        encoders={name: spec for name, spec in encoders.items() if (name, "forward_images_per_s") in needed},
        finetuned={network_entry(run.encoder): run for run in runs if run.finetuned},
        heads={
            head_entry(run, known): Head(run, known[run.encoder.architecture].dim)
            for run in runs
            if (head_entry(run, known), "captions_per_s") in needed
        },
        decoding={
            decode_entry(plan.stores[job.what].spec): Decoding(plan.stores[job.what].spec, pictures)
            for job in jobs.values()
            if job.phase == "stores"
        },
        ranking={rank_entry(run): Ranking(run.model.joint_dim, run.model.similarity) for run in runs},
    )


def _calibrated(plan: Plan, given: argparse.Namespace) -> dict[str, Any]:
    """Measure what the plan needs: a record for the file of rates."""
    from vsepp.bench.rates import Effort, feature_dims, measure
    from vsepp.costs.rates import Network, networks

    facts: dict[str, Any] = {}
    device = use_machine(argparse.Namespace(device=given.device or "auto", threads=None), facts)
    known = networks([])
    others = {run.spec.encoder.architecture: run.spec.encoder for run in plan.models.values()}
    unknown = {name: spec for name, spec in others.items() if name not in known}
    known |= {name: Network(dim, 0) for name, dim in feature_dims(unknown).items()}
    state, today = dict(git_state()), datetime.now(UTC).date().isoformat()
    commit = state["commit"][:12]
    rates: dict[str, dict[str, Any]] = {}
    wanted = wanted_rates(plan, known)
    found_rates = measure(wanted, device, Effort(given.seconds))
    for name, found in track(found_rates, len(wanted), "measuring rates", "rate"):
        rounded = {key: float(f"{value:.4g}") if "_per_s" in key else value for key, value in found.items()}
        # Other work on the machine is seen in it: rates are worth repeating where it is above what they use.
        seen = {"date": today, "commit": commit, "load_average": round(os.getloadavg()[0], 2)}
        rates.setdefault(name, {}).update(rounded | seen)
    return {
        "device": facts["device"],
        "machine": machine_name(),
        "date": today,
        "commit": commit,
        "dirty": state["dirty"],
        "versions": dict(versions()),
        "cores": os.cpu_count(),
        "threads": facts["threads"],
        "dtype": "float32",
        "batch": next(iter(plan.runs.values())).spec.schedule.batch_size,
        "rates": rates,
    }
