"""The last section of the report as text: hours in all, chains of jobs, and what is not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vsepp.costs.text import digits, hour_text, wrapped

_CALIBRATE = "vsepp plan --preset {} --calibrate --save"


def total_lines(report: Mapping[str, Any]) -> list[str]:
    """Hours of each phase, amounts, chains of jobs, and what hours lack."""
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
            lines.append(_total_line(label, [hour_text(entry["hours"][k], whole=False) for k in columns]))
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
    return hour_text(total, whole=False)


def _amount_lines(phases: Mapping[str, Any]) -> list[str]:
    sums: dict[str, int] = {}
    for entry in phases.values():
        for what, amount in entry["items"].items():
            sums[what] = sums.get(what, 0) + amount
    return wrapped("To process: " + "; ".join(f"{amount:,} {what}" for what, amount in sums.items()) + ".")


def _chain_lines(report: Mapping[str, Any]) -> list[str]:
    totals, lines = report["totals"], []
    for k, (device, chain) in enumerate(zip(report["devices"], totals["chains"], strict=True)):
        if not chain["chain_hours"]:
            continue
        times = [entry["hours"][k] for entry in totals["all_seeds"].values()]
        least = "≥ " if any(time["missing"] or time["uncounted"] for time in times) else ""
        count = device["devices"]
        on = f"{count} GPU{'s' if count > 1 else ''}" if device["gpu"] else device["title"]
        lines += wrapped(
            f"{device['title']}: {least}{digits(chain['wall_hours'])} h from the first job to the last on {on}; however "
            f"many devices there are, {least}{digits(chain['chain_hours'])} h: {' → '.join(chain['chain'])}."
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
    lines += wrapped(f"At once, where there are devices: {'; '.join(said)}.")
    lines += wrapped(
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
            lines += wrapped(f"{device['title']}, not measured: {some}.")
    if lines:
        lines += wrapped(
            "To get hours, measure for a minute or two on the machine that will train: "
            f"`{_CALIBRATE.format(report['preset'])}`"
        )
    return lines
