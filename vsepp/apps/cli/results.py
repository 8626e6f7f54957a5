"""Check results against the parameters, and record them."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.apps.cli.common import a_path, add_step
from vsepp.apps.cli.show import add_plan_options, config_option, plan_of
from vsepp.base.digests import KEPT_DIGESTS, FileCache
from vsepp.base.errors import PHASES, VseppError, fixes, snakemake
from vsepp.base.manifest import MANIFEST, read_manifest
from vsepp.base.words import bytes_text, plural

if TYPE_CHECKING:
    from vsepp.pipeline.plan import Plan


def add_steps(steps: Any) -> None:
    """Add `verify` and `record`."""
    what = "check artefacts against parameters, code, inputs and digests"
    parser = add_step(steps, "verify", verify, what, "vsepp verify --scores")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--phase", choices=PHASES, help="only what one phase of dvc.yaml makes")
    part.add_argument(
        "--scores",
        action="store_true",
        help="hold the scores against the expected values instead; exit status 1 if one is outside",
    )
    parser.add_argument(
        "--full", action="store_true", help="read every file again, unchanged or not; without --scores"
    )
    add_plan_options(parser)

    what = "save configuration, history, metrics and ranks of trained and evaluated runs, to be committed"
    parser = add_step(
        steps, "record", record, what, "vsepp record --preset flickr8k --config 'papers=[flickr8k_study]'"
    )
    parser.add_argument(
        "--drop", nargs="+", default=[], metavar="RUN", help="drop the records of these runs instead"
    )
    parser.add_argument(
        "--add", type=a_path, metavar="FOLDER", help="keep the records of another study's folder instead"
    )
    add_plan_options(parser)


def verify(options: argparse.Namespace) -> None:
    """Verify the plan's artefacts; what other code made is printed, and every mismatch before the command fails."""
    from vsepp.pipeline.verify import verify_all

    started = time.monotonic()
    plan = plan_of(options)
    if options.scores:
        _hold_scores(plan, config_option(options))
        return
    if options.phase and plan.variant != plan.parameters.settings.fidelity:
        raise VseppError(
            f"params/config.yaml: label is {plan.variant!r}, but dvc.yaml versions results/<preset>/<fidelity>: set label to "
            "null, or make this variant with Snakemake alone"
        )
    if options.full:
        KEPT_DIGESTS.unlink(missing_ok=True)
    known = FileCache(KEPT_DIGESTS)
    findings = verify_all(plan.table.values(), known, options.phase, config_option(options))
    bad = [finding for finding in findings if finding.differences]
    by_other_code = [finding for finding in findings if finding.other_code and not finding.differences]
    for finding in (*by_other_code, *bad):
        print(finding)
    what = (
        f"preset {plan.preset}, variant {plan.variant}{f', phase {options.phase}' if options.phase else ''}"
    )
    if bad:
        raise VseppError(
            f"{what}: {len(bad)} of {plural(len(findings), 'artefact')} do not verify, see above"
        )
    seconds = time.monotonic() - started
    print(
        f"{what}: {plural(len(findings), 'artefact')} verified in {seconds:.1f} s, {bytes_text(known.read)} read"
    )


def _hold_scores(plan: Plan, config: str) -> None:
    """Hold the scores of a plan's models against the expected values; those outside are printed before the command fails."""
    from vsepp.report import expected
    from vsepp.report.entries import METRICS_FILE
    from vsepp.report.records import read_models

    reports = [report.spec for report in plan.of_kind("report").values()]
    models = {(model.model, model.seed): model for report in reports for model in report.models}
    finished = [
        model for model in models.values() if model.study or (Path(model.evaluation) / METRICS_FILE).is_file()
    ]
    states = expected.held(plan.parameters.expected, read_models(finished, config))
    if not states:
        raise VseppError(
            f"{plan.parameters.expected}: none of its models is here{fixes(snakemake('all_results', config))}"
        )
    outside = [state for state in states if state.word == expected.OUTSIDE]
    for row, value, _, held_to in outside:
        print(f"{row.run}, {row.protocol}, seed {row.seed}: {row.metric} {value:.2f}, expected {held_to}")
    if outside:
        raise VseppError(
            f"{len(outside)} of {plural(len(states), 'score')} outside what is expected, see above"
        )
    print(expected.counted(states))


def record(options: argparse.Namespace) -> None:
    """Record finished models that have no record."""
    from vsepp.report.records import Study, is_of, read_results, write_study

    plan, waiting, damaged = plan_of(options), 0, 0
    study = plan.parameters.study
    before = set(study.models)
    if unknown := set(options.drop) - {run for run, _ in before}:
        raise VseppError(f"--drop: {study.folder} has no record of {', '.join(sorted(unknown))}")
    # What is dropped may be damaged.
    models = {(run, seed): study.read(run, seed) for run, seed in study.models if run not in options.drop}
    kept = dict(models)
    if options.add:
        models |= Study(options.add).read_all()
    for name, model in plan.models.items() if not options.drop and not options.add else ():
        for seed in model.specs.keys() - model.recorded if model.trained else ():
            evaluation = plan.evaluation(name, seed)
            assert evaluation
            if not (evaluation.folder / MANIFEST).is_file():
                waiting += 1
                continue
            try:
                if finished := is_of(read_manifest(evaluation.folder), evaluation.spec):
                    run = evaluation.paths["run"]
                    models[name, seed] = read_results(evaluation.folder, run, trained=True)
            except VseppError as error:
                print(error)
                damaged += 1
                continue
            waiting += not finished
    size = write_study(study.folder, models) if models != kept or options.drop else 0
    print(
        f"{study.folder}: {plural(len(models.keys() - before), 'model')} recorded now, "
        f"{len(models.keys() & before)} before, {len(before - models.keys())} dropped; {waiting} are not finished"
        f"{f'; {bytes_text(size)} in all' if size else ''}. "
        "Commit the folder: what has a record is not trained again"
    )
    if damaged:
        raise VseppError(f"{study.folder}: {plural(damaged, 'model')} damaged and not recorded, see above")
