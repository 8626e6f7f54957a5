"""What a preset costs, before anything is spent: files, disk, and times where they were measured."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vsepp.cli.common import add_step
from vsepp.cli.make import LOCK
from vsepp.cli.show import add_plan_options, plan_of
from vsepp.errors import VseppError, as_started
from vsepp.runtime.progress import bytes_text, duration_text, table

RATES = Path("benchmarks") / "results.csv"
_INLINE = "--config label=inline runs='{default: {rc_features: inline}}'"


def add_steps(steps: Any) -> None:
    """Add `plan`."""
    what = "estimate the downloads, disk space and time that a preset takes; computes nothing"
    parser = add_step(steps, "plan", plan, what)
    add_plan_options(parser)
    parser.add_argument("--rates", type=Path, metavar="FILE", help=f"measured rates; by default {RATES}")
    parser.add_argument(
        "--device",
        default="",
        metavar="NAME",
        help="use the rates of this device: part of its name, or of its machine's name; "
        "by default the device that was measured for most of the plan",
    )
    what = "count what it would take if the train split of each corpus had N pairs, one column an N"
    parser.add_argument("--pairs", type=int, nargs="+", metavar="N", help=what)
    parser.add_argument("--json", action="store_true", help="print everything as JSON, nothing rounded")


def plan(given: argparse.Namespace) -> None:
    """Print what a plan costs."""
    from vsepp.config.costs import counted, read_rates, report
    from vsepp.sources.sums import read_lock

    if min(given.pairs or [1]) < 1:
        raise VseppError(f"--pairs: expected numbers of at least 1, got {min(given.pairs)}")
    chosen = plan_of(given)
    if given.pairs:
        columns = [counted(chosen, pairs) for pairs in given.pairs]
        print(json.dumps(columns, indent=1) if given.json else "\n".join(_counted_lines(columns)))
        return
    if given.rates is not None and not given.rates.is_file():
        raise VseppError(f"{given.rates}: no such file; expected what benchmarks/measure.py --append writes")
    rates = given.rates or given.params.parent / RATES
    measured = read_rates(rates) if rates.is_file() else {}
    places = [place for place in reversed(measured) if given.device.lower() in place.lower()]
    if given.device and not places:
        known = "; ".join(measured) or "none"
        raise VseppError(f"--device: {given.device!r} was not measured; recorded are: {known}")
    free, recorded = shutil.disk_usage(".").free, read_lock(given.params / LOCK)
    # The device that was measured for most of the plan; of several, the one measured last.
    by_place: dict[str | None, dict[str, Any]] = {
        place: report(chosen, measured[place], recorded, free) for place in places
    } or {None: report(chosen, {}, recorded, free)}
    device = min(by_place, key=lambda place: len(by_place[place]["hours"]["missing"]))
    found = by_place[device]
    found |= {"device": device, "measured": list(measured)}
    print(json.dumps(found, indent=1, ensure_ascii=False) if given.json else "\n".join(render(found)))


def render(found: Mapping[str, Any]) -> list[str]:
    """The report as lines, at most 110 columns wide but for names that are longer."""
    seeds = ", ".join(map(str, found["seeds"]))
    head = f"Preset {found['preset']}, variant {found['variant']}: {len(found['runs'])} runs, seeds {seeds}"
    return [head, *_file_lines(found), *_made_lines(found), *_disk_lines(found["disk"])]


def _file_lines(found: Mapping[str, Any]) -> list[str]:
    rows = [["file", "size", "where", "sha256"]]
    for file in found["files"]:
        sha256 = file["sha256"] or "at first download"
        rows.append([file["name"], _bytes(file["size"]), file["state"], sha256])
    lines = ["", "1. Files", *(table(rows, "lrll", "  ") if found["files"] else [])]
    if any(made["kind"] == "scenes" for made in found["artefacts"]):
        lines.append("  none to fetch: the pictures and captions are generated here")
    for weights in found["from_torchvision"]:
        lines.append(f"  {weights}: fetched by torchvision when the encoder is cut")
    for file in found["files"]:
        if file["instructions"]:
            lines += ["", f"  {file['name']}:", *_wrapped(file["instructions"], "    ")]
    if fetched := [file["size"] for file in found["files"] if file["state"].startswith("to fetch")]:
        unknown = f" and {fetched.count(None)} of unknown size" if None in fetched else ""
        total = _bytes(sum(size or 0 for size in fetched))
        lines.append(f"  to fetch: {total}{unknown}; these alone:")
        lines.append(f"  {as_started()}snakemake --cores 4 all_downloads --config preset={found['preset']}")
    return lines


def _made_lines(found: Mapping[str, Any]) -> list[str]:
    rows = [["what", "which, or number", "images", "size", "time"]]
    for made in found["artefacts"]:
        size = (_bytes(made["bytes"]) if made["bytes"] else "") + (" + ?" if made["unknown"] else "")
        images = _count(made["images"]) if made["name"] else ""
        time = _time(made["hours"])
        rows.append([made["title"], made["name"] or str(made["items"]), images, size, time])
    rows.append(["in all", "", "", "", _time(found["hours"])])
    lines = ["", "2. What is made, from nothing, for all seeds", *table(rows, "llrrr", "  ")]
    device, missing = found["device"] or "cpu, none measured", found["hours"]["missing"]
    said = f"Times: measured on {device}; decoding on one core; without validations and evaluations."
    if len(found["measured"]) > 1:
        said += f" --device chooses another one: {'; '.join(found['measured'])}."
    if missing:
        more = f" and {len(missing) - 6} more" if len(missing) > 6 else ""
        said += f" They lack {'; '.join(missing[:6])}{more}: benchmarks/measure.py measures them."
    return [*lines, *_wrapped(said)]


def _counted_lines(found: Sequence[Mapping[str, int | None]]) -> list[str]:
    rows = [["counted, never measured", *(f"{one['pairs']:,} pairs" for one in found)]]
    for what in list(found[0])[1:]:
        text = _bytes if what.startswith(("bytes", "memory")) else _count
        rows.append([what, *(text(one[what]) for one in found)])
    return table(rows, "l" + "r" * len(found))


def _disk_lines(disk: Mapping[str, Any]) -> list[str]:
    text = f"At most {_bytes(disk['peak'])} at a time; {_bytes(disk['lasting'])} stay."
    if disk["tapes"] and not disk["keep_tapes"]:
        text += (
            f" Feature caches of random crops ({_bytes(disk['tapes'])} in all) are deleted after their last reader (keep_tapes: "
            "false); only the largest are counted."
        )
    text += (
        " Each running training also needs checkpoints, up to twelve times its model. Free here: "
        f"{_bytes(disk['free'])}; still to be written: {_bytes(disk['to_write'])}."
    )
    fits = disk["to_write"] <= disk["free"]
    lines = ["", "3. Disk", *_wrapped(text if fits else f"{text} IT DOES NOT FIT.")]
    if disk["tapes"] and not fits:
        lines += _wrapped(
            "Free some, link results/ to a larger disk, or compute the features of random crops inside each training. This "
            "needs no feature cache, but every run then runs the encoder itself:"
        )
        lines.append(f"    {_INLINE}")
    return lines


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, 110, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _bytes(count: int | None) -> str:
    return "size not known" if count is None else bytes_text(count)


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _time(time: Mapping[str, Any]) -> str:
    """A duration as text: with `≥` where a part was not measured, `not measured` where no part was, empty for none."""
    hours, missing = time["hours"], time["missing"]
    if missing and not hours:
        return "not measured"
    return ("≥ " if missing else "") + duration_text(hours * 3600) if hours else ""
