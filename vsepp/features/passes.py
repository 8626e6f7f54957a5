"""The steps that run a frozen encoder over an image store: features of all images, and tapes of random crops."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsepp.data.store import open_store
from vsepp.data.tables import read_tables
from vsepp.errors import VseppError
from vsepp.features.crops import CaptionCrops
from vsepp.features.extract import extract_features
from vsepp.features.tape_writer import TapeJob, begin_tape, finish_tape, write_epochs
from vsepp.models.encoder import ImageEncoder, encoder_dim, load_encoder
from vsepp.runtime import devices
from vsepp.runtime.machine import use_machine
from vsepp.runtime.memory import out_of_memory_explained
from vsepp.runtime.placing import Placed, Placing, place, place_of
from vsepp.runtime.progress import track_bytes
from vsepp.runtime.workers import in_processes
from vsepp.spec import FeaturesSpec, TapeSpec

log = logging.getLogger("vsepp")


@dataclass(frozen=True)
class FrozenPass:
    """What a frozen encoder shall compute of the images of a store; and on what, which decides no result."""

    spec: FeaturesSpec | TapeSpec
    store: Path
    """Folder of the image store."""
    encoder: Path
    """Folder of the encoder."""
    device: str = "auto"
    """See `use_machine`, as for `share`, `threads` and `job`."""
    share: int = 1
    threads: int | None = None
    job: str = "vsepp"
    data_on: str = "auto"
    """See `Placing`."""


def make_features(wanted: FrozenPass, out: Path, state: Path) -> dict[str, Any]:
    """Extract the features of every image of a store; see `extract_features`.

    Parameters
    ----------
    wanted
        Its spec is a `FeaturesSpec`.
    out
        Folder of the result.
    state
        Folder that outlives a kill, for these inputs alone.

    Returns
    -------
    dict
        Facts for the manifest: `device`, `threads`, `data_on`, perhaps `gpu`.
    """
    crop = wanted.spec.crop
    with _prepared(wanted, f"{crop.kind} features") as (device, encoder, store, facts):
        extract_features(store, encoder, crop, out, state, device=device)
    return facts


def make_tape(wanted: FrozenPass, corpus: Path, out: Path, state: Path, writers: int = 1) -> dict[str, Any]:
    """Write the random-crop features of every caption of some splits in every epoch; see `write_epochs`.

    Parameters
    ----------
    wanted
        Its spec is a `TapeSpec`.
    corpus
        Folder of the tables.
    out
        Folder of the result.
    state
        Folder that outlives a kill, for these inputs alone.
    writers
        Processes that write, an epoch each at a time, each on a GPU of its own or with its part of the threads.

    Returns
    -------
    dict
        Facts for the manifest: `device`, `threads`, `data_on`, `writers`, perhaps `gpu`.

    Raises
    ------
    VseppError
        As `begin_tape` and `write_epochs` do, and when a writer was killed.
    """
    if writers < 1:
        raise VseppError(f"writers of a tape: got {writers}; expected at least 1")
    spec = wanted.spec
    _, captions = read_tables(corpus)
    tape = TapeJob(
        crops=CaptionCrops.from_table(captions, spec.crop, spec.draw),
        caption_rows=np.flatnonzero(np.isin(captions["split"], spec.splits)),
        dim=encoder_dim(spec.encoder, wanted.encoder),
        epochs=spec.epochs,
        out=out,
        state=state,
    )
    begin_tape(tape)
    facts: dict[str, Any] = {}
    # Again, should a writer of a killed step have been at an epoch.
    while missing := tape.missing_bytes():
        count = writers_of(writers, wanted.device, len(missing))
        facts = _write_missing(wanted, tape) if count == 1 else _write_together(wanted, tape, count)
    finish_tape(tape)
    return facts


def writers_of(wanted: int, device: str, epochs: int) -> int:
    """No more writers than were asked for, than there are epochs, and than there are GPUs where there are any."""
    if device.startswith("cuda:"):
        return 1
    gpus = 0 if device == "cpu" else len(devices.visible_gpus())
    return min(wanted, epochs, gpus or epochs)


def _write_missing(wanted: FrozenPass, tape: TapeJob, writers: int = 1) -> dict[str, Any]:
    """Write those epochs that no other of the writers is at, and tell the facts."""
    with _prepared(wanted, "random-crop features", writers) as (device, encoder, store, facts):
        if writers > 1:  # the process that started these shows the progress of all
            log.setLevel(logging.WARNING)
        write_epochs(tape, store, encoder, device=device, alone=writers == 1)
    return {**facts, "writers": writers}


def _write_together(wanted: FrozenPass, tape: TapeJob, writers: int) -> dict[str, Any]:
    """Have several processes write what is missing, and tell the facts of one."""
    threads = max((wanted.threads or os.cpu_count() or 1) // writers, 1)
    calls = [(replace(wanted, threads=threads), tape, writers)] * writers
    left = sum(tape.missing_bytes().values())
    what = f"random-crop features of {len(tape.missing_bytes())} epochs by {writers} processes"
    with track_bytes(left, what) as advance:

        def look() -> None:
            nonlocal left
            now = sum(tape.missing_bytes().values())
            advance(left - now)
            left = now

        return dict(in_processes(_write_missing, calls, writers, look))[0]


@contextmanager
def _prepared(
    wanted: FrozenPass, what: str, writers: int = 1
) -> Iterator[tuple[torch.device, ImageEncoder, Placed, dict[str, Any]]]:
    """Give the device, the encoder, the store where it shall lie, and the facts; explain a lack of memory within."""
    device, facts = use_machine(wanted.device, share=wanted.share, threads=wanted.threads, job=wanted.job)
    placing, spec = Placing(device, wanted.data_on, wanted.share), wanted.spec.encoder
    lower = [
        *placing.what_to_lower(),
        *([f"lower resources.tape_writers, now {writers}"] if writers > 1 else []),
        f"take a smaller encoder than {spec.architecture} or a smaller input_size than {spec.input_size}",
    ]
    with out_of_memory_explained(what, device, lower):
        encoder = load_encoder(spec, wanted.encoder)
        store = place(open_store(wanted.store), "image store", placing)
        yield device, encoder, store, {**facts, "data_on": {"image store": place_of(store)}}
