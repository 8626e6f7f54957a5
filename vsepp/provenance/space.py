"""Full disks, now or soon: errors that say how much is needed and how much is free."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vsepp.errors import VseppError
from vsepp.runtime.progress import bytes_text

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""A quota or a limit on file sizes stops a write like a full disk."""


def check_space(folder: Path, needed: int, what: str) -> None:
    """Refuse to start what the disk cannot hold; `needed` is in bytes.

    Raises
    ------
    VseppError
        Naming what is needed and what is free.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise VseppError(
            f"{folder}: no space: {what} needs {bytes_text(needed)} and {bytes_text(free)} are free; free some, or put the "
            "results on another disk"
        )


@contextmanager
def full_disk_explained(path: Path, what: str, needed: int | None) -> Iterator[None]:
    """Turn the system's error about a full disk into one that says how to continue; raise other failures unchanged.

    Parameters
    ----------
    path
        File or folder being written to.
    what
        What there is no space for, after the words "no space": `for the image store`.
    needed
        Bytes that it needs, if known.

    Raises
    ------
    VseppError
        If the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        free = bytes_text(shutil.disk_usage(path if path.is_dir() else path.parent).free)
        takes = "" if needed is None else f"{bytes_text(needed)} are needed, "
        raise VseppError(
            f"{path}: no space {what} ({error.strerror}): {takes}{free} are free. Free some and run the step again: it "
            "continues where it was"
        ) from error
