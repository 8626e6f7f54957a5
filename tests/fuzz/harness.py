"""Damages the files of a target, reads them in a process of limited memory, and counts what comes of it."""

import multiprocessing
import os
import random
import re
import resource
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from mutations import damaged

from vsepp.errors import VseppError

SECONDS, HANGING = 5.0, 120.0
"""Of the processor that one input may take; of the clock after which a process counts as hanging."""
MEMORY = 2 << 30
"""Bytes of address space that reading may take beside what the process has."""
# What no message may hold: addresses, errors of the system with their number, other programs' objects.
_RAW = re.compile(r"<_io\.|<[\w.]+ object| at 0x[0-9a-f]+|Traceback|\[Errno|BytesIO|\b\w+(Error|Exception)\b")


@dataclass
class Outcome:
    """What became of the inputs of a target."""

    inputs: int = 0
    errors: int = 0
    correct: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    memory: int = 0
    """Bytes of memory at most, beside what the process had."""
    findings: list[str] = field(default_factory=list)
    """Tracebacks, wrong results, inputs that take too long and messages that are none."""

    @property
    def broken(self) -> str:
        return "\n\n".join(self.findings[:10])


def fuzz(name: str, inputs: int, first: int = 0) -> Outcome:
    """Try inputs `first`, `first + 1`, … of a target; a process that ends or hangs is a finding, and another goes on."""
    whole, at = Outcome(), first
    context = multiprocessing.get_context("spawn")
    while at < first + inputs:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(name, at, first + inputs - at, theirs))
        process.start()
        theirs.close()
        done, current = None, at
        try:
            while done is None:
                if not ours.poll(HANGING):
                    process.kill()
                    break
                said = ours.recv()
                done, current = (said, current) if isinstance(said, Outcome) else (None, said)
        except EOFError:
            pass
        process.join()
        ours.close()
        if done is None:
            whole.inputs += current - at + 1
            whole.findings.append(f"{name}, input {current}: the process ended ({process.exitcode}) or hung")
            at = current + 1
            continue
        at = first + inputs
        for key in ("inputs", "errors", "correct", "seconds", "findings"):
            setattr(whole, key, getattr(whole, key) + getattr(done, key))
        whole.slowest, whole.memory = max(whole.slowest, done.slowest), max(whole.memory, done.memory)
    return whole


def _work(name: str, first: int, inputs: int, told) -> None:
    from targets import TARGETS

    with tempfile.TemporaryDirectory() as place:
        told.send(_tried(TARGETS[name], name, Path(place) / "files", first, inputs, told))


def _tried(target, name, folder, first, inputs, told) -> Outcome:
    folder.mkdir()
    context = target.prepare(folder)
    undamaged = target.read(context)
    if wrong := target.wrong(context, undamaged, undamaged, False):
        raise AssertionError(f"{name}: undamaged: {wrong}")
    whole = {path: path.read_bytes() for path in sorted(folder.glob(target.files)) if path.is_file()}
    before = _limit_memory()
    outcome = Outcome()
    for number in range(first, first + inputs):
        told.send(number)
        made = random.Random(f"{name}/{number}")
        path = made.choice(list(whole))
        data = damaged(made, whole[path], path.suffix)
        path.write_bytes(data)
        started = time.process_time()
        try:
            result = target.read(context)
        except VseppError as error:
            outcome.errors += 1
            wrong = _message_fault(str(error), folder)
        except BaseException:
            wrong = traceback.format_exc(limit=-6)
        else:
            wrong = _contradiction(target, context, result, undamaged, data != whole[path])
            outcome.correct += wrong is None
        took = time.process_time() - started
        if took > SECONDS:
            wrong = f"took {took:.1f} s; {wrong or ''}"
        if wrong:
            outcome.findings.append(f"{name}, input {number} ({path.name}): {wrong}")
        outcome.inputs += 1
        outcome.seconds += took
        outcome.slowest = max(outcome.slowest, took)
        path.write_bytes(whole[path])
    outcome.memory = max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
    return outcome


def _contradiction(target, context, result, undamaged, damaged_now) -> str | None:
    try:
        return target.wrong(context, result, undamaged, damaged_now)
    except Exception as error:
        return f"accepted, but not by the oracle: {error!r:.300}"


def _message_fault(message: str, folder: Path) -> str | None:
    if raw := _RAW.search(message):
        return f"a message with {raw[0]!r}: {message[:500]}"
    if len(message) > 6000:
        return f"a message of {len(message)} letters: {message[:300]}"
    names = {folder.name, *(path.name for path in folder.rglob("*"))}
    return None if any(name in message for name in names) else f"a message that names no file: {message[:500]}"


def _limit_memory() -> int:
    """Bound what this process may take from now on; give the most that it took so far."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, resource.RLIM_INFINITY))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
