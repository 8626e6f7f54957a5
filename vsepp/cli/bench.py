"""Measure what the package can do on this machine, and show what was measured."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from vsepp.bench.catalogue import chosen, groups
from vsepp.bench.records import read_results
from vsepp.bench.report import render
from vsepp.bench.rounds import FULL, QUICK
from vsepp.cli.common import add_machine, add_step
from vsepp.cli.measuring import Measuring, machine_name
from vsepp.errors import VseppError

RESULTS = Path("benchmarks") / "results"


def add_steps(steps: Any) -> None:
    """Add `bench`."""
    parser = add_step(
        steps, "bench", bench, "measure encoders, training steps, a reference step, evaluation and memory"
    )
    parser.add_argument(
        "--quick", action="store_true", help="without networks of full size: some minutes on two cores"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="names or patterns, such as 'step-*'"
    )
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"folder of the results ({RESULTS})")
    parser.add_argument(
        "--report",
        nargs="?",
        type=Path,
        const=RESULTS,
        metavar="FOLDER",
        help="measure nothing; print all results of a folder as Markdown, and the hours of the paper",
    )
    parser.add_argument(
        "--params",
        type=Path,
        default=Path("params"),
        help="with --report: folder of the parameters, whose preset `paper` is reckoned",
    )
    add_machine(parser)


def bench(given: argparse.Namespace) -> None:
    """Measure, or print what was measured."""
    if given.report:
        records = read_results(given.report)
        print(render(records))
        print(_hours(records, given.params))
    else:
        _measure(given)


def _hours(records: list[dict[str, Any]], params: Path) -> str:
    """Hours of the paper's plan on each measured device."""
    from vsepp.config import make_plan
    from vsepp.costs.hours import hours_report
    from vsepp.costs.rates import rates_of

    return hours_report(make_plan(params, {"preset": "paper"}), rates_of(records), machine_name())


def _measure(given: argparse.Namespace) -> None:
    """Measure one group after the other; what a failing one costs is only its own results."""
    measuring = Measuring.start(given, quick=given.quick)
    wanted = chosen(groups(given.quick, measuring.device.type), given.only)
    path = given.output / measuring.file_name
    problems = measuring.measure(wanted, QUICK if given.quick else FULL, path)
    if measuring.record["results"]:
        print(render([measuring.record]))
        print(f"\nWritten to {path}")
    if problems:
        raise VseppError(f"{len(problems)} of the groups were not measured: " + "; ".join(problems))
