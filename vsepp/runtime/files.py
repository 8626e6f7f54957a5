"""Files that are written whole or not at all, and large ones that are read with progress."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vsepp.runtime.progress import track_bytes

_BLOCK = 1 << 20


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a path beside `path` to write to, which replaces `path` once the body has succeeded.

    Its name is the process's own: two processes that make one artefact must not write into one file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, as UTF-8."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def blocks_of(path: Path, what: str) -> Iterator[bytes]:
    """Blocks of a large file, with progress; `what` is said of it in a few words."""
    with path.open("rb") as stream, track_bytes(path.stat().st_size, what) as advance:
        while block := stream.read(_BLOCK):
            yield block
            advance(len(block))
