"""The steps that run a frozen encoder over an image store: features of all images, and tapes of random crops."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
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
from vsepp.spec import CropSpec, EncoderSpec

log = logging.getLogger("vsepp")


@dataclass(frozen=True)
class FrozenPass:
    """A frozen encoder and the images that it runs over; and the machine's part, on which no result depends."""

    encoder: EncoderSpec
    encoder_folder: Path
    store: Path
    """Folder of the image store."""
    device: str = "auto"
    """See `use_machine`, as for `share`, `threads` and `job`."""
    share: int = 1
    threads: int | None = None
    job: str = "vsepp"
    data_on: str = "auto"
    """See `Placing`."""


def make_features(frozen: FrozenPass, crop: CropSpec, out: Path, state: Path) -> dict[str, Any]:
    """Extract the features of every image of a store; see `extract_features`.

    Parameters
    ----------
    frozen
        Encoder and store.
    crop
        Kind `1C` or `10C`.
    out
        Folder of the result.
    state
        Folder that outlives a kill, for these inputs alone.

    Returns
    -------
    dict
        Facts for the manifest: `device`, `threads`, `data_on`, perhaps `gpu`.
    """
    with _prepared(frozen, f"{crop.kind} features") as (device, encoder, store, facts):
        extract_features(store, encoder, crop, out, state, device=device)
    return facts


def make_tape(
    frozen: FrozenPass,
    crop: CropSpec,
    corpus: Path,
    *,
    splits: Sequence[str],
    draw: int,
    epochs: int,
    out: Path,
    state: Path,
    writers: int = 1,
) -> dict[str, Any]:
    """Write the random-crop features of every caption of some splits in every epoch.

    Parameters
    ----------
    frozen
        Encoder and store.
    crop
        Kind `RC`.
    corpus
        Folder of the tables.
    splits
        Those whose captions are trained on.
    draw, epochs
        Which draw of random crops, and how many epochs.
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
    _, captions = read_tables(corpus)
    job = TapeJob(
        CaptionCrops.from_table(captions, crop, draw),
        np.flatnonzero(captions["split"].isin(splits)),
        encoder_dim(frozen.encoder, frozen.encoder_folder),
        epochs,
        out,
        state,
    )
    begin_tape(job)
    facts: dict[str, Any] = {}
    # Again, should a writer of a killed step have been at an epoch.
    while missing := job.missing_bytes():
        count = writers_of(writers, frozen.device, len(missing))
        facts = _write_missing(frozen, job) if count == 1 else _write_together(frozen, job, count)
    finish_tape(job)
    return facts


def writers_of(wanted: int, device: str, epochs: int) -> int:
    """No more writers than were asked for, than there are epochs, and than there are GPUs where there are any."""
    if device.startswith("cuda:"):
        return 1
    gpus = 0 if device == "cpu" else len(devices.visible_gpus())
    return min(wanted, epochs, gpus or epochs)


def _write_missing(frozen: FrozenPass, job: TapeJob, writers: int = 1) -> dict[str, Any]:
    """Write those epochs that no other of the writers is at, and tell the facts."""
    with _prepared(frozen, "random-crop features", writers) as (device, encoder, store, facts):
        if writers > 1:  # the process that started these shows the progress of all
            log.setLevel(logging.WARNING)
        write_epochs(job, store, encoder, device=device, alone=writers == 1)
    return {**facts, "writers": writers}


def _write_together(frozen: FrozenPass, job: TapeJob, writers: int) -> dict[str, Any]:
    """Have several processes write what is missing, and tell the facts of one."""
    threads = max((frozen.threads or os.cpu_count() or 1) // writers, 1)
    calls = [(replace(frozen, threads=threads), job, writers)] * writers
    left = sum(job.missing_bytes().values())
    what = f"random-crop features of {len(job.missing_bytes())} epochs by {writers} processes"
    with track_bytes(left, what) as advance:

        def look() -> None:
            nonlocal left
            now = sum(job.missing_bytes().values())
            advance(left - now)
            left = now

        return dict(in_processes(_write_missing, calls, writers, look))[0]


@contextmanager
def _prepared(
    frozen: FrozenPass, what: str, writers: int = 1
) -> Iterator[tuple[torch.device, ImageEncoder, Placed, dict[str, Any]]]:
    """Give the device, the encoder, the store where it shall lie, and the facts; explain a lack of memory within."""
    device, facts = use_machine(frozen.device, share=frozen.share, threads=frozen.threads, job=frozen.job)
    placing, spec = Placing(device, frozen.data_on, frozen.share), frozen.encoder
    lower = [
        *placing.what_to_lower(),
        *([f"lower resources.tape_writers, now {writers}"] if writers > 1 else []),
        f"take a smaller encoder than {spec.architecture} or a smaller input_size than {spec.input_size}",
    ]
    with out_of_memory_explained(what, device, lower):
        encoder = load_encoder(spec, frozen.encoder_folder)
        store = place(open_store(frozen.store), "image store", placing)
        yield device, encoder, store, {**facts, "data_on": {"image store": place_of(store)}}
