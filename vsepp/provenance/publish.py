"""Work in a state folder under a lock, then publish a step's outputs at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vsepp.provenance.digests import value_digest


@contextmanager
def state_folder(output: Path, *identity: object) -> Iterator[Path]:
    """Give a folder to work in that outlives a kill, and remove it once the body has succeeded.

    Snakemake deletes the declared outputs of a job that failed or is about to start, so what a resume needs
    cannot lie among them: it lies beside them, in `.state/<digest of identity>`, for one process at a time.

    Parameters
    ----------
    output
        Folder that the step publishes in.
    identity
        All that decides what the step computes; other values give another folder.
    """
    from filelock import FileLock

    folder = output.parent / ".state" / value_digest([output.name, *map(str, identity)])[:16]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        folder.mkdir(exist_ok=True)
        yield folder
        shutil.rmtree(folder)


def publish(files: dict[Path, Path]) -> None:
    """Move finished files (source → destination) into place, each atomically on one file system."""
    for source, destination in files.items():
        destination.parent.mkdir(parents=True, exist_ok=True)
        source.replace(destination)
