"""Hold models against each other."""

from __future__ import annotations

import argparse
import json
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from vsepp.cli.common import add_step
from vsepp.cli.parameters import add_plan_options, plan_of
from vsepp.errors import VseppError


def add_steps(steps: Any) -> None:
    """Add `compare`."""
    what = (
        "say which of two models is ahead, in what, and how sure that is; any runs, evaluations or embeddings"
    )
    parser = add_step(steps, "compare", compare, what)
    for name in "AB":
        parser.add_argument(
            name.lower(),
            metavar=name,
            help="folder of an evaluation or of a trained run, .npz of embeddings, or id of a run of the preset (all its seeds)",
        )
    parser.add_argument("--protocol", help="1K, 5x1K or 5K; by default the first that both have")
    parser.add_argument("--fold-size", type=int, help="of embeddings: images of a fold of 1K and 5x1K")
    parser.add_argument("--json", action="store_true", help="print everything as JSON, nothing rounded")
    add_plan_options(parser)


def compare(given: argparse.Namespace) -> None:
    """Print what two models differ in."""
    from vsepp.reporting.compare import compare as compared

    found = compared(_paths(given, given.a), _paths(given, given.b), given.protocol, given.fold_size)
    print(json.dumps(found.to_dict(), indent=1, ensure_ascii=False) if given.json else found)


def _paths(given: argparse.Namespace, name: str) -> list[Path]:
    """Where a model lies that the command line names."""
    if Path(name).exists():
        return [Path(name)]
    if not given.params.is_dir():
        raise VseppError(
            f"{name}: no such file or folder; run ids need the project's folder, with {given.params}/"
        )
    from vsepp.config.plan import seeded

    plan = plan_of(given)
    if name not in plan.models:
        near = get_close_matches(name, plan.models, n=1)
        hint = f"did you mean {near[0]}?" if near else "`vsepp runs` lists them"
        raise VseppError(f"{name}: no such file or folder, and no run of preset {plan.preset}; {hint}")
    folders = [plan.table["evaluation", seeded(name, seed)].folder for seed in plan.models[name].specs]
    if there := [folder for folder in folders if (folder / "metrics.json").is_file()]:
        return there
    raise VseppError(
        f"{name}: was not evaluated; make it: snakemake --cores all -- {folders[0]}/metrics.json"
    )
