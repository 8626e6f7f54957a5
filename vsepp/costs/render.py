"""The report as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vsepp.costs.render_totals import total_lines
from vsepp.costs.text import bytes_text, count_text, hour_text, wrapped

_INLINE = "--config label=inline runs='{default: {rc_features: inline}}'"


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
        total_lines(report),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections)


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
        size = "a folder" if file["kind"] == "folder" else bytes_text(file["size"])
        lines.append(f"  {file['name']:28} {size:>14}  {where:36} {sha256}")
    for encoder in report["elsewhere"]:
        lines.append(f"  weights of {encoder}: fetched by torchvision when the encoder is cut")
    for file in files:
        if file["state"] == "by hand":
            lines += ["", f"  {file['name']}:", *wrapped(file["instructions"], "    ")]
    fetched = [file for file in files if file["state"] == "to fetch"]
    if fetched:
        unknown = sum(file["size"] is None for file in fetched)
        more = f" and {unknown} of unknown size" if unknown else ""
        total = sum(file["size"] or 0 for file in fetched)
        lines.append(
            f"  to fetch: {bytes_text(total)}{more}; `vsepp fetch --preset {report['preset']}` does only that"
        )
    return lines


def _disk_lines(report: Mapping[str, Any]) -> list[str]:
    disk = report["disk"]
    lines = ["2. Disk"]
    for name, kind in disk["kinds"].items():
        unknown = f", and {len(kind['unknown'])} of unknown size" if kind["unknown"] else ""
        there = f", {bytes_text(kind['present'])} there already" if kind["present"] else ""
        lines.append(f"  {name:22} {bytes_text(kind['bytes']):>12}  {kind['items']} in all{unknown}{there}")
    at_once = disk["trainings_at_once"]
    lines.append(
        f"  {'checkpoints':22} {bytes_text(disk['checkpoints']):>12}  of {at_once} training{'s' if at_once > 1 else ''} at once"
    )
    lines.append(f"  {'peak':22} {bytes_text(disk['peak']):>12}  of which {bytes_text(disk['lasting'])} stay")
    assumed = "Assumed: 12,000 words, 60 bytes of tables and word ids a caption, two checkpoints kept while a third is written. "
    if disk["keep_tapes"]:
        assumed += "Tapes are kept (keep_tapes)."
    elif disk["tapes_together"]:
        assumed += (
            f"Tapes go after their last reader (keep_tapes: false): those of one corpus and encoder lie there at a time, at "
            f"most {bytes_text(disk['tapes_largest'])}; if all were written before the first goes, it would be "
            f"{bytes_text(disk['peak_all_tapes'])}."
        )
    lines += wrapped(assumed)
    if unknown := sorted({name for kind in disk["kinds"].values() for name in kind["unknown"]}):
        lines += wrapped(f"Not in these sums, for want of a size: {', '.join(unknown)}.")
    verdict = f"Free in {disk['folder']}: {bytes_text(disk['free'])}; still to be written: {bytes_text(disk['to_write'])}."
    if disk["to_write"] > disk["free"]:
        verdict += " IT DOES NOT FIT."
    lines += wrapped(verdict)
    if disk["to_write"] > disk["free"] and disk["tapes_together"]:
        lines += wrapped(
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
        lines += wrapped(f"{device['title']}: {device['note']}")
    lines.append(
        f"  {'run':{name}} {'pairs':>7} {'steps':>5} {'ep.':>3} {'in all':>7} {titles}  shares (+ others)"
    )
    for run in runs:
        hours = " ".join(
            f"{hour_text(forward, training):>12}"
            for forward, training in zip(run["forward"], run["training"], strict=True)
        )
        shares = f"from {run['from']}" if run["from"] else run["shares"] or "its own encoder passes"
        others = f" +{len(run['with'])}" if run["with"] else ""
        lines.append(
            f"  {run['id']:{name}} {count_text(run['pairs']):>7} {count_text(run['steps_per_epoch']):>5} {run['epochs']:>3} "
            f"{count_text(run['steps']):>7} {hours}  {shares}{others}"
        )
    if any(run["pairs"] is None for run in runs):
        lines += wrapped("?: the data set's entry in datasets.yaml gives no number of images or captions.")
    return lines


def _pass_lines(report: Mapping[str, Any]) -> list[str]:
    titles = " ".join(f"{device['title']:>12}" for device in report["devices"])
    lines = ["4. Shared passes, made once for all runs and seeds", f"  {'':30} {'images':>12} {titles}"]
    for shared in report["passes"]:
        hours = " ".join(f"{hour_text(time):>12}" for time in shared["hours"])
        lines.append(f"  {shared['name']:30} {count_text(shared['images']):>12} {hours}")
        readers = ", ".join([*shared["for"], *shared["read_by"]])
        lines += wrapped(f"read by {readers}", "      ")
    return lines
