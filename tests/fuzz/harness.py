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
"""Processor time that one input may take; clock time after which a process counts as hanging, or as never started."""
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
    """Processor time of reading alone."""
    slowest: float = 0.0
    memory: int = 0
    """Bytes at most, beside what the process had taken before."""
    tracebacks: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Wrong results, inputs that take too long, processes that end, and messages that are none."""

    def add(self, other: "Outcome") -> None:
        for key in ("inputs", "errors", "correct", "seconds", "tracebacks", "wrong"):
            setattr(self, key, getattr(self, key) + getattr(other, key))
        self.slowest, self.memory = max(self.slowest, other.slowest), max(self.memory, other.memory)


def fuzz(names: Sequence[str], inputs: int, first: int = 0) -> dict[str, Outcome]:
    """Try inputs `first`, `first + 1`, … of each target, in one process; where it ends or hangs, another goes on."""
    found = {name: Outcome() for name in names}
    jobs = [(name, first, inputs) for name in names]
    context = multiprocessing.get_context("spawn")
    while jobs:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(jobs, theirs))
        process.start()
        theirs.close()
        at = None
        try:
            while jobs:
                if not ours.poll(STARTING if at is None else HANGING):
                    process.kill()
                    break
                said = ours.recv()
                if isinstance(said, Outcome):
                    found[jobs.pop(0)[0]].add(said)
                    at = None
                else:
                    at = said
        except EOFError:
            pass
        process.join()
        ours.close()
        if jobs:  # its outcome is lost: the inputs so far are counted, and what came of them is not
            name, start, count = jobs[0]
            if at is None:
                raise RuntimeError(f"{name}: its undamaged files cannot be prepared or read")
            found[name].inputs += at - start + 1
            found[name].wrong.append(f"{name}, input {at}: its process ended ({process.exitcode}) or hung")
            jobs[0] = (name, at + 1, start + count - at - 1)
    return found


def _work(jobs, told) -> None:
    from targets import TARGETS

    logging.disable()
    warnings.simplefilter("ignore")
    for name, first, inputs in jobs:
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
        told.send(number)
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
