"""Trained and released models, their evaluation, and the report."""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vsepp.cli.common import (
    Making,
    add_code,
    add_machine,
    add_making,
    add_raw,
    add_spec,
    add_step,
    given_inputs,
    making,
    raw_files,
)
from vsepp.errors import VseppError
from vsepp.provenance.code import step_code
from vsepp.provenance.manifest import FILES, artefact_digest
from vsepp.reporting.specs import ReportSpec
from vsepp.reporting.typeset import PDF
from vsepp.runtime import devices
from vsepp.runtime.files import output_folder, write_text
from vsepp.spec import EvaluationSpec, FigureDataSpec, RunSpec

log = logging.getLogger("vsepp")

_DATA = {
    "corpus": "folder of the corpus",
    "tokens": "folder of the word ids",
    "features": "optional: folder of the features under the test crop, for a frozen encoder",
    "eval_store": "optional: folder of the image store, for an encoder that is fine-tuned with the model",
    "encoder": "optional: folder of the encoder's weights before training",
}
_TRAINING = {
    **_DATA,
    "tape": "optional: folder of the random-crop features of a frozen encoder",
    "train_store": "optional: folder of the image store that random crops are taken from",
    "caption_vectors": "optional: folder of the captions' vectors, for a loss that compares captions",
    "init_from": "optional: folder of the frozen run that a fine-tuned run starts from",
}


def add_steps(steps: Any) -> None:
    """Add `train`, `released`, `evaluate`, what computes figures, `report` and `paper`."""
    parser = add_step(
        steps, "train", train, "train one run for one seed; continues a training that was killed"
    )
    add_making(parser, RunSpec, **_TRAINING)
    parser.add_argument(
        "--checkpoint-seconds",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="least seconds between two checkpoints; 60 by default, 0 writes one after each step",
    )
    add_machine(parser, data_on=True)

    parser = add_step(
        steps,
        "released",
        released,
        "convert a checkpoint that the authors released, with its vocabulary (--raw checkpoint=FILE vocabulary=FILE)",
    )
    add_making(parser, RunSpec)
    add_raw(parser)

    parser = add_step(
        steps,
        "evaluate",
        evaluate,
        "compute recalls and ranks, of a trained run (--run) or of a file of embeddings",
    )
    parser.add_argument(
        "embeddings",
        type=Path,
        nargs="?",
        metavar="EMBEDDINGS",
        help=".npz with image_embeddings, caption_embeddings, caption_to_image; or else --run and --corpus",
    )
    parser.add_argument(
        "--run",
        type=Path,
        metavar="FOLDER",
        help="folder of the trained run; nothing else of its clone is needed",
    )
    for role, description in _DATA.items():
        text = description.removeprefix("optional: ")
        if role == "tokens":
            text += "; without it they are made with the run's own vocabulary"
        parser.add_argument(f"--{role.replace('_', '-')}", type=Path, metavar="FOLDER", help=text)
    parser.set_defaults(roles=tuple(_DATA))
    add_spec(parser, EvaluationSpec, "; by default made from --run, --split, --protocol and --fold-size")
    add_code(parser)
    parser.add_argument("--split", metavar="NAME", help="train, restval, val or test (default)")
    parser.add_argument(
        "--protocol",
        nargs="+",
        metavar="NAME",
        help="one or more of 1K (first fold), 5x1K (mean over five folds), 5K (all images, default)",
    )
    parser.add_argument(
        "--fold-size", type=int, metavar="N", help="images of a fold of 1K and 5x1K; 1000 by default"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="folder for embeddings.npz, metrics.json and ranks.npz; without it recalls are only printed",
    )
    add_machine(parser)

    parser = add_step(steps, "figure-data", figure_data, "compute what a figure draws of losses")
    add_making(parser, FigureDataSpec)

    parser = add_step(steps, "report", report, "write all tables and figures and the page that holds them")
    add_making(parser, ReportSpec)

    parser = add_step(
        steps, "paper", paper, "typeset a report's paper.tex with LaTeX, as paper.pdf beside it"
    )
    parser.add_argument("report", type=Path, help="folder of the report")


def train(given: argparse.Namespace) -> None:
    """Train a run; of several processes that `torchrun` started, the first one locks, writes and records."""
    from vsepp.data.vocabulary import Vocabulary
    from vsepp.training.loop import LOSS_FILE

    run = given.spec
    inputs = given_inputs(given)
    if devices.process_rank() > 0:
        identity = {
            "code": step_code("train", run),
            "inputs": {role: artefact_digest(path) for role, path in inputs.items()},
        }
        with tempfile.TemporaryDirectory() as nothing:
            _train(given, run, inputs, Making(Path(nothing), {}, identity, Path(nothing)))
        return
    with making(given, inputs, seed=run.init_seed, resumes=True) as made:
        made.facts.update(_train(given, run, inputs, made))
        # With it the folder can be used by itself, on captions of one's own.
        Vocabulary.read(given.tokens).write(made.folder)
        (given.output / LOSS_FILE).unlink(missing_ok=True)  # of another loss that was trained there before


