"""What a preset costs, before anything is spent: files, disk, pairs, steps, and hours where they were measured."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vsepp.cli.common import add_step
from vsepp.cli.fetch import LOCK
from vsepp.cli.parameters import add_plan_options, plan_of
from vsepp.errors import VseppError
from vsepp.runtime import devices
from vsepp.runtime.progress import bytes_text

if TYPE_CHECKING:
    from vsepp.config.costs import Item, Rates
    from vsepp.config.plan import Plan, SourceFile

RATES = Path("benchmarks") / "results.csv"
WIDTH = 110
TITLES = {
    "download": "downloads",
    "scenes": "generated pictures",
    "corpus": "tables",
    "tokens": "word ids",
    "store": "decoded images",
    "pretrained": "encoders",
    "encoder": "encoders",
    "features": "features",
    "published": "features",
    "tape": "random-crop features",
    "run": "models",
    "released": "models",
    "tokens_of": "word ids",
    "evaluation": "embeddings",
}
"""Kind of artefact → what it is called where it is shown."""
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
        "--device", default="", metavar="NAME", help="part of a measured device's or machine's name"
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
        known = "; ".join(measured) or "none"
        raise VseppError(f"--device: {given.device!r} was not measured; recorded are: {known}")
    found = report(chosen, shown, read_lock(given.params / LOCK), shutil.disk_usage(".").free)
    print(json.dumps(found, indent=1, ensure_ascii=False) if given.json else "\n".join(render(found)))


def report(
    plan: Plan, measured: Mapping[str, Rates], recorded: Mapping[str, Any], free: int
) -> dict[str, Any]:
    """Everything that is said, unrounded.

    Parameters
    ----------
    plan
        The plan.
    measured
        Rates of each device whose hours are given.
    recorded
        Files whose sums were recorded at their first download.
    free
        Bytes free in the working folder.
    """
    from vsepp.config.costs import files_read, items_of, needed_artefacts

    items, needed = items_of(plan), needed_artefacts(plan)
    runs = {name: model.spec for name, model in plan.models.items() if not model.released}
    return {
        "preset": plan.preset,
        "variant": plan.variant,
        "seeds": plan.parameters.settings.seeds,
        "devices": list(measured),
        "files": [_file(name, file, recorded) for name, file in files_read(plan, needed).items()],
        "elsewhere": sorted(
            f"{artefact.spec.name} ({artefact.spec.weights})"
            for artefact in needed
            if artefact.kind == "encoder" and artefact.spec.weights.startswith("torchvision/")
        ),
        "kinds": _kinds(items, measured),
        "disk": _disk(plan, items, free),
        "runs": [_run(plan, name, items, measured) for name in runs],
        "shared": [
            {"kind": item.kind, "name": item.label, "images": item.work[0].amount, "bytes": item.size}
            | {"hours": _hours([item], measured)}
            for item in items
            if item.kind in ("store", "features", "tape")
        ],
        "hours": _hours(items, measured),
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


def _kinds(items: Sequence[Item], measured: Mapping[str, Rates]) -> dict[str, dict[str, Any]]:
    """Bytes and hours of each kind of artefact."""
    kinds: dict[str, list[Item]] = {}
    for item in items:
        if item.kind in TITLES:
            kinds.setdefault(TITLES[item.kind], []).append(item)
    return {
        title: {
            "items": len(alike),
            "bytes": sum(item.size or 0 for item in alike),
            "unknown": sorted({item.label for item in alike if item.size is None}),
            "present": sum(map(_bytes_there, alike)),
            "hours": _hours(alike, measured),
        }
        for title, alike in kinds.items()
    }


def _bytes_there(item: Item) -> int:
    """Bytes of an artefact that is there already, at most what it is said to take."""
    files = [item.path] if item.path.is_file() else item.path.rglob("*")
    there = sum(file.stat().st_size for file in files if file.is_file())
    return there if item.size is None else min(there, item.size)


def _disk(plan: Plan, items: Sequence[Item], free: int) -> dict[str, Any]:
    from vsepp.config.costs import checkpoint_bytes, tapes_at_once

    at_once = max(len(devices.visible_gpus()), 1)
    trained = [artefact.spec for artefact in plan.of_kind("run").values()]
    checkpoints = sum(sorted((checkpoint_bytes(run) or 0 for run in trained), reverse=True)[:at_once])
    largest, together = tapes_at_once(plan, items)
    keep = plan.parameters.preset.resources.keep_tapes
    lasting = sum(item.size or 0 for item in items if item.kind != "tape")
    peak = lasting + (together if keep else largest) + checkpoints
    present = sum(map(_bytes_there, items))
    return {
        "checkpoints": checkpoints,
        "trainings_at_once": at_once,
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


def _run(plan: Plan, name: str, items: Sequence[Item], measured: Mapping[str, Rates]) -> dict[str, Any]:
    """A run's first seed."""
    from vsepp.config.costs import captions_of, steps_of
    from vsepp.config.plan import seeded

    spec = plan.models[name].spec
    artefact = plan.table["run", seeded(name, spec.init_seed)]
    pairs = captions_of(plan.owner(artefact.inputs["corpus"]).spec, spec.train_splits)
    steps = steps_of(spec, pairs)
    reads = artefact.inputs.get("tape") or (
        artefact.inputs.get("features") if spec.trainset != "RC" else None
    )
    return {
        "id": name,
        "pairs": pairs,
        "steps_per_epoch": steps,
        "epochs": spec.schedule.epochs,
        "steps": None if steps is None else steps * spec.schedule.epochs,
        "hours": _hours([item for item in items if item.path == artefact.folder], measured),
        "reads": next((item.label for item in items if item.path == reads), None),
        "from": spec.finetune_from,
    }


