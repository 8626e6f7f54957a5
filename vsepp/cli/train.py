"""Features or images, and word ids → a trained run."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vsepp.runtime import devices
from vsepp.cli.common import (
    add_data_on,
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
from vsepp.spec import RunSpec, from_json, to_dict

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
    parser.add_argument(
        "--checkpoint-seconds",
        type=float,
        default=60.0,
        help="least time between two checkpoints; 0 writes one after each step",
    )
    add_data_on(parser)
    add_machine(parser)


def train(given: argparse.Namespace) -> None:
    """Train a run; of several processes that `torchrun` started, the first one locks, writes and records."""
    from vsepp.data.vocabulary import Vocabulary

    run = from_json(RunSpec, given.spec)
    folders = {name: getattr(given, name) for name in _FOLDERS if getattr(given, name) is not None}
    inputs = {name: artefact_digest(folder) for name, folder in folders.items()}
    digest = code.train_code(run)
    # The folder's name depends on all of this too; a state folder that was moved or copied is found out.
    identity = {"code": digest, "inputs": inputs}
    if devices.process_rank() > 0:
        with tempfile.TemporaryDirectory() as nothing:
            _train(given, run, folders, Path(nothing), identity, {})
        return
    given.output.mkdir(parents=True, exist_ok=True)
    with (
        state_folder(given.output, spec=to_dict(run), code=digest, inputs=inputs) as state,
        recorded(
            given.output, "train", spec=to_dict(run), inputs=folders, code=digest, seed=run.init_seed
        ) as facts,
    ):
        facts.update(_train(given, run, folders, state, identity, facts))
        # With it the folder can be used by itself, on captions of one's own.
        Vocabulary.read(given.tokens).write(given.output)


def _train(
    given: argparse.Namespace,
    run: RunSpec,
    folders: Mapping[str, Path],
    state: Path,
    identity: Mapping[str, Any],
    facts: dict[str, Any],
) -> dict[str, Any]:
    """Train with the other processes, if there are any, and tell the facts."""
    from vsepp.training.data import Artefacts, load_training_data
    from vsepp.training.distributed import join
    from vsepp.training.loop import train as train_run

    device = use_machine(given, facts)
    artefacts = Artefacts(**{name: folder for name, folder in folders.items() if name != "init_from"})
    with join(device) as group:
        data = load_training_data(run, artefacts, device, data_on=given.data_on, share=given.device_share)
        trained = train_run(
            run,
            data,
            given.output,
            state,
            device,
            folders.get("init_from"),
            identity=identity,
            checkpoint_seconds=given.checkpoint_seconds,
            group=group,
        )
        return {**trained, "data_on": data.data_on}
