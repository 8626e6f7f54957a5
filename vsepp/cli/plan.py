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
_TIMED = {TITLES[kind] for kind in ("store", "features", "tape", "run", "evaluation")}
SHARED = ("store", "features", "published", "tape")
"""Kinds that all runs and seeds share, shown one by one."""
_INLINE = "--config label=inline runs='{default: {rc_features: inline}}'"


def add_steps(steps: Any) -> None:
    """Add `plan`."""
    what = "say what a preset costs, in files, disk and hours, before anything is spent"
    parser = add_step(steps, "plan", plan, what)
    add_plan_options(parser)
    parser.add_argument("--rates", type=Path, help=f"measured rates; {RATES} beside the parameters")
    parser.add_argument("--device", default="", help="part of the name of a measured device or its machine")
    parser.add_argument("--json", action="store_true", help="print everything as JSON, nothing rounded")


def plan(given: argparse.Namespace) -> None:
    """Print what a plan costs."""
    from vsepp.config.costs import read_rates
    from vsepp.sources.sums import read_lock

    chosen = plan_of(given)
    if given.rates is not None and not given.rates.is_file():
        raise VseppError(f"{given.rates}: no such file; expected what benchmarks/measure.py --append writes")
    rates = given.rates or given.params.parent / RATES
    measured = read_rates(rates) if rates.is_file() else {}
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
    return {
        "preset": plan.preset,
        "variant": plan.variant,
        "seeds": plan.parameters.settings.seeds,
        "devices": list(measured),
        "files": [_file(name, file, recorded) for name, file in files_read(plan, needed).items()],
        "fetched_by_torchvision": [
            f"{each.spec.name} ({each.spec.weights})"
            for each in needed
            if each.kind == "encoder" and each.spec.weights.startswith("torchvision/")
        ],
        "artefacts": _artefacts(items, measured),
        "hours": _hours(items, measured),
        "disk": _disk(plan, items, free),
        "runs": [
            _run(plan, name, items, measured) for name, model in plan.models.items() if not model.released
        ],
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


def _artefacts(items: Sequence[Item], measured: Mapping[str, Rates]) -> list[dict[str, Any]]:
    """What is made: shared passes one by one, and of other kinds how many."""
    groups: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        if item.kind in TITLES:
            name = item.label if item.kind in SHARED else ""
            groups.setdefault((TITLES[item.kind], name), []).append(item)
    return [
        {
            "kind": kind,
            "name": name,
            "items": len(alike),
            "images": alike[0].work[0].amount if name and alike[0].work else None,
            "bytes": sum(item.size or 0 for item in alike),
            "unknown": sorted({item.label for item in alike if item.size is None}),
            "hours": _hours(alike, measured),
        }
        for (kind, name), alike in groups.items()
    ]


def _hours(items: Iterable[Item], measured: Mapping[str, Rates]) -> list[dict[str, Any]]:
    """Hours of making some artefacts on each device, without what is `missing`."""
    from vsepp.config.costs import hours_of

    work = [work for item in items for work in item.work]
    return [
        dict(zip(("hours", "missing"), hours_of(work, rates), strict=True)) for rates in measured.values()
    ]


def _disk(plan: Plan, items: Sequence[Item], free: int) -> dict[str, Any]:
    from vsepp.config.costs import checkpoint_bytes

    at_once = max(len(devices.visible_gpus()), 1)
    states = (checkpoint_bytes(artefact.spec) or 0 for artefact in plan.of_kind("run").values())
    checkpoints = sum(sorted(states, reverse=True)[:at_once])
    tapes = [item.size or 0 for item in items if item.kind == "tape"]
    largest, together = max(tapes, default=0), sum(tapes)
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


def _run(plan: Plan, name: str, items: Sequence[Item], measured: Mapping[str, Rates]) -> dict[str, Any]:
    """A run's first seed."""
    from vsepp.config.costs import captions_of, steps_of
    from vsepp.config.plan import seeded

    spec = plan.models[name].spec
    artefact = plan.table["run", seeded(name, spec.init_seed)]
    inputs, owner = artefact.inputs, plan.owner(artefact.inputs["corpus"])
    pairs = captions_of(owner.spec, spec.train_splits) if owner else None
    steps = steps_of(spec, pairs)
    return {
        "id": name,
        "pairs": pairs,
        "steps_per_epoch": steps,
        "epochs": spec.schedule.epochs,
        "steps": None if steps is None else steps * spec.schedule.epochs,
        "hours": _hours([item for item in items if item.path == artefact.folder], measured),
        "reads": next((item.label for item in items if item.path == inputs.get(spec.reads)), None),
        "from": spec.finetune_from,
    }


def render(found: Mapping[str, Any]) -> list[str]:
    """The report as lines, at most 110 columns wide but for names that are longer."""
    seeds = ", ".join(map(str, found["seeds"]))
    head = f"{found['preset']}, variant {found['variant']}: {len(found['runs'])} runs, seeds {seeds}"
    return [head, *_file_lines(found), *_cost_lines(found), *_disk_lines(found["disk"]), *_run_lines(found)]


def _file_lines(found: Mapping[str, Any]) -> list[str]:
    said = {"to fetch": "to fetch from {host}", "by hand": "by hand, see below"}
    rows = [["file", "size", "where", "sha256"]]
    for file in found["files"]:
        size = "a folder" if file["kind"] == "folder" else _bytes(file["size"])
        where = said.get(file["state"], file["state"]).format(**file)
        rows.append([file["name"], size, where, file["sha256"] or "at first download"])
    lines = ["", "1. Files", *_table("lrll", rows)]
    if any(artefact["kind"] == TITLES["scenes"] for artefact in found["artefacts"]):
        lines.append("  none to fetch: the pictures and captions are generated here")
    for encoder in found["fetched_by_torchvision"]:
        lines.append(f"  weights of {encoder}: fetched by torchvision when the encoder is cut")
    for file in found["files"]:
        if file["state"] == "by hand":
            lines += ["", f"  {file['name']}:", *_wrapped(file["instructions"], "    ")]
    if fetched := [file["size"] for file in found["files"] if file["state"] == "to fetch"]:
        unknown = f" and {fetched.count(None)} of unknown size" if None in fetched else ""
        total = _bytes(sum(size or 0 for size in fetched))
        lines.append(f"  to fetch: {total}{unknown}; `vsepp fetch --preset {found['preset']}` does only that")
    return lines


def _cost_lines(found: Mapping[str, Any]) -> list[str]:
    lines = ["", "2. What is made, from nothing, for all seeds; hours of a device, of decoding on one core"]
    lines += [f"  [{number}] {device}" for number, device in enumerate(found["devices"], 1)]
    if all(device.startswith("cpu, ") for device in found["devices"]):
        lines.append("  GPU-hours: not measured")
    rows = [["", "", "images", "bytes", *_hour_heads(found)]]
    for made in found["artefacts"]:
        size = _bytes(made["bytes"]) + (" + ?" if made["unknown"] else "")
        hours = [_hour_text(time, bound=True) for time in made["hours"]] if made["kind"] in _TIMED else []
        images = _count(made["images"]) if made["name"] else ""
        rows.append([made["kind"], made["name"] or str(made["items"]), images, size, *hours])
    rows.append(["in all", "", "", "", *(_hour_text(time, bound=True) for time in found["hours"])])
    lines += _table("ll" + 9 * "r", rows)
    for number, time in enumerate(found["hours"], 1):
        if missing := time["missing"]:
            more = f" and {len(missing) - 6} more" if len(missing) > 6 else ""
            lines += _wrapped(
                f"[{number}] lacks {'; '.join(missing[:6])}{more}; benchmarks/measure.py measures them."
            )
    if unknown := sorted({name for made in found["artefacts"] for name in made["unknown"]}):
        lines += _wrapped(f"Not in these sums, for want of a size: {', '.join(unknown)}.")
    return lines


def _disk_lines(disk: Mapping[str, Any]) -> list[str]:
    text = (
        f"At most {_bytes(disk['peak'])} at a time, of which {_bytes(disk['lasting'])} stay and {_bytes(disk['checkpoints'])} are "
        f"checkpoints of {disk['trainings_at_once']} training{'s' if disk['trainings_at_once'] > 1 else ''} at once."
    )
    if disk["tapes_together"] and not disk["keep_tapes"]:
        text += (
            f" Random-crop features, {_bytes(disk['tapes_together'])}, go after their last reader (keep_tapes: false): counted are "
            f"the largest, {_bytes(disk['tapes_largest'])}."
        )
    text += (
        f" Free in {disk['folder']}: {_bytes(disk['free'])}; still to be written: {_bytes(disk['to_write'])}."
    )
    if disk["to_write"] <= disk["free"]:
        return ["", "3. Disk", *_wrapped(text)]
    lines = ["", "3. Disk", *_wrapped(f"{text} IT DOES NOT FIT.")]
    if disk["tapes_together"]:
        lines += _wrapped(
            "Free some, link results/ to a larger disk, or compute the random-crop features inside each training instead of "
            "writing them, which takes their place on disk and costs every run its own pass of the encoder:"
        )
        lines.append(f"    {_INLINE}")
    return lines


def _run_lines(found: Mapping[str, Any]) -> list[str]:
    hours = _hour_heads(found)
    rows = [["run", "pairs", "steps", "epochs", "in all", *hours, "reads"]]
    for run in found["runs"]:
        counts = [_count(run[key]) for key in ("pairs", "steps_per_epoch", "epochs", "steps")]
        reads = f"from {run['from']}" if run["from"] else run["reads"] or "its own encoder passes"
        rows.append([run["id"], *counts, *map(_hour_text, run["hours"]), reads])
    lines = [
        "",
        "4. Runs, one seed each, validations included",
        *_table("lrrrr" + "r" * len(hours) + "l", rows),
    ]
    if any(run["pairs"] is None for run in found["runs"]):
        lines += _wrapped("?: the data set's entry in datasets.yaml gives no number of images or captions.")
    return lines


def _hour_heads(found: Mapping[str, Any]) -> list[str]:
    return [f"hours [{number}]" for number, _ in enumerate(found["devices"], 1)]


def _table(align: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table under its heads, none where there are only these; `align` says `l` or `r` of each column."""
    widths = [max(len(row[column]) for row in rows if column < len(row)) for column in range(len(rows[0]))]
    lines = []
    for row in rows if len(rows) > 1 else []:
        cells = zip(row, align, widths, strict=False)
        lines.append(
            "  ".join(
                [
                    "",
                    *(cell.rjust(width) if side == "r" else cell.ljust(width) for cell, side, width in cells),
                ]
            )
        )
    return [line.rstrip() for line in lines]


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _bytes(count: float | None) -> str:
    return "size not known" if count is None else bytes_text(count)


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _hour_text(time: Mapping[str, Any], *, bound: bool = False) -> str:
    """Hours, or what stands in their place; with `bound`, a sum that lacks a part as what it is at least."""
    hours, missing = time["hours"], time["missing"]
    if missing and not (bound and hours):
        return "not measured"
    digits = 0 if hours >= 100 else 1 if hours >= 10 else 2
    return ("≥ " if missing else "") + f"{hours:,.{digits}f}"
