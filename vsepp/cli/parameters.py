"""Look at the parameters, and at the models that they have made, without computing anything."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.cli.common import add_step, table
from vsepp.errors import VseppError

if TYPE_CHECKING:
    from vsepp.config import Plan


def add_steps(steps: Any) -> None:
    """Add `runs`, `show`, `fidelity`, `schema` and `models`."""
    parser = add_step(steps, "runs", runs, "list the runs of a preset and the table rows that they fill")
    add_plan_options(parser)

    parser = add_step(steps, "show", show, "print every value of a run and the file that set it")
    parser.add_argument("run", help="id of the run")
    parser.add_argument("--json", action="store_true", help="print the spec that `vsepp train --spec` reads")
    add_plan_options(parser)

    parser = add_step(
        steps, "fidelity", fidelity, "print where the paper's text and its released code differ, by key"
    )
    _add_params(parser)
    parser.add_argument("--output", type=Path, help="write it to this file instead")

    parser = add_step(steps, "schema", schema, "print the JSON schema of the files in params/")
    parser.add_argument("--output", type=Path, help="write it to this file instead")

    parser = add_step(steps, "models", models, "list trained models with their metrics and digests")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_plan_options(parser)


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose a plan, as every command that looks at one has them; see `plan_of`."""
    _add_params(parser)
    parser.add_argument("--preset", metavar="NAME", help="short for --config preset=NAME")
    parser.add_argument("--fidelity", metavar="NAME", help="short for --config fidelity=NAME")
    parser.add_argument(
        "--config",
        nargs="*",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="overrides, as Snakemake's --config takes them: seeds=[0,1] label=mine runs='{default: {flip: true}}'",
    )


def given_overrides(given: argparse.Namespace) -> list[str]:
    """Every override as KEY=VALUE, as `--config` takes it."""
    shortcuts = [f"{key}={value}" for key in ("preset", "fidelity") if (value := getattr(given, key))]
    return [*shortcuts, *given.config]


def plan_of(given: argparse.Namespace) -> Plan:
    """The plan that the options of `add_plan_options` choose.

    Raises
    ------
    VseppError
        When an override is no KEY=VALUE or stands twice, and for every mistake in the parameters.
    """
    from vsepp.config import make_plan

    overrides: dict[str, Any] = {}
    for item in given_overrides(given):
        key, equals, text = item.partition("=")
        if not equals:
            raise VseppError(f"--config: got {item!r}; expected KEY=VALUE")
        if key in overrides:
            raise VseppError(f"--config: {key} is given twice, as {overrides[key]!r} and {text!r}; keep one")
        overrides[key] = _value(text)
    return make_plan(given.params, overrides)


def _add_params(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--params", type=Path, default=Path("params"), help="folder of the parameters")


def _value(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:  # `only=*-1c`, which YAML takes for an alias
        return text


def runs(given: argparse.Namespace) -> None:
    """List runs: id, system, data, training set, encoder, rows of the papers."""
    plan = plan_of(given)
    feeds: dict[str, list[str]] = {}
    for paper in plan.parameters.papers.values():
        for row, (run, protocol) in plan.parameters.feeders(paper).items():
            feeds.setdefault(run, []).append(f"{paper.name} {row} ({protocol})")
    for name in plan.parameters.runs:
        spec = plan.models[name].spec
        trainset = f"{spec.trainset}{'+rV' if spec.restval else ''}{' FT' if spec.finetuned else ''}"
        rows = ", ".join(feeds.get(name, []))
        print(f"{name:32} {spec.system:8} {spec.dataset:7} {trainset:10} {spec.encoder.name:7} {rows}")


def show(given: argparse.Namespace) -> None:
    """Print a run's resolved values."""
    from vsepp.spec import Component, to_json

    plan = plan_of(given)
    found = plan.parameters.runs
    if given.run not in found:
        raise VseppError(f"{given.run}: no run of preset {plan.preset}; there are {', '.join(found)}")
    if given.json:
        print(to_json(plan.models[given.run].spec))
        return
    for key, value in found[given.run].items():
        said = value.value.name if isinstance(value.value, Component) else value.value
        print(f"{key:22} {json.dumps(said, ensure_ascii=False):28} {value.origin}")


def models(given: argparse.Namespace) -> None:
    """List the models that are there."""
    from vsepp.config.versions import list_models

    found = list_models(plan_of(given))
    if given.json:
        print(json.dumps(found, indent=1))
        return
    if not found:
        raise VseppError("no trained models here; train them (dvc repro) or get them (vsepp sync)")
    columns = {
        "run": "run", "seed": "seed", "protocol": "protocol", "i2t_r1": "caption R@1", "t2i_r1": "image R@1",
        "rsum": "rsum", "best_epoch": "best epoch", "megabytes": "MB", "digest": "digest", "commit": "commit",
    }  # fmt: skip
    rows = [list(columns.values()), *([_cell(entry[key]) for key in columns] for entry in found)]
    print(*table(rows, "l" * len(columns)), sep="\n")
    if any(entry["commit"].endswith("+") for entry in found):
        print("\n+ made with uncommitted changes of code or parameters, or from something that was")


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)


def fidelity(given: argparse.Namespace) -> None:
    """Print or write what each fidelity computes."""
    from vsepp.config.describe import fidelity_document

    _print_or_write(fidelity_document(given.params), given.output)


def schema(given: argparse.Namespace) -> None:
    """Print or write the JSON schema."""
    from vsepp.config.describe import json_schema

    text = json.dumps(json_schema(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    _print_or_write(text, given.output)


def _print_or_write(text: str, output: Path | None) -> None:
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
