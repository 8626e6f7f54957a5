"""Training steps of several processes on one device at once: what `resources.runs_per_gpu` is chosen by."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from vsepp.bench.case import Case, own_peaks
from vsepp.bench.made_up import write_artefacts
from vsepp.bench.measurement import Measurement
from vsepp.bench.steps import step_case
from vsepp.errors import VseppError
from vsepp.training.data import Artefacts

# Steps that each process takes before it waits for the others.
STEPS = 4


def sharing_case(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    """Steps of `measurement.processes` trainings at once, each with its share of the threads, at least one.

    Parameters
    ----------
    measurement
        Its run is what each of them trains.
    folder
        Empty, for the artefacts that all of them read.
    device
        Where all of them step.

    Raises
    ------
    VseppError
        When one of the processes ends, as for want of memory.
    """
    artefacts, count = write_artefacts(measurement, folder), measurement.processes
    threads = max(1, torch.get_num_threads() // count)
    # Forked before this process touches a GPU: torch is imported once, and each has a context of its own.
    context = multiprocessing.get_context("fork")
    ends: list[Connection] = []
    for _ in range(count):
        end, other = context.Pipe()
        ends.append(end)
        arguments = (measurement, artefacts, device, threads, other, tuple(ends))
        context.Process(target=_take_steps, args=arguments, daemon=True).start()
        other.close()
    facts = _answers(measurement, ends)[0]
    spent = [0.0]

    def call() -> None:
        spent[0] += sum(_ask(measurement, ends, "steps"))

    def peaks() -> dict[str, int]:
        found = _ask(measurement, ends, "peaks")
        return {key: sum(peak[key] for peak in found) for key in found[0]}

    items = count * STEPS * measurement.run.schedule.batch_size
    facts = {**facts, "processes": count, "threads_of_each": threads}
    return Case(call, items, facts, lambda: spent[0], peaks)


def _ask(measurement: Measurement, ends: Sequence[Connection], what: str) -> list[Any]:
    """Tell all processes to do something, and wait for all of them."""
    for end in ends:
        end.send(what)
    return _answers(measurement, ends)


def _answers(measurement: Measurement, ends: Sequence[Connection]) -> list[Any]:
    try:
        return [end.recv() for end in ends]
    except (EOFError, ConnectionResetError) as error:
        raise VseppError(
            f"{measurement.name}: one of {measurement.processes} processes that share the device ended; their memory may "
            "not fit together: leave it out with --only, or measure on a larger device"
        ) from error


def _take_steps(
    measurement: Measurement,
    artefacts: Artefacts,
    device: torch.device,
    threads: int,
    asked: Connection,
    inherited: Sequence[Connection],
) -> None:
    """Be one of the processes until the parent is gone."""
    for end in inherited:  # else the others would keep a dead parent's ends open
        end.close()
    torch.set_num_threads(threads)
    with closing(step_case(measurement, artefacts, device)) as case, suppress(EOFError):
        case.call()
        asked.send(case.facts)
        while True:
            if asked.recv() == "peaks":
                asked.send(own_peaks())
                continue
            started = time.process_time()
            for _ in range(STEPS):
                case.call()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            asked.send(time.process_time() - started)
