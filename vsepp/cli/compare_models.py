"""Compare models with each other, and results with their expected values."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from vsepp.cli.common import add_step
from vsepp.cli.show import add_plan_options, plan_of
from vsepp.errors import VseppError, as_started, did_you_mean
from vsepp.provenance.studies import METRICS_FILE, Kept
from vsepp.runtime.progress import table


def add_steps(steps: Any) -> None:
    """Add `compare` and `expected`."""
    what = "compare models: which is better, on which metrics, and how certain that is"
    parser = add_step(steps, "compare", compare, what)
    kinds = "folder of an evaluation or a trained run, .npz of embeddings, or id of a run of the preset (all its seeds)"
    parser.add_argument("a", metavar="A", help=kinds)
    parser.add_argument("others", metavar="B", nargs="+", help="one or more models to compare with A")
    parser.add_argument("--protocol", help="1K, 5x1K or 5K; default: the first protocol of both")
    parser.add_argument("--fold-size", type=int, help="for embeddings: images per fold of 1K and 5x1K")
    parser.add_argument(
        "--metric", action="append", help="i2t_r1 ...; repeatable; default: rsum, its recalls"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, nothing rounded")
    add_plan_options(parser)

    what = "check your results against the expected values; exit status 1 if a score is outside its tolerance"
    parser = add_step(steps, "expected", expected, what)
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="folder of the expected values")
    parser.add_argument(
        "--update",
        action="store_true",
        help="set the expected values from these results, and log the changes",
    )
    parser.add_argument("--why", default="", help="with --update: why the scores changed, for the log")
    add_plan_options(parser)


def compare(given: argparse.Namespace) -> None:
    """Print the differences between models: of two in words, of more as a table."""
    from vsepp.reporting import compare as comparing

    names = [given.a, *given.others]
    how: list[Any] = [given.protocol, given.fold_size, *([given.metric] if given.metric else [])]
    if len(names) > 2 and (twice := [name for name in names if names.count(name) > 1]):
        raise VseppError(f"{twice[0]}: is given more than once; give each model once")
    paths = [sources_of(given, name) for name in names]
    if len(names) == 2:
        found: Any = comparing.compare(paths[0], paths[1], *how)
    else:
        found = comparing.compare_many(dict(zip(names, paths, strict=True)), *how)
    print(json.dumps(found.to_dict(), indent=1, ensure_ascii=False) if given.json else found)


def sources_of(given: argparse.Namespace, name: str) -> list[Path | Kept]:
    """Paths, or records, of a model that the command line names."""
    if Path(name).exists():
        return [Path(name)]
    if not given.params.is_dir():
        raise VseppError(
            f"{name}: no such file or folder; run ids need the project's folder, with {given.params}/"
        )
    plan = plan_of(given)
    if name not in plan.models:
        raise VseppError(
            f"{name}: no such file or folder, and no run of preset {plan.preset}, which `vsepp runs` lists"
            + did_you_mean(name, plan.models)
        )
    model = plan.models[name]
    evaluated: list[Path | Kept] = []
    for seed in sorted(model.specs):
        if seed in model.recorded:
            evaluated.append(plan.study.read(name, seed))
            continue
        folder = plan.folders(name, seed)[1]
        if (folder / METRICS_FILE).is_file():
            evaluated.append(folder)
    if not evaluated:
        raise VseppError(
            f"{name}: was not evaluated; make it: {as_started()}snakemake --cores all -- {folder}/{METRICS_FILE}"
        )
    return evaluated


def expected(given: argparse.Namespace) -> None:
    """Compare the results of a plan with their expected values, or set these."""
    from vsepp.config.plan import expected_file
    from vsepp.provenance.manifest import git_state
    from vsepp.reporting import expected as values
    from vsepp.reporting.records import read_records
    from vsepp.reporting.report_specs import ReportSpec

    plan = plan_of(given)
    reports = [made.spec for made in plan.of_kind("report").values() if isinstance(made.spec, ReportSpec)]
    models = {(model.model, model.seed): model for report in reports for model in report.models}
    evaluated = [
        model for model in models.values() if model.study or (Path(model.evaluation) / METRICS_FILE).is_file()
    ]
    file = expected_file(given.docs, plan.preset, plan.variant)
    if not evaluated:
        raise VseppError(
            f"preset {plan.preset}: nothing was evaluated yet; make it: {as_started()}snakemake --cores all all_results"
        )
    records, context = read_records(evaluated), reports[0].context
    if given.update:
        values.update_expected(file, given.docs / "scores.md", records, git_state()["commit"], given.why)
    elif not file.is_file():
        raise VseppError(f"{file}: no such file; `vsepp expected --update` sets a study's values")
    states = values.expected_state(values.read_expected(file), records, context)
    print(*table(values.matrix(states), "llrlllr"), sep="\n")
    print("", ", ".join(f"{number} {word}" for word, number in values.counts(states)), sep="\n")
    failed = values.failures(states, context)
    print(*failed, sep="\n", end="\n" * bool(failed))
    if failed:
        raise VseppError(f"{len(failed)} of {len(states)} scores are not as expected, see above")