def _hours(items: Iterable[Item], measured: Mapping[str, Rates]) -> list[dict[str, Any]]:
    """Hours of making some artefacts on each device; without what is `missing`, and where images are `uncounted`."""
    from vsepp.config.costs import time_of

    work = [work for item in items for work in item.work]
    return [time_of(work, rates)._asdict() for rates in measured.values()]


def render(found: Mapping[str, Any]) -> list[str]:
    """The report as lines, at most 110 columns wide but for names that are longer."""
    seeds = ", ".join(map(str, found["seeds"]))
    head = f"{found['preset']}, variant {found['variant']}: {len(found['runs'])} runs, seeds {seeds}"
    return [head, *_file_lines(found), *_cost_lines(found), *_disk_lines(found), *_run_lines(found)]


def _file_lines(found: Mapping[str, Any]) -> list[str]:
    files, lines = found["files"], ["", "1. Files"]
    if TITLES["scenes"] in found["kinds"]:
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


def _cost_lines(found: Mapping[str, Any]) -> list[str]:
    """Bytes and hours by kind, and of what all runs and seeds share."""
    columns = [f"hours [{number}]" for number, _ in enumerate(found["devices"], 1)]
    lines = ["", "2. From nothing, all seeds: disk, and hours of a device"]
    lines += [f"  [{number}] {device}" for number, device in enumerate(found["devices"], 1)]
    if all(device.startswith("cpu, ") for device in found["devices"]):
        lines.append("  GPU-hours: not measured")
    lines.append(
        f"  {'':36} {'':>12} {'bytes':>14} {'there':>12}" + "".join(f"{name:>13}" for name in columns)
    )
    for title, kind in found["kinds"].items():
        size = _bytes(kind["bytes"]) + (" + ?" if kind["unknown"] else "")
        hours = "".join(f"{_hour_text(time, bound=True):>13}" for time in kind["hours"])
        lines.append(f"  {title:36} {kind['items']:>12} {size:>14} {_bytes(kind['present']):>12}{hours}")
    hours = "".join(f"{_hour_text(time, bound=True):>13}" for time in found["hours"])
    lines += [
        f"  {'in all':36} {'':>12} {'':>14} {'':>12}{hours}",
        "  of which, made once for all runs and seeds:",
    ]
    for item in found["shared"]:
        hours = "".join(f"{_hour_text(time):>13}" for time in item["hours"])
        label = f"{TITLES[item['kind']]}: {item['name']}"
        lines.append(f"  {label:36} {_count(item['images']):>12} {_bytes(item['bytes']):>14} {'':>12}{hours}")
    lines += _wrapped(
        "Assumed: each job has its device, or one core for decoding, to itself; other batch sizes have the measured one's "
        "rate. Not counted: downloads, tables, word ids, generated pictures and the pretraining on them, the report."
    )
    for number, time in enumerate(found["hours"], 1):
        if missing := time["missing"]:
            more = f" and {len(missing) - 6} more" if len(missing) > 6 else ""
            lines += _wrapped(
                f"[{number}] lacks {'; '.join(missing[:6])}{more}; benchmarks/measure.py measures them."
            )
    return lines


