"""Damages the files of targets, reads them in a process of limited memory, and counts what comes of it."""

import contextlib
import logging
import multiprocessing
import os
import random
import re
import resource
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mutations import damaged

from vsepp.errors import VseppError
from vsepp.runtime.progress import peak_memory

SECONDS, HANGING = 5.0, 900.0
"""Of the processor that one input may take; of the clock after which a process counts as hanging."""
MEMORY = 2 << 30
"""Bytes of address space that reading may take beside what the process has."""
# What no message may hold: addresses, errors by the name of their class, the number of one of the system.
_RAW = re.compile(
    r"<_io\.|<[\w.]+ object| at 0x[0-9a-f]+|Traceback|\[Errno|BytesIO|\b[A-Z]\w+(Error|Exception)\b"
)


@dataclass
class Outcome:
    """What became of the inputs of a target."""

    inputs: int = 0
    errors: int = 0
    correct: int = 0
    seconds: float = 0.0
    """Of the processor, reading alone."""
    slowest: float = 0.0
    memory: int = 0
    """Bytes at most, beside what the process had taken before."""
    tracebacks: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Wrong results, inputs that take too long, and messages that are none."""


def fuzz(names: Sequence[str], inputs: int, first: int = 0) -> dict[str, Outcome]:
    """Try inputs `first`, `first + 1`, … of each target, in a process of its own, which may neither end nor hang."""
    outcomes: dict[str, Outcome] = {}
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(names, inputs, first, theirs))
    process.start()
    theirs.close()
    at = ""
    with contextlib.suppress(EOFError):
        while len(outcomes) < len(names) and ours.poll(HANGING):
            message = ours.recv()
            if isinstance(message, Outcome):
                outcomes[names[len(outcomes)]] = message
            else:
                at = message
    process.kill()
    process.join()
    assert len(outcomes) == len(names), f"{at or 'at the start'}: the process ended or hung"
    return outcomes


def _work(names, inputs, first, told) -> None:
    from targets import TARGETS

    logging.disable()
    warnings.simplefilter("ignore")
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            told.send(_tried(TARGETS[name], name, Path(place) / "files", first, inputs, told))


def _tried(target, name, folder, first, inputs, told) -> Outcome:
    folder.mkdir()
    context = target.prepare(folder)
    undamaged = target.read(context)
    assert not (fault := target.wrong(context, undamaged, undamaged)), f"{name}, undamaged: {fault}"
    whole = {path: path.read_bytes() for path in sorted(folder.glob(target.files)) if path.is_file()}
    before = _limit_memory()
    outcome = Outcome()
    for number in range(first, first + inputs):
        told.send(f"{name}, input {number}")
        made = random.Random(f"{name}/{number}")
        path = made.choice(list(whole))
        path.write_bytes(damaged(made, whole[path], path.suffix))
        what = f"{name}, input {number} ({path.name})"
        started, fault = time.process_time(), None
        try:
            result = target.read(context)
        except VseppError as error:
            took = time.process_time() - started
            outcome.errors += 1
            fault = _message_fault(str(error), folder)
        except BaseException:
            took = time.process_time() - started
            outcome.tracebacks.append(f"{what}: {traceback.format_exc(limit=-6)}")
        else:
            took = time.process_time() - started
            fault = _contradiction(target, context, result, undamaged)
            outcome.correct += fault is None
        if took > SECONDS:
            fault = f"took {took:.1f} s; {fault or ''}"
        if fault:
            outcome.wrong.append(f"{what}: {fault}")
        outcome.inputs += 1
        outcome.seconds += took
        outcome.slowest = max(outcome.slowest, took)
        path.write_bytes(whole[path])
    outcome.memory = max(0, peak_memory() - before)
    return outcome


def _contradiction(target, context, result, undamaged) -> str | None:
    try:
        return target.wrong(context, result, undamaged)
    except Exception as error:
        return f"accepted, but not by the oracle: {error!r:.300}"


def _message_fault(message: str, folder: Path) -> str | None:
    if raw := _RAW.search(message):
        return f"a message with {raw[0]!r}: {message[:500]}"
    if any(len(line) > 8000 for line in message.split("\n")):
        return f"a message of {len(message)} letters: {message[:300]}"
    names = {folder.name, *(path.name for path in folder.rglob("*"))}
    return (
        None if any(name in message for name in names) else f"a message that names no file: {message[:500]}"
    )


def _limit_memory() -> int:
    """Bound what this process may take from now on; give what it takes, from which the most is counted anew."""
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, resource.RLIM_INFINITY))
    Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()
