"""Compare models with each other."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from vsepp.apps.cli.common import a_path, add_step
from vsepp.apps.cli.show import add_plan_options, config_option, plan_of
from vsepp.base.errors import VseppError, did_you_mean, fixes, snakemake
from vsepp.report.entries import METRICS_FILE
from vsepp.report.models import MeasuredModel


def add_steps(steps: Any) -> None:
    """Add `compare`."""
    what = "compare models: which is better, on which metrics, and how certain that is"
    example = "vsepp compare f8k-vsepp-rc f8k-vse0-rc --preset flickr8k --config 'papers=[flickr8k_study]'"
    parser = add_step(steps, "compare", compare, what, example)
    kinds = "folder of an evaluation or a trained run, .npz of embeddings, or id of a run of the preset (all its seeds)"
    parser.add_argument("a", metavar="A", type=a_path, help=kinds)
    parser.add_argument(
        "others", metavar="B", type=a_path, nargs="+", help="one or more models to compare with A"
    )
    parser.add_argument("--protocol", help="1K, 5x1K or 5K; default: the first protocol of both")
    parser.add_argument("--fold-size", type=int, help="for embeddings: images per fold of 1K and 5x1K")
    parser.add_argument(
        "--metric", action="append", help="i2t_r1 ...; repeatable; default: rsum, its recalls"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, nothing rounded")
    add_plan_options(parser)


def compare(options: argparse.Namespace) -> None:
    """Print the differences between models: of two in words, of more as a table."""
    from vsepp.report import compare as comparing

    names = list(map(str, (options.a, *options.others)))
    if len(names) > 2 and (twice := [name for name in names if names.count(name) > 1]):
        raise VseppError(f"{twice[0]}: is given more than once; give each model once")
    labels = names if len(names) > 2 else "AB"
    models = {label: sources_of(options, name) for label, name in zip(labels, names, strict=True)}
    comparison = comparing.compare(models, options.protocol, options.fold_size, options.metric or ())
    print(json.dumps(comparison.to_dict(), indent=1, ensure_ascii=False) if options.json else comparison)


def sources_of(options: argparse.Namespace, name: str) -> list[Path | MeasuredModel]:
    """Paths, or records, of a model that the command line names."""
    if Path(name).exists():
        return [Path(name)]
    if not options.params.is_dir():
        raise VseppError(
            f"{name}: no such file or folder; run ids need the project's folder, with {options.params}/"
        )
    plan = plan_of(options)
    if name not in plan.models:
        raise VseppError(
            f"{name}: no such file or folder, and no run of preset {plan.preset}, which `vsepp runs` lists"
            + did_you_mean(name, plan.models)
        )
    model = plan.models[name]
    evaluated: list[Path | MeasuredModel] = []
    for seed in sorted(model.specs):
        if seed in model.recorded:
            evaluated.append(plan.parameters.study.read(name, seed))
            continue
        evaluation = plan.evaluation(name, seed)
        if evaluation and (evaluation.folder / METRICS_FILE).is_file():
            evaluated.append(evaluation.folder)
    if not evaluated:
        make = snakemake(evaluation.targets[0] if evaluation else name, config_option(options))
        raise VseppError(f"{name}: was not evaluated{fixes(make)}")
    return evaluated
