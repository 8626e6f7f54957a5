"""What a preset costs, before anything is spent: files, disk, hours."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vsepp.cli.common import add_step, gpu_count, use_machine
from vsepp.cli.fetch import LOCK
from vsepp.cli.parameters import add_plan_options, plan_of
from vsepp.errors import VseppError
from vsepp.progress import track
from vsepp.provenance.manifest import git_state, versions, write_text

if TYPE_CHECKING:
    from vsepp.bench.rates import Wanted
    from vsepp.config.costs import Item, Job, Network, Rates, Time
    from vsepp.config.plan import Plan, SourceFile

WIDTH = 110
RATES = Path("benchmarks") / "rates.json"
_INLINE = "--config label=inline runs='{default: {rc_features: inline}}'"
_CALIBRATE = "vsepp plan --preset {} --calibrate --save"


@dataclass(frozen=True)
class Column:
    """A device whose hours are shown."""

    title: str
    note: str
    rates: Rates | None
    devices: int
    gpu: bool


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
    from vsepp.config.costs import networks, parse_rates

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
        measured = _measured_lines(record, path if given.save else None)
        print("\n".join(measured), file=sys.stderr if given.json else sys.stdout)
    wanted = None if given.calibrate else given.device
    columns = choose_columns(records, wanted, _gpu_name(), machine_name(), given.gpus or max(gpu_count(), 1))
    from vsepp.sources.sums import read_lock

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
    from vsepp.provenance.manifest import _processor

    return f"{_processor()}, {os.cpu_count()} cores"


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


def choose_columns(
    records: Sequence[Rates], wanted: str | None, gpu: str | None, machine: str, gpus: int
) -> list[Column]:
    """Devices whose hours are shown: the one that was asked for, or a GPU and a CPU.

    Parameters
    ----------
    records
        All that were measured.
    wanted
        Part of a device's or a machine's name.
    gpu
        Name of the GPU that is here.
    machine
        Name of this machine.
    gpus
        How many to reckon with.

    Raises
    ------
    VseppError
        When no record has the wanted name, with those that there are.
    """
    newest = sorted(records, key=lambda record: record.date)
    if wanted is not None:
        named = [record for record in newest if wanted.lower() in f"{record.device} {record.machine}".lower()]
        if not named:
            known = "; ".join(f"{record.device} ({record.machine})" for record in records) or "none"
            raise VseppError(f"--device: {wanted!r} was not measured; recorded are: {known}")
        return [_column(named[-1], machine, gpus)]
    graphics = [record for record in newest if record.device != "cpu" and gpu in (None, record.device)]
    processors = [record for record in newest if record.device == "cpu"]
    here = [record for record in processors if record.machine == machine]
    columns = [_column(record, machine, gpus) for record in graphics[-1:]]
    if not graphics:
        name = f"{gpu}, the GPU of this machine" if gpu else "no GPU"
        columns.append(
            Column("GPU", f"{name} was not measured" if gpu else "none was measured", None, gpus, True)
        )
    return columns + [_column(record, machine, gpus) for record in (here or processors)[-1:]]


def _column(record: Rates, machine: str, gpus: int) -> Column:
    gpu, here = record.device != "cpu", record.machine == machine
    title = "GPU" if gpu else ("this CPU" if here else "a CPU")
    place = "this machine" if here else "another machine"
    name = f"{record.device}, on {record.machine}" if gpu else record.machine
    return Column(title, f"{name} ({place}), measured {record.date}", record, gpus if gpu else 1, gpu)


def wanted_rates(plan: Plan, known: Mapping[str, Network]) -> Wanted:
    """All rates that the plan's jobs need, each once."""
    from vsepp.bench.rates import PHOTOGRAPH, Decoding, Head, Ranking, Wanted
    from vsepp.config import costs

    jobs = costs.jobs(plan, known)
    needed = {(work.entry, work.rate) for job in jobs.values() for work in job.work}
    runs = [run.spec for run in plan.models.values()]
    encoders = {costs.network_entry(run.encoder): run.encoder for run in runs}
    pictures = (plan.scenes.side, plan.scenes.side) if plan.scenes else PHOTOGRAPH
    return Wanted(
        encoders={name: spec for name, spec in encoders.items() if (name, "forward_images_per_s") in needed},
        finetuned={costs.network_entry(run.encoder): run for run in runs if run.finetuned},
        heads={
            costs.head_entry(run, known): Head(run, known[run.encoder.architecture].dim)
            for run in runs
            if (costs.head_entry(run, known), "captions_per_s") in needed
        },
        decoding={
            costs.decode_entry(plan.stores[job.what].spec): Decoding(plan.stores[job.what].spec, pictures)
            for job in jobs.values()
            if job.phase == "stores"
        },
        ranking={costs.rank_entry(run): Ranking(run.model.joint_dim, run.model.similarity) for run in runs},
    )


