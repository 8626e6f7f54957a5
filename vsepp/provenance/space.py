"""Disks that are full, or will be: said with how much is needed and how much there is."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vsepp.errors import VseppError
from vsepp.runtime.progress import bytes_text

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""A quota and a limit on the size of files stop a write as a full disk does."""


def check_space(folder: Path, needed: int, what: str) -> None:
    """Refuse to begin what the disk cannot hold; `needed` is in bytes.

    Raises
    ------
    VseppError
        Naming what is needed and what is free.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise VseppError(
            f"{folder}: no space: {what} needs {bytes_text(needed)} and {bytes_text(free)} are free; free some or put the "
            "results on another disk"
        )


@contextmanager
def full_disk_explained(path: Path, what: str, needed: int | None) -> Iterator[None]:
    """Turn the system's refusal of bytes into an error that says how to go on; other failures pass.

    Parameters
    ----------
    path
        File or folder that is written to.
    what
        Says what there is no space for, behind "no space": `for the image store`.
    needed
        Bytes that it takes, where known.

    Raises
    ------
    VseppError
        Where the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        free = bytes_text(shutil.disk_usage(path if path.is_dir() else path.parent).free)
        takes = "" if needed is None else f"{bytes_text(needed)} are needed, "
        raise VseppError(
            f"{path}: no space {what} ({error.strerror}): {takes}{free} are free. Free some and run the step again: it goes "
            "on from what is done"
        ) from error