def _disk_lines(found: Mapping[str, Any]) -> list[str]:
    disk = found["disk"]
    lines = [
        "",
        "3. Disk",
        f"  checkpoints of {disk['trainings_at_once']} at once: {_bytes(disk['checkpoints'])}",
    ]
    lines.append(f"  peak: {_bytes(disk['peak'])}, of which {_bytes(disk['lasting'])} stay")
    text = "Assumed: 12,000 words, 60 bytes of tables and word ids a caption, two checkpoints kept while a third is written. "
    if disk["keep_tapes"]:
        text += "Random-crop features are kept (keep_tapes)."
    elif disk["tapes_together"]:
        text += (
            "Random-crop features go after their last reader (keep_tapes: false): those of one corpus and encoder lie there at "
            f"a time, at most {_bytes(disk['tapes_largest'])}; if all were written before the first go, the peak would be "
            f"{_bytes(disk['peak_all_tapes'])}."
        )
    lines += _wrapped(text)
    if unknown := sorted({name for kind in found["kinds"].values() for name in kind["unknown"]}):
        lines += _wrapped(f"Not in these sums, for want of a size: {', '.join(unknown)}.")
    text = (
        f"Free in {disk['folder']}: {_bytes(disk['free'])}; still to be written: {_bytes(disk['to_write'])}."
    )
    if disk["to_write"] <= disk["free"]:
        return [*lines, *_wrapped(text)]
    lines += _wrapped(f"{text} IT DOES NOT FIT.")
    if disk["tapes_together"]:
        lines += _wrapped(
            "Free some, link results/ to a larger disk, or compute the random-crop features inside each training instead of "
            "writing them, which takes their place on disk and costs every run its own pass of the encoder:"
        )
        lines.append(f"    {_INLINE}")
    return lines


def _run_lines(found: Mapping[str, Any]) -> list[str]:
    runs = found["runs"]
    heads = "".join(f"{f'hours [{number}]':>13}" for number, _ in enumerate(found["devices"], 1))
    name = max([len(run["id"]) for run in runs] + [3])
    lines = ["", "4. Runs, one seed each, validations included"]
    lines.append(f"  {'run':{name}} {'pairs':>7} {'steps':>5} {'ep.':>3} {'in all':>7}{heads}  reads")
    for run in runs:
        hours = "".join(f"{_hour_text(time):>13}" for time in run["hours"])
        reads = f"from {run['from']}" if run["from"] else run["reads"] or "its own encoder passes"
        lines.append(
            f"  {run['id']:{name}} {_count(run['pairs']):>7} {_count(run['steps_per_epoch']):>5} {run['epochs']:>3} "
            f"{_count(run['steps']):>7}{hours}  {reads}"
        )
    if any(run["pairs"] is None for run in runs):
        lines += _wrapped("?: the data set's entry in datasets.yaml gives no number of images or captions.")
    return lines


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _bytes(count: float | None) -> str:
    return "size not known" if count is None else bytes_text(count)


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _hour_text(time: Mapping[str, Any], *, bound: bool = False) -> str:
    """Hours, or what stands in their place; with `bound`, a sum that lacks a part as what it is at least."""
    hours, lacking = time["hours"], time["missing"] or time["uncounted"]
    if lacking and not (bound and hours):
        return "not measured" if time["missing"] else "?"
    digits = 0 if hours >= 100 else 1 if hours >= 10 else 2
    return ("≥ " if lacking else "") + f"{hours:,.{digits}f}"
