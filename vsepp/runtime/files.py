"""Files written whole or not at all: text, CSV, arrays."""

from __future__ import annotations

import csv
import glob
import io
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from vsepp.errors import VseppError
from vsepp.user_files import reason_of

if TYPE_CHECKING:
    import numpy as np

_PROCESSES = Path("/proc")


def output_folder(folder: Path) -> Path:
    """Make a folder that results are written to; return it.

    Raises
    ------
    VseppError
        If it cannot be made or written to, before anything is computed for it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return folder
    except (OSError, ValueError) as error:
        raise VseppError(
            f"{folder}: results cannot be written there: {reason_of(error)}; give another folder"
        ) from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; it replaces `path` once the body has succeeded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def partial_path(path: Path) -> Path:
    """Path beside `path` for unfinished content.

    Each process has its own: two processes that make one artefact must not write to the same file. Leftovers of
    killed processes of this machine are removed.
    """
    here = f".{path.name}.{os.uname().nodename}"
    for left in path.parent.glob(f"{glob.escape(here)}.*.part"):
        if _PROCESSES.is_dir() and not (_PROCESSES / left.name.split(".")[-2]).is_dir():
            remove(left)
    return path.with_name(f"{here}.{os.getpid()}.part")


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_arrays(path: Path, *, compressed: bool = False, **arrays: np.ndarray) -> None:
    """Write an `.npz`."""
    import numpy as np

    save = np.savez_compressed if compressed else np.savez
    with whole_file(Path(path)) as partial, partial.open("wb") as stream:
        save(stream, **arrays)  # type: ignore[arg-type]  # none is named allow_pickle


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Some columns of rows as CSV, below a heading."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_text(path: Path, text: str) -> None:
    """Write a text file, as UTF-8."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")
