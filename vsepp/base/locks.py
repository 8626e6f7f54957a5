"""Locks between processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vsepp.base.errors import VseppError

if TYPE_CHECKING:
    from filelock import FileLock


def file_lock(path: Path) -> FileLock:
    """The lock of a file, not yet taken, where the file system has locks.

    Without them filelock would fall back to a file that must not exist, and would wait for ever for
    one that nobody holds.

    Raises
    ------
    VseppError
        If the file system has none.
    """
    import fcntl
    from tempfile import TemporaryFile

    from filelock import FileLock

    with TemporaryFile(dir=path.parent) as probe:
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise VseppError(
                f"{path.parent}: this file system has no locks (flock: {error.strerror}), so two processes "
                "could make one file at once; put the folder on a disk of this machine, or mount the file "
                "system with locks"
            ) from error
    return FileLock(path, fallback_to_soft=False)
