"""Encoders, their features under fixed crops, and tapes of random-crop features."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.cli.common import (
    add_data_on,
    add_folders,
    add_machine,
    add_output,
    add_spec,
    add_step,
    add_threads,
    job_of,
    use_cpu,
)
from vsepp.errors import VseppError
from vsepp.provenance import code
from vsepp.provenance.manifest import artefact_digest, recorded
from vsepp.provenance.publish import state_folder
from vsepp.spec import CropSpec, EncoderSpec, PretrainingSpec, from_json, to_dict

if TYPE_CHECKING:
    from vsepp.features.passes import FrozenPass


def add_steps(steps: Any) -> None:
    """Add `pretrain`, `encoder`, `features` and `tape`."""
    parser = add_step(steps, "pretrain", pretrain, "train mini encoders on labelled single-object scenes")
    add_spec(parser, "PretrainingSpec")
    parser.add_argument(
        "--encoders",
        nargs="+",
        required=True,
        metavar="FOLDER=SPEC",
        help="for each encoder its folder below --output and the JSON of its EncoderSpec",
    )
    add_output(parser)
    add_threads(parser)

    parser = add_step(
        steps, "encoder", encoder, "fetch an encoder's weights and cut it at its penultimate layer"
    )
    add_spec(parser, "EncoderSpec")
    parser.add_argument("--weights", type=Path, help="file of the weights that the spec calls file/<name>")
    add_output(parser)

    parser = add_step(steps, "features", features, "extract 1C or 10C features of every image of a store")
    _add_pass(parser)

    parser = add_step(
        steps, "tape", tape, "write the random-crop features of every training caption and epoch"
    )
    _add_pass(parser)
    add_folders(parser, corpus="folder of the corpus")
    parser.add_argument("--draw", type=int, required=True, help="which draw of random crops")
    parser.add_argument("--epochs", type=int, required=True, help="how many epochs")
    parser.add_argument("--splits", nargs="+", required=True, help="splits whose captions are trained on")
    parser.add_argument(
        "--writers",
        type=int,
        default=1,
        metavar="N",
        help="processes that write, an epoch each at a time: each takes a GPU, or its part of the threads",
    )


def _add_pass(parser: argparse.ArgumentParser) -> None:
    """Add what both passes of a frozen encoder over a store take."""
    parser.add_argument(
        "--encoder-spec", required=True, help="JSON of an EncoderSpec, or a file that holds it"
    )
    parser.add_argument("--crop", required=True, help="JSON of a CropSpec, or a file that holds it")
    add_folders(parser, store="folder of the image store", encoder="folder of the encoder")
    add_output(parser)
    add_data_on(parser)
    add_machine(parser)


def pretrain(given: argparse.Namespace) -> None:
    """Train all given encoders on the same scenes, in one process, on the CPU."""
    from vsepp.scenes.pretrain import pretrain as pretrain_encoders

    spec = from_json(PretrainingSpec, given.spec)
    specs: dict[str, EncoderSpec] = {}
    for item in given.encoders:
        folder, equals, text = item.partition("=")
        if not equals:
            raise VseppError(f"--encoders: got {item!r}; expected FOLDER=SPEC")
        specs[folder] = from_json(EncoderSpec, text)
    digest = code.pretraining_code(list(specs.values()))
    with ExitStack() as stack:
        facts = {}
        for folder, encoder_spec in specs.items():
            out = given.output / folder
            out.mkdir(parents=True, exist_ok=True)
            values = {"encoder": to_dict(encoder_spec), "pretraining": to_dict(spec)}
            facts[folder] = stack.enter_context(
                recorded(out, "pretrain", spec=values, inputs={}, code=digest, seed=spec.seed)
            )
        for values in facts.values():
            use_cpu(given, values)
        folders = {encoder_spec.name: given.output / folder for folder, encoder_spec in specs.items()}
        found = pretrain_encoders(list(specs.values()), spec, folders)
        for folder, encoder_spec in specs.items():
            facts[folder].update(found[encoder_spec.name])


def encoder(given: argparse.Namespace) -> None:
    """Import an encoder's weights."""
    from vsepp.models.encoder import save_encoder
    from vsepp.models.pretrained import import_weights

    spec = from_json(EncoderSpec, given.spec)
    given.output.mkdir(parents=True, exist_ok=True)
    local = {"weights": given.weights} if given.weights else {}
    with recorded(
        given.output, "encoder", spec=to_dict(spec), inputs=local, code=code.encoder_code(spec)
    ) as facts:
        imported = import_weights(spec, given.weights)
        save_encoder(imported, given.output)
        facts["dim"] = imported.dim


def features(given: argparse.Namespace) -> None:
    """Extract 1C or 10C features."""
    from vsepp.features.passes import make_features

    spec, crop = from_json(EncoderSpec, given.encoder_spec), from_json(CropSpec, given.crop)
    inputs = {"store": given.store, "encoder": given.encoder}
    values = {"encoder": to_dict(spec), "crop": to_dict(crop)}
    digest = code.features_code(spec)
    given.output.mkdir(parents=True, exist_ok=True)
    with (
        state_folder(given.output, **_identity(values, inputs, digest)) as state,
        recorded(given.output, "features", spec=values, inputs=inputs, code=digest) as facts,
    ):
        facts.update(make_features(_frozen_pass(given, spec), crop, given.output, state))


def tape(given: argparse.Namespace) -> None:
    """Write a tape, with several processes where they were asked for."""
    from vsepp.features.passes import make_tape

    spec, crop = from_json(EncoderSpec, given.encoder_spec), from_json(CropSpec, given.crop)
    inputs = {"store": given.store, "encoder": given.encoder, "captions": given.corpus / "captions.parquet"}
    values = {
        "encoder": to_dict(spec),
        "crop": to_dict(crop),
        "draw": given.draw,
        "epochs": given.epochs,
        "splits": given.splits,
    }
    digest = code.tape_code(spec)
    given.output.mkdir(parents=True, exist_ok=True)
    with (
        state_folder(given.output, **_identity(values, inputs, digest)) as state,
        recorded(given.output, "tape", spec=values, inputs=inputs, code=digest) as facts,
    ):
        made = make_tape(
            _frozen_pass(given, spec),
            crop,
            given.corpus,
            splits=given.splits,
            draw=given.draw,
            epochs=given.epochs,
            out=given.output,
            state=state,
            writers=given.writers,
        )
        facts.update(made)


def _frozen_pass(given: argparse.Namespace, spec: EncoderSpec) -> FrozenPass:
    from vsepp.features.passes import FrozenPass

    return FrozenPass(
        spec,
        given.encoder,
        given.store,
        device=given.device,
        share=given.device_share,
        threads=given.threads,
        job=job_of(given),
        data_on=given.data_on,
    )


def _identity(values: dict[str, Any], inputs: dict[str, Path], digest: str) -> dict[str, Any]:
    """All that decides what a pass computes, for the name of its state folder."""
    digests = {role: artefact_digest(path) for role, path in inputs.items()}
    return {"spec": values, "inputs": digests, "code": digest}
