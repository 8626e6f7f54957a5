"""The part of a download that is on disk: its bytes, their running SHA-256 and where they came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path

from vsepp.runtime.files import blocks_of, write_text


@dataclass(frozen=True)
class Origin:
    """What a server said of the file that it is sending."""

    url: str
    etag: str | None
    last_modified: str | None
    total: int | None
    """Bytes of the whole file, where it said so."""

    @property
    def validator(self) -> str | None:
        """What `If-Range` takes to recognise the same content: a strong ETag, else the date."""
        if self.etag and not self.etag.startswith("W/"):
            return self.etag
        return self.last_modified


class Partial:
    """A download under way in a state folder, which a kill leaves as it is.

    Attributes
    ----------
    file
        The bytes.
    length
        How many there are.
    origin
        Where they came from; `None` while there are none.
    pieced
        Whether they came in more than one response, so that a wrong sum may be the fault of the seam.
    """

    def __init__(self, folder: Path, what: str, stopped: Callable[[], None] = lambda: None):
        """Take up what lies in `folder`, reading it once for its hash; `stopped` may raise in between."""
        self.file = folder / "content"
        self._note = folder / "origin.json"
        self.length = 0
        self.pieced = False
        self._sha = hashlib.sha256()
        self.origin = _read_origin(self._note)
        if self.origin and self.file.is_file() and self.file.stat().st_size:
            self.pieced = True
            for block in blocks_of(self.file, f"{what}: reading what is there"):
                stopped()
                self._sha.update(block)
                self.length += len(block)

    @property
    def sha256(self) -> str:
        """Of the bytes so far, in hexadecimal."""
        return self._sha.hexdigest()

    @property
    def whole(self) -> bool:
        """Whether as many bytes are there as the server announced."""
        return self.origin is not None and self.length == self.origin.total

    def start(self, origin: Origin | None) -> None:
        """Throw away all bytes; the next ones come from the first on, from `origin`."""
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
    except (OSError, ValueError, TypeError):  # none, or half of one: the bytes are of no use then
        return None
