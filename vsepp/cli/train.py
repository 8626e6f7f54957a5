"""Features or images, and word ids → a trained run."""

from __future__ import annotations

import argparse
from typing import Any

from vsepp.cli.common import (
    add_folders,
    add_machine,
    add_output,
    add_spec,
    add_step,
    use_machine,
)
from vsepp.cli.evaluate import ENCODE_FOLDERS
from vsepp.provenance import code
from vsepp.provenance.manifest import artefact_digest, recorded
from vsepp.provenance.publish import state_folder
from vsepp.spec import RunSpec, from_json, to_dict, to_json

_FOLDERS = {
    **ENCODE_FOLDERS,
    "tape": "optional: folder of the random-crop features of a frozen encoder",
    "train_store": "optional: folder of the image store that random crops are taken from",
    "init_from": "optional: folder of the frozen run that a fine-tuned run starts from",
}


def add_steps(steps: Any) -> None:
    """Add `train`."""
    parser = add_step(
        steps, "train", train, "train one run for one seed; goes on where a killed training stopped"
    )
    add_spec(parser, "RunSpec")
    add_folders(parser, **_FOLDERS)
    add_output(parser)
    add_machine(parser)


def train(given: argparse.Namespace) -> None:
    """Train a run."""
    from vsepp.training.data import Artefacts, load_training_data
    from vsepp.training.loop import train as train_run

    run = from_json(RunSpec, given.spec)
    folders = {name: getattr(given, name) for name in _FOLDERS if getattr(given, name) is not None}
    inputs = {name: artefact_digest(folder) for name, folder in folders.items()}
    digest = code.train_code(run)
    given.output.mkdir(parents=True, exist_ok=True)
    with (
        state_folder(given.output, to_json(run), digest, inputs) as state,
        recorded(
            given.output, "train", spec=to_dict(run), inputs=folders, code=digest, seed=run.init_seed
        ) as facts,
    ):
        device = use_machine(given, facts)
        init_from = folders.pop("init_from", None)
        data = load_training_data(run, Artefacts(**folders), device)
        facts.update(train_run(run, data, given.output, state, device, init_from))
