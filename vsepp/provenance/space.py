"""Whether a disk has room for what a step is going to write."""

from __future__ import annotations

import shutil
from pathlib import Path

from vsepp.errors import VseppError
from vsepp.runtime.progress import bytes_text


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
