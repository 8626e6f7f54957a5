"""Digests of files, folders and values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from vsepp.base.files import write_text

KEPT_DIGESTS = Path("results") / ".state" / "digests.json"
"""File of a working folder that keeps digests of large files."""
_NOT_CONTENT = ("manifest.json", ".snakemake_timestamp")


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class FileCache:
    """Values computed from files: valid as long as size, times and inode of the file stay the same.

    Parameters
    ----------
    path
        JSON file that keeps them between calls; if it is damaged or missing, everything is computed again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, Any] = {}
        self._changed = False
        self.read = 0
        """Bytes of the files that values were computed from."""
        with suppress(OSError, ValueError, TypeError):
            self._entries = dict(json.loads(path.read_text(encoding="utf-8")))

    def get(self, file: Path, compute: Callable[[Path], Any]) -> Any:
        """The value of a file, a JSON value; `compute` gives it where it is not known."""
        status = file.stat()
        state = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        match self._entries.get(str(file)):
            case [known_state, known_value] if known_state == state:
                return known_value
        value = compute(file)
        self._entries[str(file)] = [state, value]
        self._changed = True
        self.read += status.st_size
        return value

    def save(self) -> None:
        """Keep the values of files that are still there, where this user may write."""
        if self._changed:
            present = {name: entry for name, entry in self._entries.items() if Path(name).exists()}
            with suppress(OSError):
                write_text(self._path, json.dumps(present, indent=0) + "\n")
        self._changed = False


def path_digest(path: Path, known: FileCache | None = None) -> str:
    """Digest of a file, or of the relative names and contents in a folder, without manifests and
    Snakemake's time stamps.

    Parameters
    ----------
    path
        File or folder.
    known
        Digests of files that need not be read again.
    """
    if path.is_file():
        return known.get(path, file_digest) if known else file_digest(path)
    entries = sorted(p for p in path.rglob("*") if p.is_file() and p.name not in _NOT_CONTENT)
    return value_digest([[p.relative_to(path).as_posix(), path_digest(p, known)] for p in entries])


def value_digest(value: Any) -> str:
    """Digest of a JSON value; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def short_digest(*values: Any) -> str:
    """Beginning of the digest of JSON values, for names."""
    return value_digest(values)[:8]