def _train(given: argparse.Namespace, run: RunSpec, inputs: dict[str, Path], made: Making) -> dict[str, Any]:
    """Train with the other processes, if there are any, and tell the facts."""
    from vsepp.runtime.machine import use_machine
    from vsepp.training.data import load_training_data
    from vsepp.training.distributed import join
    from vsepp.training.loop import train as train_run

    device, facts = use_machine(
        given.device, share=given.device_share, threads=given.threads, job=f"train {given.output}"
    )
    with join(device) as group:
        data = load_training_data(run, inputs, device, data_on=given.data_on, share=given.device_share)
        trained = train_run(
            run,
            data,
            made.folder,
            made.state,
            device,
            inputs,
            identity=made.identity,
            checkpoint_seconds=given.checkpoint_seconds,
            group=group,
        )
    return {**facts, **trained, "data_on": data.data_on}


def released(given: argparse.Namespace) -> None:
    """Import a released model as the run that it stands for."""
    from vsepp.released.convert import import_released

    raw = raw_files(given)
    for role in ("checkpoint", "vocabulary"):
        if role not in raw:
            raise VseppError(f"released: no {role} was given; expected --raw checkpoint=FILE vocabulary=FILE")
    with making(given, raw) as made:
        made.facts.update(import_released(raw["checkpoint"], raw["vocabulary"], given.spec, made.folder))


def evaluate(given: argparse.Namespace) -> None:
    """Embed a split and score it, or score anyone's embeddings; print, and publish where asked to."""
    if (given.embeddings is None) == (given.run is None):
        raise VseppError("evaluate: expected either a file of embeddings, or --run with what it reads")
    if given.embeddings is not None:
        _refuse(
            given,
            ("spec", "split", *given.roles),
            "what a run is embedded with; embeddings are scored as they are",
        )
    elif given.spec:
        _refuse(given, ("split", "protocol", "fold_size"), "in the spec already; leave it or the spec out")
    given.protocol, given.fold_size = given.protocol or ["5K"], given.fold_size or 1000
    if given.embeddings is not None:
        _score(given)
    else:
        _embed_and_score(given)


def _refuse(given: argparse.Namespace, options: Iterable[str], why: str) -> None:
    """Refuse options that would be ignored."""
    if said := [f"--{name.replace('_', '-')}" for name in options if getattr(given, name) is not None]:
        raise VseppError(f"evaluate: {', '.join(said)}: {why}")


def _score(given: argparse.Namespace) -> None:
    """Score embeddings that are there already."""
    from vsepp.evaluation import protocols
    from vsepp.evaluation.embeddings import Embeddings
    from vsepp.provenance.manifest import MANIFEST, recorded, require_intact
    from vsepp.provenance.publish import published

    if given.output is not None:
        output_folder(given.output)
    if (given.embeddings.parent / MANIFEST).is_file():
        require_intact(given.embeddings.parent)
    embeddings = Embeddings.load(given.embeddings)
    found = [protocols.evaluate(embeddings, protocol, given.fold_size) for protocol in given.protocol]
    for evaluation in found:
        print(evaluation)
    if given.output is None:
        return
    spec = {"protocols": given.protocol, "fold_size": given.fold_size}
    code = step_code("score", embeddings.similarity)
    with (
        published(given.output) as folder,
        recorded(folder, "evaluate", spec=spec, inputs={"embeddings": given.embeddings}, code=code) as facts,
    ):
        protocols.save(found, folder)
        facts["protocols"] = given.protocol


def _embed_and_score(given: argparse.Namespace) -> None:
    """Embed a split with a trained run, rank and score it, in one process."""
    from vsepp.evaluation.run import evaluate_run
    from vsepp.provenance.fitting import require_fitting, spec_of
    from vsepp.runtime.machine import use_machine

    if given.corpus is None:
        raise VseppError(
            "evaluate: a run was given, but no corpus; expected --corpus with the folder of its tables"
        )
    spec = given.spec = given.spec or EvaluationSpec(
        spec_of(given.run), tuple(given.protocol), given.fold_size, given.split or "test"
    )
    inputs = given_inputs(given)
    require_fitting(spec.run, given.run, inputs)
    with tempfile.TemporaryDirectory() as nowhere:
        printed_only = given.output is None
        given.output = given.output or Path(nowhere)
        with making(given, {"run": given.run, **inputs}, seed=spec.run.init_seed) as made:
            device, facts = use_machine(
                given.device, share=given.device_share, threads=given.threads, job=f"evaluate {given.output}"
            )
            made.facts.update(facts)
            found = evaluate_run(spec, {"run": given.run, **inputs}, made.folder, device)
        if printed_only:
            log.info("nothing was written; --output FOLDER keeps embeddings, ranks and recalls")
    for evaluation in found:
        print(evaluation)


def figure_data(given: argparse.Namespace) -> None:
    """Compute what a figure draws of losses."""
    from vsepp.evaluation.figure_data import compute

    with making(given) as made:
        write_text(made.folder / "data.json", json.dumps(compute(given.spec), indent=1) + "\n")


def paper(given: argparse.Namespace) -> None:
    """Typeset a report."""
    from vsepp.reporting.typeset import typeset

    print(typeset(given.report))


def report(given: argparse.Namespace) -> None:
    """Write the report and the preset's entry page; print the headline."""
    from vsepp.reporting.pages import write_entry, write_report

    with making(given, given.spec.inputs) as made:
        headline = write_report(given.spec, made.folder, given.output)
        files = (path for path in made.folder.rglob("*") if path.is_file())
        made.facts[FILES] = sorted(path.relative_to(made.folder).as_posix() for path in files)
        (given.output / PDF).unlink(missing_ok=True)  # of an earlier report
    write_entry(given.output.absolute().parent.parent)
    print(headline)
