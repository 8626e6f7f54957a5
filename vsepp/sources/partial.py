"""The part of a download that is on disk: its bytes, their SHA-256 so far and their origin."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path

from vsepp.runtime.files import blocks_of, write_text


@dataclass(frozen=True)
class Origin:
    """What a server says about the file that it sends."""

    url: str
    etag: str | None
    last_modified: str | None
    total: int | None
    """Bytes of the whole file, if it says so."""

    @property
    def validator(self) -> str | None:
        """Value for `If-Range` that identifies the content: a strong ETag, otherwise the date."""
        if self.etag and not self.etag.startswith("W/"):
            return self.etag
        return self.last_modified


class Partial:
    """A download in progress in a state folder, which survives a kill.

    Attributes
    ----------
    file
        The bytes.
    length
        Number of bytes.
    origin
        Where they came from; `None` if there are none.
    pieced
        Whether they came in more than one response, so that a wrong checksum may be due to joining them.
    """

    def __init__(self, folder: Path, what: str):
        """Resume from what is in `folder`, reading it once for its hash."""
        self.file = folder / "content"
        self._note = folder / "origin.json"
        self.length = 0
        self.pieced = False
        self._sha = hashlib.sha256()
        self.origin = _read_origin(self._note)
        if self.origin and self.file.is_file() and self.file.stat().st_size:
            self.pieced = True
            for block in blocks_of(self.file, f"{what}: reading what is there"):
                self._sha.update(block)
                self.length += len(block)

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes so far, in hexadecimal."""
        return self._sha.hexdigest()

    @property
    def whole(self) -> bool:
        """Whether all bytes that the server announced are there."""
        return self.origin is not None and self.length == self.origin.total

    def start(self, origin: Origin | None) -> None:
        """Discard all bytes and start again from the first one, from `origin`."""
        self.file.open("wb").close()
        self._sha = hashlib.sha256()
        self.length = 0
        self.pieced = False
        self._write_origin(origin)

    def go_on(self, origin: Origin) -> None:
        """The next bytes follow those that are there, from `origin`."""
        self.pieced = True
        self._write_origin(origin)

    def append(self, stream: FileIO, block: bytes) -> None:
        """Write a block; `stream` is `file`, opened unbuffered to append."""
        view = memoryview(block)
        while view:
            view = view[stream.write(view) :]
        self._sha.update(block)
        self.length += len(block)

    def _write_origin(self, origin: Origin | None) -> None:
        self.origin = origin
        if origin is None:
            self._note.unlink(missing_ok=True)
        else:
            write_text(self._note, json.dumps(asdict(origin), sort_keys=True) + "\n")


def _read_origin(note: Path) -> Origin | None:
    try:
        return Origin(**json.loads(note.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # missing or incomplete: the bytes are then of no use
        return None
