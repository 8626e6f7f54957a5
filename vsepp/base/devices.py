"""Which GPU a job computes on. Snakemake counts GPUs but assigns none, so jobs take theirs by locks.

Nothing here imports torch: the workflow counts GPUs at every start, and a job must know
its GPU before CUDA does.
"""

from __future__ import annotations

import logging
import os
import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from vsepp.base.errors import VseppError
from vsepp.base.locks import file_lock

if TYPE_CHECKING:
    from filelock import BaseFileLock

log = logging.getLogger("vsepp")

VISIBLE = "CUDA_VISIBLE_DEVICES"
# Schedulers give each job its own GPUs, and many number them from 0: GPU 0 of one job is
# not GPU 0 of another.
ALLOCATIONS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")
SECONDS_BETWEEN_TRIES = 1.0


def process_rank() -> int:
    """Number of this process among the processes that `torchrun` started; 0 without it."""
    return int(os.environ.get("RANK", 0))


def local_rank() -> int | None:
    """Number of this process among the processes that `torchrun` started on this
    machine; `None` without it."""
    number = os.environ.get("LOCAL_RANK")
    return None if number is None else int(number)


def installed() -> int:
    """GPUs of this machine that have a device file."""
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def visible_gpus() -> tuple[str, ...]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them: numbers or UUIDs.

    If it is not set: all. As in the driver, the list ends at the first entry that is not a GPU.
    """
    existing = [str(number) for number in range(installed())]
    if VISIBLE not in os.environ or not existing:
        return tuple(existing)
    entries = map(str.strip, os.environ[VISIBLE].split(","))
    known = takewhile(lambda entry: entry in existing or entry.startswith(("GPU-", "MIG-")), entries)
    return tuple(dict.fromkeys(known))


def allowed_gpus(gpus: Sequence[str], number: int | None) -> Sequence[str]:
    """The GPUs that a job may take: all, or for `cuda:N` only the N-th, from 0.

    Raises
    ------
    VseppError
        If there are not that many.
    """
    if number is None:
        return gpus
    if number >= len(gpus):
        raise VseppError(
            f"device: got cuda:{number}, but there are {len(gpus)} GPUs here; expected cuda:0 to "
            f"cuda:{len(gpus) - 1}"
        )
    return gpus[number : number + 1]


def lock_folder() -> Path:
    """Folder in which jobs of this user, within one allocation of a scheduler, lock their GPUs."""
    job = next((os.environ[name] for name in ALLOCATIONS if os.environ.get(name)), "")
    folder = Path(tempfile.gettempdir()) / "-".join(["vsepp-devices", str(os.getuid()), *filter(None, [job])])
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextmanager
def claim(what: str, gpus: Sequence[str], share: int = 1) -> Iterator[str]:
    """Take one of some GPUs, waiting while all are taken, and make it the only one this process sees.

    A job that shares its GPU with N - 1 others takes 1/N of it, and jobs fit as long as their parts add up to
    at most one: a job that needs a whole GPU never shares it. Jobs take the emptiest GPU. When a process
    ends, however it ends, the kernel releases its locks.

    Parameters
    ----------
    what
        Name of this job, for the log while it waits.
    gpus
        Numbers or UUIDs, from `visible_gpus`. A GPU must have one name: a number and a UUID are not compared.
    share
        N, the number of jobs of this kind that fit on one GPU.

    Yields
    ------
    str
        The GPU; CUDA_VISIBLE_DEVICES is set to it meanwhile.
    """
    gpu, lock = _wait(what, gpus, share, lock_folder())
    before = os.environ.get(VISIBLE)
    os.environ[VISIBLE] = gpu
    try:
        yield gpu
    finally:
        if before is None:
            os.environ.pop(VISIBLE, None)
        else:
            os.environ[VISIBLE] = before
        lock.release()


def _wait(what: str, gpus: Sequence[str], share: int, folder: Path) -> tuple[str, BaseFileLock]:
    """Try until there is room on one of the GPUs, and log which processes this one waits for."""
    logged = False
    # In another container a process may have the same number, and locks may lie in the same folder.
    process = f"{os.getpid()} of {platform.node()}"
    while True:
        # Only one process looks at a time, so that the room that it sees is still there
        # when it takes its part.
        with file_lock(folder / "looking.lock"):
            holders = {gpu: _holders(folder, gpu) for gpu in gpus}
            taken = {gpu: sum(part for _, part in holders[gpu]) for gpu in gpus}
            emptiest = min(gpus, key=taken.__getitem__)
            if taken[emptiest] + Fraction(1, share) <= 1:
                lock = file_lock(folder / _lock_name(emptiest, process, uuid4().hex, share))
                lock.acquire()
                return emptiest, lock
        if not logged:
            logged = True
            busy = "; ".join(
                f"GPU {gpu} with process {', '.join(process for process, _ in claims)}"
                for gpu, claims in holders.items()
            )
            log.info("%s (process %d) waits for %s", what, os.getpid(), busy)
        time.sleep(SECONDS_BETWEEN_TRIES)


def _lock_name(gpu: str, process: str, claim: str, share: object) -> str:
    """Name of the lock of a claim of 1/`share` of a GPU; some names of parts of a GPU have slashes."""
    return f"gpu-{gpu.replace('/', '_')}#{process}#{claim}#{share}.lock"


def _holders(folder: Path, gpu: str) -> list[tuple[str, Fraction]]:
    """Process and its part of a GPU, for the claims whose lock is held now; locks that
    others left are removed."""
    from filelock import Timeout

    parts = []
    for path in folder.glob(_lock_name(gpu, "*", "*", "*")):
        try:
            with file_lock(path).acquire(blocking=False):
                path.unlink(missing_ok=True)
        except Timeout:
            _, process, _, share = path.stem.split("#")
            parts.append((process, Fraction(1, int(share))))
    return parts
