"""Look at the parameters without computing anything."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from vsepp.cli.common import add_step
from vsepp.errors import VseppError


def add_steps(steps: Any) -> None:
    """Add `runs`, `show` and `schema`."""
    for name, call, description in (
        ("runs", runs, "list the runs of a preset"),
        ("show", show, "print one run's values, each with where it was set"),
    ):
        parser = add_step(steps, name, call, description)
        if name == "show":
            parser.add_argument("run", help="id of the run")
            parser.add_argument(
                "--json", action="store_true", help="print the spec that `vsepp train --spec` reads"
            )
        parser.add_argument("--params", type=Path, default=Path("params"), help="folder of the parameters")
        parser.add_argument(
            "--config",
            nargs="*",
            default=[],
            metavar="KEY=VALUE",
            help="overrides, as Snakemake's --config takes them: preset=paper fidelity=code",
        )
    parser = add_step(steps, "schema", schema, "print the JSON schema of the files in params/")
    parser.add_argument("--output", type=Path, help="write it to this file instead")


def runs(given: argparse.Namespace) -> None:
    """List runs: id, system, data, training set, encoder, rows of the paper."""
    plan = _plan(given)
    for name, run in plan.runs.items():
        spec = run.spec
        feeds = ", ".join(
            f"{row} ({protocol})" for row, protocol in plan.parameters.get(name, "feeds").items()
        )
        trainset = f"{spec.trainset}{'+rV' if spec.restval else ''}{' FT' if spec.finetuned else ''}"
        print(f"{name:32} {spec.system:8} {spec.dataset:7} {trainset:10} {spec.encoder.name:7} {feeds}")


def show(given: argparse.Namespace) -> None:
    """Print a run's resolved values."""
    from vsepp.spec import to_json

    plan = _plan(given)
    if given.run not in plan.runs:
        raise VseppError(f"{given.run}: no run of preset {plan.preset}; there are {', '.join(plan.runs)}")
    if given.json:
        print(to_json(plan.runs[given.run].spec))
        return
    for key, value in plan.parameters.runs[given.run].items():
        print(f"{key:22} {json.dumps(value.value, ensure_ascii=False):28} {value.origin}")


def schema(given: argparse.Namespace) -> None:
    """Print or write the JSON schema."""
    from vsepp.config.describe import json_schema

    text = json.dumps(json_schema(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


def _plan(given: argparse.Namespace) -> Any:
    import yaml

    from vsepp.config import make_plan

    overrides: dict[str, Any] = {}
    for item in given.config:
        key, equals, value = item.partition("=")
        if not equals:
            raise VseppError(f"--config: got {item!r}; expected KEY=VALUE")
        try:
            overrides[key] = yaml.safe_load(value)
        except yaml.YAMLError:  # `only=*-1c`, which YAML takes for an alias
            overrides[key] = value
    return make_plan(given.params, overrides)
