"""Hours of a whole plan on every device that was measured, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vsepp.config.plan import Plan
from vsepp.costs.describe import totals
from vsepp.costs.devices import Column, column
from vsepp.costs.rates import Rates, networks
from vsepp.costs.text import hour_text
from vsepp.costs.work import PHASES, jobs_of


def hours_report(plan: Plan, records: Sequence[Rates], machine: str) -> str:
    """A table of hours by device and phase, and which rates each device lacks.

    Parameters
    ----------
    plan
        What is reckoned: all its runs and seeds.
    records
        Measured rates.
    machine
        Name of this one.
    """
    columns = [column(record, machine, 1) for record in records]
    found = totals(plan, jobs_of(plan, networks(records)), columns)
    heads = ["device", *PHASES, "in all", "first job to last, one device"]
    seeds = f"{len(plan.seeds)} seed{'s' if len(plan.seeds) > 1 else ''}"
    lines = [
        f"### Hours of the whole preset `{plan.preset}`: {len(plan.runs)} runs, {seeds}",
        "",
        "Counts of images, pairs and steps as `vsepp plan` has them, at the rates measured above; nothing is "
        "assumed where a rate is missing, and a sum with ≥ lacks it. Stores are written by all cores.",
        "",
        _row(heads),
        _row("---" for _ in heads),
    ]
    lines += [_row(_cells(found, number, each)) for number, each in enumerate(columns)]
    missing = [_missing(found, number, each, plan.preset) for number, each in enumerate(columns)]
    if not any(each.gpu for each in columns):
        missing.append("GPU-hours: not known, since no GPU was measured; run `vsepp bench` on one.")
    return "\n".join([*lines, *(text for line in missing if line for text in ("", line))])


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(found: Mapping[str, Any], number: int, each: Column) -> list[str]:
    times = [found["all_seeds"][phase]["hours"][number] for phase in PHASES]
    chain = found["chains"][number]
    lacking = any(time["missing"] or time["uncounted"] for time in times)
    whole = {"hours": sum(time["hours"] for time in times), "missing": lacking, "uncounted": False}
    wall = {"hours": chain["wall_hours"], "missing": lacking, "uncounted": False}
    said = [hour_text(time, whole=False) for time in [*times, whole, wall]]
    return [each.note, *said]


def _missing(found: Mapping[str, Any], number: int, each: Column, preset: str) -> str:
    times = [found["all_seeds"][phase]["hours"][number] for phase in PHASES]
    missing = sorted({reason for time in times for reason in time["missing"]})
    if not missing:
        return ""
    return (
        f"{each.note}: not measured are {'; '.join(missing)}. Measure them there with `vsepp bench`, or with "
        f"`vsepp plan --preset {preset} --calibrate --save`."
    )
