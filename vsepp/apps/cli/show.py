"""Look at the parameters, and at the models that they have made, without computing anything."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.apps.cli.common import add_params, add_step
from vsepp.base.errors import VseppError, did_you_mean
from vsepp.base.manifest import differences, manifest_if_intact
from vsepp.base.words import table

if TYPE_CHECKING:
    from vsepp.pipeline.plan import Plan
    from vsepp.pipeline.step import Artefact


def add_steps(steps: Any) -> None:
    """Add `runs` and `show`."""
    what = "list a preset's runs, the rows of tables that they fill, and which are trained"
    parser = add_step(steps, "runs", runs, what, "vsepp runs --preset flickr8k")
    add_plan_options(parser)

    what = "print every value of a run and the file that set it"
    parser = add_step(steps, "show", show, what, "vsepp show coco-vsepp-rc")
    parser.add_argument("run", metavar="RUN", help="id of the run, as `vsepp runs` lists them")
    parser.add_argument("--json", action="store_true", help="print its spec as JSON")
    add_plan_options(parser)


def add_plan_options(parser: argparse._ActionsContainer, hidden: bool = False) -> None:
    """Add the options that choose a plan, as every command that looks at one has them; see `plan_of`. Hidden, the help has none of them."""
    add_params(parser, hidden)
    for key in ("preset", "fidelity"):
        words = f"short for --config {key}=NAME"
        parser.add_argument(f"--{key}", metavar="NAME", help=argparse.SUPPRESS if hidden else words)
    words = "overrides, as Snakemake's --config takes them, such as 'seeds=[0,1,2]' or label=mine"
    parser.add_argument(
        "--config",
        nargs="*",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help=argparse.SUPPRESS if hidden else words,
    )


def overrides_of(options: argparse.Namespace) -> list[str]:
    """Every override as KEY=VALUE, as `--config` takes it."""
    shortcuts = [f"{key}={value}" for key in ("preset", "fidelity") if (value := getattr(options, key))]
    return [*shortcuts, *options.config]


def config_option(options: argparse.Namespace) -> str:
    """The option that gives another command, also Snakemake, the same overrides; empty where there are none."""
    overrides = overrides_of(options)
    return f" --config {shlex.join(overrides)}" if overrides else ""


def plan_of(options: argparse.Namespace) -> Plan:
    """The plan that the options of `add_plan_options` choose.

    Raises
    ------
    VseppError
        Outside the project's folder, when an override is no KEY=VALUE or stands twice, and for every mistake in the
        parameters.
    """
    from vsepp.pipeline.files import settings_of
    from vsepp.pipeline.planner import make_plan

    require_params(options.params)
    return make_plan(options.params, settings_of(overrides_of(options)))


def require_params(folder: Path) -> None:
    """Refuse a folder without parameters: most often, the command was not called in the project's folder.

    Raises
    ------
    VseppError
        When there is no `config.yaml`.
    """
    if not (folder / "config.yaml").is_file():
        raise VseppError(
            f"{folder}/config.yaml: no such file; go to the project's folder, which holds Snakefile and params/, or name "
            "its parameters with --params FOLDER"
        )


def runs(options: argparse.Namespace) -> None:
    """List runs in the order of the papers: id, system, data, training set, encoder, trained seeds, rows of the papers."""
    plan = plan_of(options)
    parameters = plan.parameters
    feeds: dict[str, list[str]] = {}
    for paper in parameters.papers.values():
        for row, (run, protocol) in parameters.feeders(paper).items():
            feeds.setdefault(run, []).append(f"{paper.name} {row} ({protocol})")
    rows = [["run", "system", "data", "training set", "encoder", "trained seeds", "fills row (protocol)"]]
    for name in parameters.runs:
        spec = plan.models[name].spec
        trainset = f"{spec.trainset}{'+rV' if spec.restval else ''}{' FT' if spec.finetuned else ''}"
        filled = ", ".join(feeds.get(name, []))
        trained = ", ".join(map(str, _trained_seeds(plan, name))) or "–"
        rows.append([name, spec.system, spec.dataset, trainset, spec.encoder.name, trained, filled])
    lines = table(rows, "l" * len(rows[0]))
    roles = dict.fromkeys(plan.models[name].spec.dataset for name in parameters.runs)
    data = ", ".join(f"{role} is {parameters.corpora[role].dataset}" for role in roles)
    print(*lines, "", f"Preset {plan.preset}; data: {data}.", sep="\n")
    print(f"Protocols: {_protocols(plan, parameters.runs)}.")


def _trained_seeds(plan: Plan, name: str) -> list[int]:
    """Seeds of which a model with the present parameters is here, or its record."""
    model = plan.models[name]
    seeds = []
    for seed in model.specs if model.trained else ():
        training = plan.training(name, seed)
        if seed in model.recorded or (training and _is_trained(training)):
            seeds.append(seed)
    return seeds


def _is_trained(training: Artefact) -> bool:
    manifest = manifest_if_intact(training.folder)
    return manifest is not None and not differences(manifest, spec=training.spec_digest).spec


def _protocols(plan: Plan, runs: Iterable[str]) -> str:
    """Meaning of the runs' protocols in a preset: its folds may be smaller than the names of the protocols say."""
    size = plan.parameters.preset.evaluation.fold_size
    meanings = {
        "1K": f"1K is the first {size:,} test images",
        "5x1K": f"5x1K is the mean over 5 folds of {size:,} test images",
        "5K": "5K is all test images at once",
    }
    used = {protocol for run in runs for protocol in plan.parameters.protocols[run]}
    return "; ".join(text for protocol, text in meanings.items() if protocol in used) or "none"


def show(options: argparse.Namespace) -> None:
    """Print a run's resolved values."""
    from vsepp.base.components import checked, module_name
    from vsepp.base.run_spec import COMPONENTS
    from vsepp.base.spec import Component, to_json

    plan = plan_of(options)
    known = plan.parameters.runs
    if options.run not in known:
        near = did_you_mean(options.run, known)
        raise VseppError(
            f"{options.run}: no run of preset {plan.preset}{near or '; `vsepp runs` lists them'}"
        )
    if options.json:
        print(to_json(plan.models[options.run].spec))
        return
    keys, origins = known[options.run], plan.parameters.origins[options.run]
    rows = [["key", "value", "set by"]]
    for name, value in vars(keys).items():
        printed = value.name if isinstance(value, Component) else value
        rows.append([name, json.dumps(printed, ensure_ascii=False), origins.get((name,), "default")])
        if isinstance(value, Component):
            kind = COMPONENTS[name]
            default = f"default of {module_name(kind, value.name)}"
            for option, setting in vars(checked(kind, value)).items():
                origin = origins.get((name, option), default)
                rows.append([f"{name}.{option}", json.dumps(setting, ensure_ascii=False), origin])
    print(*table(rows, "lll"), "", sep="\n")
    print(f"Preset {plan.preset}. Protocols: {_protocols(plan, [options.run])}.")
