"""Writes that the system refuses, for want of space or of rights: errors that say so, and what is free."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path

from vsepp.errors import VseppError
from vsepp.runtime.progress import bytes_text

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""A quota or a limit on file sizes stops a write like a full disk."""

_RIGHTS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# How libraries not written in Python tell of a write that failed; NumPy's words come without a number.
_OF_A_LIBRARY = re.compile(r"\(os error (\d+)\)|\d+ requested and \d+ written")


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


def refused_by_system(error: BaseException, folder: Path) -> str | None:
    """Tell in a sentence that a disk is full or a file may not be written; `None` of any other failure.

    Parameters
    ----------
    error
        What was raised, by the system or by a library that met the system's error.
    folder
        Where the step writes.
    """
    cause: BaseException | None = error
    while cause is not None:
        number, name = _system_error(cause)
        if number in NO_SPACE:
            existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
            free = bytes_text(shutil.disk_usage(existing).free)
            return (
                f"{name or folder}: no space left on the disk, {free} are free. Free some and run the step again: it "
                "continues where it was"
            )
        if number in _RIGHTS:
            return (
                f"{name or folder}: this user may not read or write it ({os.strerror(number)}). Get the right to, or choose "
                "another folder, and run the step again"
            )
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return None


def _system_error(error: BaseException) -> tuple[int, str | None]:
    """The system's number of an error, 0 if it has none, and the file that it is about, if that is known."""
    if isinstance(error, OSError) and error.errno:
        return error.errno, error.filename
    if found := _OF_A_LIBRARY.search(str(error)):
        return int(found[1] or errno.ENOSPC), None
    return 0, None
