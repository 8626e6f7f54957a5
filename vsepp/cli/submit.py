"""A model's row on the leaderboard: make a submission, or check one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.cli.common import add_step
from vsepp.cli.compare_models import sources_of
from vsepp.cli.show import add_plan_options, plan_of
from vsepp.errors import VseppError

if TYPE_CHECKING:
    from vsepp.config import Plan


def add_steps(steps: Any) -> None:
    """Add `submit`."""
    what = "make a submission to the leaderboard: a model's card and ranks; or --check one that is there"
    parser = add_step(steps, "submit", submit, what)
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="folder of an evaluation, or of its seeds; id of a run of the preset (all its seeds); with --check a submission",
    )
    parser.add_argument("--card", type=Path, metavar="FILE", help="YAML with what cannot be filled in")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="the submission, leaderboard/NAME")
    parser.add_argument("--check", action="store_true", help="check a submission, and write nothing")
    add_plan_options(parser)


def submit(given: argparse.Namespace) -> None:
    """Make or check a submission, and print a summary of it."""
    from vsepp.reporting.submissions import read_submission

    if given.check == (given.output is not None):
        raise VseppError("submit: expected either --output, or --check with the folder of a submission")
    made = read_submission(Path(given.model)) if given.check else _made(given)
    truths = ", ".join(f"{name} (digest {test.digest[:12]})" for name, test in made.card.truths.items())
    print(
        f"{made.folder}: {made.card.name}: on {made.card.data_set}, {truths}; files of ranks: {len(made.models)}"
    )


def _made(given: argparse.Namespace) -> Any:
    from vsepp.reporting.ranked import read_evaluations
    from vsepp.reporting.submissions import filled_in, read_card, write_submission

    models = read_evaluations(sources_of(given, given.model))
    card = filled_in(models)
    if not Path(given.model).exists():
        card |= _of_run(plan_of(given), given.model)
    return write_submission(given.output, card | (read_card(given.card) if given.card else {}), models)


def _of_run(plan: Plan, name: str) -> dict[str, Any]:
    """Fields of a run's card that the parameters give."""
    from vsepp.reporting.records import command

    run = plan.models[name].spec
    data = plan.parameters.datasets[plan.parameters.corpora[run.dataset].dataset].title
    reports = [made.spec for made in plan.of_kind("report").values()]
    commands = [
        command(one, report.context) for report in reports for one in report.models if one.model == name
    ]
    card = {"name": f"{run.system}, {name}", "data_set": data, "training_datasets": [data]}
    return card | ({"command": commands[0]} if commands else {})
