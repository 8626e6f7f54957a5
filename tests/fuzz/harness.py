"""Damages the files of targets, reads them in a process of limited memory, and counts what comes of it."""

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

from vsepp.base.errors import VseppError
from vsepp.base.provenance import peak_memory

SECONDS, HANGING, STARTING = 5.0, 120.0, 900.0
"""Processor time that one input may take; clock time after which the process counts as hanging, or as never started."""
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
    """Processor time of reading and of the oracle."""
    slowest: float = 0.0
    memory: int = 0
    """Bytes at most, beside what the process had taken before."""
    faults: list[str] = field(default_factory=list)
    """Tracebacks, wrong results, inputs that take too long, and messages that are none."""


def fuzz(names: Sequence[str], inputs: int, first: int = 0) -> dict[str, Outcome]:
    """Try inputs `first`, `first + 1`, … of each target, in one process; its end or its hanging names the input."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(names, first, inputs, theirs))
    process.start()
    theirs.close()
    outcomes, current = {}, None
    try:
        while len(outcomes) < len(names):
            if not ours.poll(HANGING if current else STARTING):
                process.kill()
                raise RuntimeError(f"{current or 'the process'} hangs")
            current, outcome = ours.recv()
            if outcome:
                outcomes[current] = outcome
    except EOFError:
        process.join()
        raise RuntimeError(f"{current}: its process ended ({process.exitcode})") from None
    process.join()
    return outcomes


def _work(names, first, inputs, sender) -> None:
    from targets import TARGETS

    logging.disable()
    warnings.simplefilter("ignore")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            outcome = _outcome(
                TARGETS[name], name, Path(folder) / "files", range(first, first + inputs), sender
            )
            sender.send((name, outcome))


def _outcome(target, name, folder, numbers, sender) -> Outcome:
    folder.mkdir()
    context = target.prepare(folder)
    undamaged = target.read(context)
    assert not (fault := target.wrong(context, undamaged, undamaged)), f"{name}, undamaged: {fault}"
    whole = {path: path.read_bytes() for path in sorted(folder.glob(target.files)) if path.is_file()}
    before = _limit_memory()
    outcome = Outcome()
    for number in numbers:
        rng = random.Random(f"{name}/{number}")
        path = rng.choice(list(whole))
        path.write_bytes(damaged(rng, whole[path], path.suffix))
        what = f"{name}, input {number} ({path.name})"
        sender.send((what, None))
        started = time.process_time()
        try:
            result = target.read(context)
        except VseppError as error:
            outcome.errors += 1
            fault = _message_fault(str(error), folder)
        except BaseException:
            fault = traceback.format_exc(limit=-6)
        else:
            fault = _contradiction(target, context, result, undamaged)
            outcome.correct += fault is None
        seconds = time.process_time() - started
        if seconds > SECONDS:
            fault = f"took {seconds:.1f} s; {fault or ''}"
        if fault:
            outcome.faults.append(f"{what}: {fault}")
        outcome.inputs += 1
        outcome.seconds += seconds
        outcome.slowest = max(outcome.slowest, seconds)
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
    return None if any(name in message for name in names) else f"no file in the message: {message[:500]}"


def _limit_memory() -> int:
    """Bound what this process may take from now on; give what it takes, from which the most is counted anew."""
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, resource.RLIM_INFINITY))
    Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()