def _calibrated(plan: Plan, given: argparse.Namespace) -> dict[str, Any]:
    """Measure what the plan needs: a record for the file of rates."""
    from vsepp.bench.rates import Effort, feature_dims, measure
    from vsepp.config.costs import Network, networks

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


def merged(records: Sequence[Mapping[str, Any]], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Records with a new one: what it did not measure is kept of the device's earlier one, with its date."""
    same = ("device", "machine")
    earlier = [record for record in records if all(record.get(key) == new[key] for key in same)]
    rates = {name: entry for record in earlier for name, entry in record["rates"].items()}
    for name, entry in new["rates"].items():
        rates[name] = {**rates.get(name, {}), **entry}
    kept = [dict(record) for record in records if record not in earlier]
    return [*kept, {**new, "rates": dict(sorted(rates.items()))}]


def _measured_lines(record: Mapping[str, Any], path: Path | None) -> list[str]:
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


def describe(
    plan: Plan,
    known: Mapping[str, Network],
    columns: Sequence[Column],
    recorded: Mapping[str, Any],
    free: int,
) -> dict[str, Any]:
    """Everything that the report says, unrounded.

    Parameters
    ----------
    plan
        The plan.
    known
        Sizes of the encoders.
    columns
        Devices whose hours are given.
    recorded
        Files whose sums were recorded at their first download.
    free
        Bytes free in the working folder.
    """
    from vsepp.config import costs

    jobs = costs.jobs(plan, known)
    return {
        "preset": plan.preset,
        "variant": plan.variant,
        "seeds": plan.seeds,
        "runs_selected": len(plan.runs),
        "generated": plan.scenes is not None,
        "devices": [{"title": c.title, "note": c.note, "devices": c.devices, "gpu": c.gpu} for c in columns],
        "files": [_file_entry(name, file, recorded) for name, file in costs.files_read(plan).items()],
        "elsewhere": sorted(
            f"{spec.name} ({spec.weights})"
            for spec in plan.encoders.values()
            if spec.weights.startswith("torchvision/")
        ),
        "disk": _disk(plan, jobs, known, max(column.devices for column in columns), free),
        "runs": _runs(plan, jobs, columns),
        "passes": _passes(plan, jobs, columns),
        "totals": _totals(plan, jobs, columns),
    }


def _file_entry(name: str, file: SourceFile, recorded: Mapping[str, Any]) -> dict[str, Any]:
    spec = file.spec
    there = file.own or file.path.exists()
    host = urlsplit(spec.mirrors[0]).hostname if spec.mirrors else None
    size = file.path.stat().st_size if there and file.path.is_file() else spec.size
    kind = "folder" if there and file.path.is_dir() else "file"
    state = "own folder" if file.own else "already there" if there else "to fetch" if host else "by hand"
    known = "known" if spec.sha256 else "recorded before" if name in recorded else None
    return {
        "name": name,
        "state": state,
        "path": str(file.path),
        "host": host,
        "kind": kind,
        "size": None if kind == "folder" else size,
        "sha256": known,
        "instructions": spec.instructions,
    }


def _disk(
    plan: Plan, jobs: Mapping[str, Job], known: Mapping[str, Network], trainings: int, free: int
) -> dict[str, Any]:
    from vsepp.config import costs

    items = costs.disk_items(plan, jobs, known)
    kinds: dict[str, dict[str, Any]] = {}
    for item in items:
        kind = kinds.setdefault(item.kind, {"bytes": 0, "items": 0, "unknown": [], "present": 0})
        kind["bytes"] += item.size or 0
        kind["items"] += 1
        kind["unknown"] += [item.name] if item.size is None else []
        kind["present"] += _bytes_there(item)
    largest, together = costs.tape_bytes(items)
    keep = plan.parameters.preset.resources.keep_tapes
    checkpoints = costs.checkpoints_at_once(plan, trainings, known)
    lasting = sum(kind["bytes"] for name, kind in kinds.items() if name != "tapes")
    peak = lasting + (together if keep else largest) + checkpoints
    present = sum(kind["present"] for kind in kinds.values())
    return {
        "kinds": kinds,
        "checkpoints": checkpoints,
        "trainings_at_once": trainings,
        "keep_tapes": keep,
        "tapes_largest": largest,
        "tapes_together": together,
        "lasting": lasting,
        "peak": peak,
        "peak_all_tapes": lasting + together + checkpoints,
        "present": present,
        "to_write": max(peak - present, 0),
        "free": free,
        "folder": str(Path.cwd()),
    }


def _bytes_there(item: Item) -> int:
    """Bytes of an artefact that is there already, at most what it is said to take."""
    files = [item.path] if item.path.is_file() else item.path.rglob("*")
    there = sum(file.stat().st_size for file in files if file.is_file())
    return there if item.size is None else min(there, item.size)


def _hours(time: Time) -> dict[str, Any]:
    """Hours, as far as they are known: without rates that are `missing`, and where images are `uncounted`."""
    from vsepp.config.costs import NO_COUNT

    missing = sorted(time.missing - {NO_COUNT})
    return {"hours": time.seconds / 3600, "missing": missing, "uncounted": NO_COUNT in time.missing}


def _short_names(plan: Plan, jobs: Mapping[str, Job]) -> dict[str, str]:
    """Names of shared passes that fit into a line; equal ones are numbered."""
    short: dict[str, str] = {}
    for name, job in jobs.items():
        if job.seed is not None:
            continue
        if job.phase == "stores":
            store = plan.stores[name]
            said = f"store {store.corpus.rpartition('-')[0]}/{store.spec.resize}{store.spec.side}"
        else:
            shared = plan.features[name] if job.phase == "features" else plan.tapes[name]
            kind = "tape" if job.phase == "tapes" else shared.crop.kind
            corpus = plan.stores[shared.store].corpus.rpartition("-")[0]
            said = f"{kind} {corpus}/{plan.encoders[shared.encoder].name}"
        alike = sum(other.partition("#")[0] == said for other in short.values())
        short[name] = f"{said}#{alike + 1}" if alike else said
    return short | {
        name: f"published {corpus.rpartition('-')[0]}" for name, corpus in plan.precomputed.items()
    }


def _readers(plan: Plan, name: str) -> list[str]:
    return [
        run
        for run, model in plan.models.items()
        if name in (model.tape, model.features, model.eval_features, model.eval_store)
        or (name == model.train_store and not model.tape)
    ]


def _runs(plan: Plan, jobs: Mapping[str, Job], columns: Sequence[Column]) -> list[dict[str, Any]]:
    from vsepp.config import costs

    short, seed, found = _short_names(plan, jobs), plan.seeds[0], []
    for name, run in plan.runs.items():
        spec, pairs = run.spec, costs.training_pairs(plan, run)
        steps = costs.steps_per_epoch(pairs, spec.schedule.batch_size)
        work = next(
            j for j in jobs.values() if j.phase == "training" and (j.what, j.seed) == (name, seed)
        ).work
        shared = run.tape or run.features
        found.append(
            {
                "id": name,
                "pairs": pairs,
                "steps_per_epoch": steps,
                "epochs": spec.schedule.epochs,
                "steps": None if steps is None else steps * spec.schedule.epochs,
                "forward": [_hours(costs.time_of(work, c.rates, ["forward"])) for c in columns],
                "training": [
                    _hours(costs.time_of(work, c.rates, ["training", "validation"])) for c in columns
                ],
                "shares": short[shared] if shared else None,
                "with": [other for other in _readers(plan, shared) if other != name] if shared else [],
                "from": spec.finetune_from,
            }
        )
    return found


def _passes(plan: Plan, jobs: Mapping[str, Job], columns: Sequence[Column]) -> list[dict[str, Any]]:
    from vsepp.config import costs

    short = _short_names(plan, jobs)
    return [
        {
            "name": short[name],
            "artefact": name,
            "phase": job.phase,
            "images": job.work[0].amount,
            "hours": [_hours(costs.time_of(job.work, column.rates)) for column in columns],
            "read_by": _readers(plan, name),
            "for": [
                short[other] for other, reader in jobs.items() if name in reader.needs and other in short
            ],
        }
        for name, job in jobs.items()
        if job.seed is None
    ]


def _totals(plan: Plan, jobs: Mapping[str, Job], columns: Sequence[Column]) -> dict[str, Any]:
    from vsepp.config import costs

    def amounts(phase: str, seed: int | None) -> dict[str, Any]:
        """Items and hours of a phase, of one seed where it has seeds."""
        chosen = [
            job for job in jobs.values() if job.phase == phase and (seed is None or job.seed in (None, seed))
        ]
        work = [item for job in chosen for item in job.work]
        sums: dict[str, int] = {}
        for item in work:
            what = _ITEMS.get(item.rate)
            if what and item.amount is not None:
                sums[what] = sums.get(what, 0) + item.amount
        return {
            "jobs": len(chosen),
            "items": sums,
            "hours": [_hours(costs.time_of(work, c.rates)) for c in columns],
        }

    first, short, chains = plan.seeds[0], _short_names(plan, jobs), []
    for column in columns:
        seconds = {name: costs.time_of(job.work, column.rates).seconds for name, job in jobs.items()}
        length, chain = costs.longest_chain(jobs, seconds)
        wall = costs.wall_seconds(jobs, seconds, column.devices, cores_apart=column.gpu)
        chains.append(
            {
                "chain_hours": length / 3600,
                "chain": [short.get(name, name) for name in chain],
                "wall_hours": wall / 3600,
            }
        )
    trainings = [plan.runs[job.what].spec for job in jobs.values() if job.phase == "training"]
    return {
        "one_seed": {phase: amounts(phase, first) for phase in costs.PHASES},
        "all_seeds": {phase: amounts(phase, None) for phase in costs.PHASES},
        "chains": chains,
        "frozen_trainings": sum(not spec.finetuned for spec in trainings),
        "finetunings": sum(spec.finetuned for spec in trainings),
    }


_ITEMS = {
    "images_per_s_per_core": "images decoded",
    "forward_images_per_s": "images through a frozen encoder",
    "train_pairs_per_s": "pairs with the encoder trained",
    "pairs_per_s": "pairs on features",
}


def render(report: Mapping[str, Any]) -> str:
    """The report as text, at most 110 columns wide but for names that are longer."""
    seeds = ", ".join(map(str, report["seeds"]))
    head = f"{report['preset']}, variant {report['variant']}: {report['runs_selected']} runs, seeds {seeds}"
    sections = [
        [head],
        _file_lines(report),
        _disk_lines(report),
        _run_lines(report),
        _pass_lines(report),
        _total_lines(report),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections)


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _bytes(count: float | None) -> str:
    if count is None:
        return "size not known"
    unit = next((unit for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if count >= size), "B")
    return f"{count / {'GB': 1e9, 'MB': 1e6, 'kB': 1e3, 'B': 1}[unit]:,.{0 if unit == 'B' else 2}f} {unit}"


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _digits(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 10 else f"{hours:.2f}"


def _hour_text(*times: Mapping[str, Any], whole: bool = True) -> str:
    """Hours, or what stands in their place; with `whole`, a sum that lacks a part is not shown."""
    missing = any(time["missing"] for time in times)
    lacking = missing or any(time["uncounted"] for time in times)
    known = [time["hours"] for time in times if time["hours"]]
    if lacking and (whole or not known):
        return "not measured" if missing else "?"
    return ("≥ " if lacking else "") + ("+".join(map(_digits, known)) or "0.00")


def _file_lines(report: Mapping[str, Any]) -> list[str]:
    files = report["files"]
    lines = ["1. Files"]
    if report["generated"]:
        lines.append("  none to fetch: the pictures and captions are generated here")
    if files:
        lines.append(f"  {'file':28} {'size':>14}  {'where':36} sha256")
    for file in files:
        where = {"to fetch": f"to fetch from {file['host']}", "by hand": "by hand, see below"}.get(
            file["state"], file["state"]
        )
        sha256 = file["sha256"] or "at first download"
        size = "a folder" if file["kind"] == "folder" else _bytes(file["size"])
        lines.append(f"  {file['name']:28} {size:>14}  {where:36} {sha256}")
    for encoder in report["elsewhere"]:
        lines.append(f"  weights of {encoder}: fetched by torchvision when the encoder is cut")
    for file in files:
        if file["state"] == "by hand":
            lines += ["", f"  {file['name']}:", *_wrapped(file["instructions"], "    ")]
    fetched = [file for file in files if file["state"] == "to fetch"]
    if fetched:
        unknown = sum(file["size"] is None for file in fetched)
        more = f" and {unknown} of unknown size" if unknown else ""
        total = sum(file["size"] or 0 for file in fetched)
        lines.append(
            f"  to fetch: {_bytes(total)}{more}; `vsepp fetch --preset {report['preset']}` does only that"
        )
    return lines


def _disk_lines(report: Mapping[str, Any]) -> list[str]:
    disk = report["disk"]
    lines = ["2. Disk"]
    for name, kind in disk["kinds"].items():
        unknown = f", and {len(kind['unknown'])} of unknown size" if kind["unknown"] else ""
        there = f", {_bytes(kind['present'])} there already" if kind["present"] else ""
        lines.append(f"  {name:22} {_bytes(kind['bytes']):>12}  {kind['items']} in all{unknown}{there}")
    at_once = disk["trainings_at_once"]
    lines.append(
        f"  {'checkpoints':22} {_bytes(disk['checkpoints']):>12}  of {at_once} training{'s' if at_once > 1 else ''} at once"
    )
    lines.append(f"  {'peak':22} {_bytes(disk['peak']):>12}  of which {_bytes(disk['lasting'])} stay")
    assumed = "Assumed: 12,000 words, 60 bytes of tables and word ids a caption, a checkpoint kept twice while it is replaced. "
    if disk["keep_tapes"]:
        assumed += "Tapes are kept (keep_tapes)."
    elif disk["tapes_together"]:
        assumed += (
            f"Tapes go after their last reader (keep_tapes: false): those of one corpus and encoder lie there at a time, at "
            f"most {_bytes(disk['tapes_largest'])}; if all were written before the first goes, it would be "
            f"{_bytes(disk['peak_all_tapes'])}."
        )
    lines += _wrapped(assumed)
    if unknown := sorted({name for kind in disk["kinds"].values() for name in kind["unknown"]}):
        lines += _wrapped(f"Not in these sums, for want of a size: {', '.join(unknown)}.")
    verdict = (
        f"Free in {disk['folder']}: {_bytes(disk['free'])}; still to be written: {_bytes(disk['to_write'])}."
    )
    if disk["to_write"] > disk["free"]:
        verdict += " IT DOES NOT FIT."
    lines += _wrapped(verdict)
    if disk["to_write"] > disk["free"] and disk["tapes_together"]:
        lines += _wrapped(
            "Free some, link results/ to a larger disk, or compute the random-crop features inside each training instead of "
            "writing tapes, which takes their place on disk and costs every run its own pass of the encoder:"
        )
        lines.append(f"    {_INLINE}")
    return lines


def _run_lines(report: Mapping[str, Any]) -> list[str]:
    runs, devices = report["runs"], report["devices"]
    name = max([len(run["id"]) for run in runs] + [3])
    titles = " ".join(f"{device['title']:>12}" for device in devices)
    lines = ["3. Runs, one seed; hours are image forward + training and validation"]
    for device in devices:
        lines += _wrapped(f"{device['title']}: {device['note']}")
    lines.append(
        f"  {'run':{name}} {'pairs':>7} {'steps':>5} {'ep.':>3} {'in all':>7} {titles}  shares (+ others)"
    )
    for run in runs:
        hours = " ".join(
            f"{_hour_text(forward, training):>12}"
            for forward, training in zip(run["forward"], run["training"], strict=True)
        )
        shares = f"from {run['from']}" if run["from"] else run["shares"] or "its own encoder passes"
        others = f" +{len(run['with'])}" if run["with"] else ""
        lines.append(
            f"  {run['id']:{name}} {_count(run['pairs']):>7} {_count(run['steps_per_epoch']):>5} {run['epochs']:>3} "
            f"{_count(run['steps']):>7} {hours}  {shares}{others}"
        )
    if any(run["pairs"] is None for run in runs):
        lines += _wrapped("?: the data set's entry in datasets.yaml gives no number of images or captions.")
    return lines


def _pass_lines(report: Mapping[str, Any]) -> list[str]:
    titles = " ".join(f"{device['title']:>12}" for device in report["devices"])
    lines = ["4. Shared passes, made once for all runs and seeds", f"  {'':30} {'images':>12} {titles}"]
    for shared in report["passes"]:
        hours = " ".join(f"{_hour_text(time):>12}" for time in shared["hours"])
        lines.append(f"  {shared['name']:30} {_count(shared['images']):>12} {hours}")
        readers = ", ".join([*shared["for"], *shared["read_by"]])
        lines += _wrapped(f"read by {readers}", "      ")
    return lines


def _total_lines(report: Mapping[str, Any]) -> list[str]:
    totals, devices, seeds = report["totals"], report["devices"], len(report["seeds"])
    lines = ["5. Totals, from nothing"]
    lines.append(f"  {'hours of a device':30} " + " ".join(f"{device['title']:>12}" for device in devices))
    columns = range(len(devices))
    for key in ["one_seed", "all_seeds"] if seeds > 1 else ["one_seed"]:
        phases = totals[key]
        of = ("one seed" if key == "one_seed" else f"{seeds} seeds") if seeds > 1 else ""
        for phase, entry in phases.items():
            if not entry["jobs"]:
                continue
            label = f"{phase} ({entry['jobs']}{', on the cores' if phase == 'stores' else ''})"
            lines.append(_total_line(label, [_hour_text(entry["hours"][k], whole=False) for k in columns]))
        sums = [[entry["hours"][k] for entry in phases.values()] for k in columns]
        lines.append(_total_line(f"in all{', ' if of else ''}{of}", [_sum_text(times) for times in sums]))
    lines += _amount_lines(totals["all_seeds"])
    lines += _chain_lines(report)
    lines += _missing_lines(report)
    return lines


def _total_line(label: str, texts: Iterable[str]) -> str:
    return f"  {label:30} " + " ".join(f"{text:>12}" for text in texts)


def _sum_text(times: Sequence[Mapping[str, Any]]) -> str:
    total = {
        "hours": sum(time["hours"] for time in times),
        "missing": [reason for time in times for reason in time["missing"]],
        "uncounted": any(time["uncounted"] for time in times),
    }
    return _hour_text(total, whole=False)


def _amount_lines(phases: Mapping[str, Any]) -> list[str]:
    sums: dict[str, int] = {}
    for entry in phases.values():
        for what, amount in entry["items"].items():
            sums[what] = sums.get(what, 0) + amount
    return _wrapped("To process: " + "; ".join(f"{amount:,} {what}" for what, amount in sums.items()) + ".")


def _chain_lines(report: Mapping[str, Any]) -> list[str]:
    totals, lines = report["totals"], []
    for k, (device, chain) in enumerate(zip(report["devices"], totals["chains"], strict=True)):
        if not chain["chain_hours"]:
            continue
        times = [entry["hours"][k] for entry in totals["all_seeds"].values()]
        least = "≥ " if any(time["missing"] or time["uncounted"] for time in times) else ""
        count = device["devices"]
        on = f"{count} GPU{'s' if count > 1 else ''}" if device["gpu"] else device["title"]
        lines += _wrapped(
            f"{device['title']}: {least}{_digits(chain['wall_hours'])} h from the first job to the last on {on}; however "
            f"many devices there are, {least}{_digits(chain['chain_hours'])} h: {' → '.join(chain['chain'])}."
        )
    phases = totals["all_seeds"]
    groups = {
        "features": (phases["features"]["jobs"], "its store"),
        "tapes": (phases["tapes"]["jobs"], "its store"),
        "trainings with a frozen encoder": (totals["frozen_trainings"], "its tape, features or store"),
        "fine-tunings": (totals["finetunings"], "its frozen run"),
        "evaluations": (phases["evaluation"]["jobs"], "its training"),
    }
    said = (f"{name} {count}, each after {need}" for name, (count, need) in groups.items() if count)
    lines += _wrapped(f"At once, where there are devices: {'; '.join(said)}.")
    lines += _wrapped(
        "Assumed: each job has its device, or all cores, to itself, and other batch sizes have the measured one's rate. Not "
        "counted: downloads, tables and word ids, generated scenes and the pretraining on them, the report."
    )
    return lines


def _missing_lines(report: Mapping[str, Any]) -> list[str]:
    """What hours lack, and how to come by them."""
    lines: list[str] = []
    for k, device in enumerate(report["devices"]):
        times = [entry["hours"][k] for entry in report["totals"]["all_seeds"].values()]
        missing = sorted({reason for time in times for reason in time["missing"]})
        if missing:
            some = "; ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
            lines += _wrapped(f"{device['title']}, not measured: {some}.")
    if lines:
        lines += _wrapped(
            "To get hours, measure for a minute or two on the machine that will train: "
            f"`{_CALIBRATE.format(report['preset'])}`"
        )
    return lines
