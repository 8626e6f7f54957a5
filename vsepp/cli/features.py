"""Encoders, their features under fixed crops, and tapes of random-crop features."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable
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
    gpu_count,
    use_cpu,
    use_machine,
)
from vsepp.runtime.workers import run_together
from vsepp.errors import VseppError
from vsepp.runtime.progress import track_bytes
from vsepp.provenance import code
from vsepp.provenance.manifest import artefact_digest, recorded
from vsepp.provenance.publish import state_folder
from vsepp.spec import CropSpec, EncoderSpec, PretrainingSpec, from_json, to_dict

if TYPE_CHECKING:
    import numpy as np
    import torch

    from vsepp.data.placement import Placement
    from vsepp.features.tape_writer import TapeJob
    from vsepp.models.encoder import ImageEncoder


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
    from vsepp.features.extract import extract_features
    from vsepp.features.needs import pass_explained
    from vsepp.models.encoder import load_encoder

    spec, crop = from_json(EncoderSpec, given.encoder_spec), from_json(CropSpec, given.crop)
    inputs = {"store": given.store, "encoder": given.encoder}
    values = {"encoder": to_dict(spec), "crop": to_dict(crop)}
    digest = code.features_code(spec)
    given.output.mkdir(parents=True, exist_ok=True)
    with (
        state_folder(given.output, **_identity(values, inputs, digest)) as state,
        recorded(given.output, "features", spec=values, inputs=inputs, code=digest) as facts,
    ):
        device = use_machine(given, facts)
        placement = _placement(given, device)
        with pass_explained(f"{crop.kind} features", spec, placement):
            network = load_encoder(spec, given.encoder)
            store = _placed_store(given, placement, network)
            extract_features(store, network, crop, given.output, state, device=device)
        facts["data_on"] = placement.chosen


def tape(given: argparse.Namespace) -> None:
    """Write a tape, with several processes where they were asked for."""
    import numpy as np

    from vsepp.data.tables import read_tables
    from vsepp.features.tape_writer import TapeJob, begin_tape, finish_tape
    from vsepp.models.encoder import encoder_dim

    if given.writers < 1:
        raise VseppError(f"--writers: got {given.writers}; expected at least 1")
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
    _, captions = read_tables(given.corpus)
    rows = np.flatnonzero(captions["split"].isin(given.splits))
    given.output.mkdir(parents=True, exist_ok=True)
    with (
        state_folder(given.output, **_identity(values, inputs, digest)) as state,
        recorded(given.output, "tape", spec=values, inputs=inputs, code=digest) as facts,
    ):
        job = TapeJob(
            crop=crop,
            caption_rows=rows,
            image_rows=captions["image_index"].to_numpy()[rows],
            caption_ids=captions["caption_id"].to_numpy()[rows],
            dim=encoder_dim(spec, given.encoder),
            draw=given.draw,
            epochs=range(given.epochs),
            out=given.output,
            state=state,
        )
        begin_tape(job)
        facts.update(_write_all_epochs(given, job))
        finish_tape(job)


def _write_all_epochs(given: argparse.Namespace, job: TapeJob) -> dict[str, Any]:
    """Write what is missing of a tape and tell the facts; again, should a writer of a killed step have been at it."""
    facts: dict[str, Any] = {}
    while missing := job.missing_bytes():
        writers = _writers(given, len(missing))
        if writers == 1:
            return {**_write_epochs(given, job, True), "writers": 1}
        threads = max((given.threads or os.cpu_count() or 1) // writers, 1)
        shared = argparse.Namespace(**{**vars(given), "threads": threads, "writers": writers})
        what = f"random-crop features of {len(missing)} epochs by {writers} processes"
        with track_bytes(sum(missing.values()), what) as advance:
            left = sum(missing.values())

            def look(advance: Callable[[int], object] = advance) -> None:
                nonlocal left
                now = sum(job.missing_bytes().values())
                advance(left - now)
                left = now

            first, *_ = run_together(_write_epochs, [(shared, job, False)] * writers, look)
        facts = {**first, "writers": writers}
    return facts


def _writers(given: argparse.Namespace, epochs: int) -> int:
    """No more writers than were asked for, than there are epochs, and than there are GPUs where there are any."""
    if given.device.startswith("cuda:"):
        return 1
    gpus = 0 if given.device == "cpu" else gpu_count()
    return min(given.writers, epochs, gpus or epochs)


def _write_epochs(given: argparse.Namespace, job: TapeJob, alone: bool) -> dict[str, Any]:
    """Write those epochs that no other process is at, and tell the facts."""
    from vsepp.features.needs import pass_explained
    from vsepp.features.tape_writer import write_epochs
    from vsepp.models.encoder import load_encoder

    facts: dict[str, Any] = {}
    device = use_machine(given, facts)
    if not alone:  # the process that started these shows the progress of all
        logging.getLogger("vsepp").setLevel(logging.WARNING)
    spec = from_json(EncoderSpec, given.encoder_spec)
    writers = 1 if alone else given.writers
    placement = _placement(given, device, writers)
    with pass_explained("random-crop features", spec, placement, writers=writers):
        network = load_encoder(spec, given.encoder)
        store = _placed_store(given, placement, network)
        write_epochs(job, store, network, device=device, alone=alone)
    return {**facts, "data_on": placement.chosen}


def _placement(given: argparse.Namespace, device: torch.device, processes: int = 1) -> Placement:
    """For the image store of a frozen pass, of so many processes."""
    from vsepp.data.placement import Placement

    return Placement(device, given.data_on, leave=0, share=given.device_share, processes=processes)


def _placed_store(
    given: argparse.Namespace, placement: Placement, network: ImageEncoder
) -> np.ndarray | torch.Tensor:
    """The image store where a pass of this encoder leaves room for it."""
    from vsepp.data.store import open_store
    from vsepp.features.needs import pass_bytes

    placement.leave_for(lambda: pass_bytes(network))
    return placement.place(open_store(given.store), "image store").array


def _identity(values: dict[str, Any], inputs: dict[str, Path], digest: str) -> dict[str, Any]:
    """All that decides what a pass computes, for the name of its state folder."""
    digests = {role: artefact_digest(path) for role, path in inputs.items()}
    return {"spec": values, "inputs": digests, "code": digest}
