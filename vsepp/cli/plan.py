"""What a preset costs, before anything is spent: files, disk, pairs, steps, and hours where they were measured."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vsepp.cli.common import add_step, gpu_count
from vsepp.cli.fetch import LOCK
from vsepp.cli.parameters import add_plan_options, plan_of
from vsepp.errors import VseppError

if TYPE_CHECKING:
    from vsepp.config.costs import Item, Rates, Work
    from vsepp.config.plan import Plan, SourceFile

RATES = Path("benchmarks") / "results.csv"
WIDTH = 110
_INLINE = "--config label=inline runs='{default: {rc_features: inline}}'"


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
        default="",
        metavar="NAME",
        help="part of the name of the measured device or machine to show",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, nothing rounded")


def plan(given: argparse.Namespace) -> None:
    """Print what a plan costs."""
    from vsepp.config.costs import read_rates
    from vsepp.sources.sums import read_lock

    chosen = plan_of(given)
    if given.rates is not None and not given.rates.is_file():
        raise VseppError(f"{given.rates}: no such file; expected what benchmarks/measure.py --append writes")
    measured = read_rates(given.rates or given.params.parent / RATES)
    shown = {place: rates for place, rates in measured.items() if given.device.lower() in place.lower()}
    if given.device and not shown:
        raise VseppError(
            f"--device: {given.device!r} was not measured; recorded are: {'; '.join(measured) or 'none'}"
        )
    found = report(chosen, shown, read_lock(given.params / LOCK), shutil.disk_usage(".").free)
    print(json.dumps(found, indent=1, ensure_ascii=False) if given.json else "\n".join(render(found)))


def report(
    plan: Plan, devices: Mapping[str, Rates], recorded: Mapping[str, Any], free: int
) -> dict[str, Any]:
    """Everything that is said, unrounded.

    Parameters
    ----------
    plan
        The plan.
    devices
        Measured rates of each device whose hours are given.
    recorded
        Files whose sums were recorded at their first download.
    free
        Bytes free in the working folder.
    """
    from vsepp.config.costs import files_read, items_of

    items = list(items_of(plan))
    weights = [f"{spec.name} ({spec.weights})" for spec in plan.encoders.values()]
    return {
        "preset": plan.preset,
        "variant": plan.variant,
        "seeds": plan.seeds,
        "generated": plan.scenes is not None,
        "devices": list(devices),
        "files": [_file(name, file, recorded) for name, file in files_read(plan).items()],
        "elsewhere": sorted(name for name in weights if "(torchvision/" in name),
        "disk": _disk(plan, items, free),
        "kinds": _kinds(items, devices),
        "shared": [
            {"kind": item.kind, "name": item.label, "images": item.work[0].amount, "bytes": item.size}
            | {"hours": _hours(item.work, devices)}
            for item in items
            if item.work and item.kind not in ("models", "embeddings")
        ],
        "runs": _runs(plan, items, devices),
        "hours": _hours([work for item in items for work in item.work], devices),
    }


def _file(name: str, file: SourceFile, recorded: Mapping[str, Any]) -> dict[str, Any]:
    spec = file.spec
    there = file.own or file.path.exists()
    host = urlsplit(spec.mirrors[0]).hostname if spec.mirrors else None
    folder = there and file.path.is_dir()
    size = file.path.stat().st_size if there and not folder else spec.size
    return {
        "name": name,
        "state": "own folder"
        if file.own
        else "already there"
        if there
        else "to fetch"
        if host
        else "by hand",
        "path": str(file.path),
        "host": host,
        "kind": "folder" if folder else "file",
        "size": None if folder else size,
        "sha256": "known" if spec.sha256 else "recorded before" if name in recorded else None,
        "instructions": spec.instructions,
    }


def _kinds(items: Sequence[Item], devices: Mapping[str, Rates]) -> dict[str, dict[str, Any]]:
    """Bytes and hours of each kind of artefact."""
    return {
        kind: {
            "items": len(of_kind := [item for item in items if item.kind == kind]),
            "bytes": sum(item.size or 0 for item in of_kind),
            "unknown": sorted({item.label for item in of_kind if item.size is None}),
            "present": sum(map(_bytes_there, of_kind)),
            "hours": _hours([work for item in of_kind for work in item.work], devices),
        }
        for kind in dict.fromkeys(item.kind for item in items)
    }


def _bytes_there(item: Item) -> int:
    """Bytes of an artefact that is there already, at most what it is said to take."""
    files = [item.path] if item.path.is_file() else item.path.rglob("*")
    there = sum(file.stat().st_size for file in files if file.is_file())
    return there if item.size is None else min(there, item.size)


def _disk(plan: Plan, items: Sequence[Item], free: int) -> dict[str, Any]:
    from vsepp.config.costs import checkpoint_bytes, tapes_at_once

    trainings = max(gpu_count(), 1)
    states = [checkpoint_bytes(run.spec) or 0 for run in plan.runs.values() for _ in plan.seeds]
    checkpoints = sum(sorted(states, reverse=True)[:trainings])
    largest, together = tapes_at_once(items)
    keep = plan.parameters.preset.resources.keep_tapes
    lasting = sum(item.size or 0 for item in items if item.kind != "tapes")
    peak = lasting + (together if keep else largest) + checkpoints
    present = sum(map(_bytes_there, items))
    return {
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


def _runs(plan: Plan, items: Sequence[Item], devices: Mapping[str, Rates]) -> list[dict[str, Any]]:
    from vsepp.config.costs import captions_of, steps_of

    found = []
    for name, run in plan.runs.items():
        spec, shared = run.spec, run.tape or run.features
        pairs = captions_of(plan.corpora[run.corpus], spec.train_splits)
        steps = steps_of(spec, pairs)
        trained = next(item.work for item in items if item.kind == "models" and item.label == name)
        found.append(
            {
                "id": name,
                "pairs": pairs,
                "steps_per_epoch": steps,
                "epochs": spec.schedule.epochs,
                "steps": None if steps is None else steps * spec.schedule.epochs,
                "hours": _hours(trained, devices),
                "reads": next((item.label for item in items if item.path.name == shared), None),
                "from": spec.finetune_from,
            }
        )
    return found


def _hours(work: Sequence[Work], devices: Mapping[str, Rates]) -> list[dict[str, Any]]:
    """Hours on each device, what they lack, and whether that is a count of images."""
    from vsepp.config.costs import time_of

    return [{**time_of(work, rates)._asdict()} for rates in devices.values()]


def render(found: Mapping[str, Any]) -> list[str]:
    """The report as lines, at most 110 columns wide but for names that are longer."""
    seeds = ", ".join(map(str, found["seeds"]))
    lines = [f"{found['preset']}, variant {found['variant']}: {len(found['runs'])} runs, seeds {seeds}"]
    return [*lines, *_file_lines(found), *_disk_lines(found), *_run_lines(found), *_hour_lines(found)]


def _file_lines(found: Mapping[str, Any]) -> list[str]:
    files = found["files"]
    lines = ["", "1. Files"]
    if found["generated"]:
        lines.append("  none to fetch: the pictures and captions are generated here")
    for file in files:
        where = {"to fetch": f"to fetch from {file['host']}", "by hand": "by hand, see below"}
        size = "a folder" if file["kind"] == "folder" else _bytes(file["size"])
        sha256 = f"sha256 {file['sha256'] or 'at first download'}"
        lines.append(f"  {file['name']:28} {size:>14}  {where.get(file['state'], file['state']):36} {sha256}")
    for encoder in found["elsewhere"]:
        lines.append(f"  weights of {encoder}: fetched by torchvision when the encoder is cut")
    for file in files:
        if file["state"] == "by hand":
            lines += ["", f"  {file['name']}:", *_wrapped(file["instructions"], "    ")]
    if fetched := [file["size"] for file in files if file["state"] == "to fetch"]:
        unknown = f" and {fetched.count(None)} of unknown size" if None in fetched else ""
        total = _bytes(sum(size or 0 for size in fetched))
        lines.append(f"  to fetch: {total}{unknown}; `vsepp fetch --preset {found['preset']}` does only that")
    return lines


def _disk_lines(found: Mapping[str, Any]) -> list[str]:
    disk, lines = found["disk"], ["", "2. Disk"]
    for name, kind in found["kinds"].items():
        unknown = f", {len(kind['unknown'])} of unknown size" if kind["unknown"] else ""
        there = f", {_bytes(kind['present'])} there already" if kind["present"] else ""
        lines.append(f"  {name:22} {_bytes(kind['bytes']):>12}  {kind['items']} in all{unknown}{there}")
    lines.append(
        f"  {'checkpoints':22} {_bytes(disk['checkpoints']):>12}  of {disk['trainings_at_once']} at once"
    )
    lines.append(f"  {'peak':22} {_bytes(disk['peak']):>12}  of which {_bytes(disk['lasting'])} stay")
    text = "Assumed: 12,000 words, 60 bytes of tables and word ids a caption, two checkpoints kept while a third is written. "
    if disk["keep_tapes"]:
        text += "Tapes (random-crop features) are kept."
    elif disk["tapes_together"]:
        text += (
            "Tapes (random-crop features) go after their last reader: those of one corpus and encoder lie there at a time, at "
            f"most {_bytes(disk['tapes_largest'])}; if all were written before the first goes, the peak would be "
            f"{_bytes(disk['peak_all_tapes'])}."
        )
    lines += _wrapped(text)
    if unknown := sorted({name for kind in found["kinds"].values() for name in kind["unknown"]}):
        lines += _wrapped(f"Not in these sums, for want of a size: {', '.join(unknown)}.")
    fits = disk["to_write"] <= disk["free"]
    lines += _wrapped(
        f"Free in {disk['folder']}: {_bytes(disk['free'])}; still to be written: {_bytes(disk['to_write'])}."
        + ("" if fits else " IT DOES NOT FIT.")
    )
    if not fits and disk["tapes_together"]:
        lines += _wrapped(
            "Free some, link results/ to a larger disk, or compute the random-crop features inside each training instead of "
            "writing tapes, which takes their place on disk and costs every run its own pass of the encoder:"
        )
        lines.append(f"    {_INLINE}")
    return lines


def _run_lines(found: Mapping[str, Any]) -> list[str]:
    runs, columns = found["runs"], range(len(found["devices"]))
    lines = ["", "3. Runs, one seed each; hours of a training with its validations"]
    lines += [f"  [{number + 1}] {found['devices'][number]}" for number in columns]
    if not any(not device.startswith("cpu, ") for device in found["devices"]):
        lines.append("  GPU-hours: not measured")
    name = max([len(run["id"]) for run in runs] + [3])
    heads = " ".join(f"{f'hours [{number + 1}]':>12}" for number in columns)
    lines.append(f"  {'run':{name}} {'pairs':>7} {'steps':>5} {'ep.':>3} {'in all':>7} {heads}  reads")
    for run in runs:
        hours = " ".join(f"{_hour_text(time):>12}" for time in run["hours"])
        reads = f"from {run['from']}" if run["from"] else run["reads"] or "its own encoder passes"
        lines.append(
            f"  {run['id']:{name}} {_count(run['pairs']):>7} {_count(run['steps_per_epoch']):>5} {run['epochs']:>3} "
            f"{_count(run['steps']):>7} {hours}  {reads}"
        )
    if any(run["pairs"] is None for run in runs):
        lines += _wrapped("?: the data set's entry in datasets.yaml gives no number of images or captions.")
    return lines


def _hour_lines(found: Mapping[str, Any]) -> list[str]:
    columns = range(len(found["devices"]))
    lines = ["", "4. Shared passes, made once for all runs and seeds, and all hours"]
    heads = " ".join(f"{f'hours [{number + 1}]':>12}" for number in columns)
    lines.append(f"  {'':42} {'images':>12} {'bytes':>12} {heads}")
    for shared in found["shared"]:
        hours = " ".join(f"{_hour_text(time):>12}" for time in shared["hours"])
        label = f"{shared['kind']}: {shared['name']}"
        lines.append(f"  {label:42} {_count(shared['images']):>12} {_bytes(shared['bytes']):>12} {hours}")
    sums = [
        ("trainings, all seeds", found["kinds"].get("models")),
        ("evaluations", found["kinds"].get("embeddings")),
    ]
    for label, kind in [*sums, ("in all", found)]:
        if kind:
            hours = " ".join(f"{_hour_text(time, bound=True):>12}" for time in kind["hours"])
            lines.append(f"  {label:42} {'':>12} {'':>12} {hours}")
    lines += _wrapped(
        "Each job has its device, or one core for an image store, to itself; another batch size has the measured one's rate. "
        "Not counted: downloads, tables and word ids, generated scenes and the pretraining on them, the report."
    )
    for device, time in zip(found["devices"], found["hours"], strict=True):
        if missing := time["missing"]:
            more = f" and {len(missing) - 6} more" if len(missing) > 6 else ""
            lines += _wrapped(f"{device}, not measured: {'; '.join(missing[:6])}{more}.")
    return [
        *lines,
        *_wrapped("Measured with `python benchmarks/measure.py --append benchmarks/results.csv`."),
    ]


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _bytes(count: float | None) -> str:
    """Bytes in the largest decimal unit that they fill."""
    if count is None:
        return "size not known"
    unit = next((unit for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if count >= size), "B")
    return f"{count / {'GB': 1e9, 'MB': 1e6, 'kB': 1e3, 'B': 1}[unit]:,.{0 if unit == 'B' else 2}f} {unit}"


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _hour_text(time: Mapping[str, Any], *, bound: bool = False) -> str:
    """Hours, or what stands in their place; a sum that lacks a part is shown as a lower bound, or not at all."""
    hours = time["hours"]
    lacking = time["missing"] or time["uncounted"]
    if lacking and not (bound and hours):
        return "not measured" if time["missing"] else "?"
    digits = 0 if hours >= 100 else 1 if hours >= 10 else 2
    return ("≥ " if lacking else "") + f"{hours:,.{digits}f}"
