"""Digests of files that have not changed since they were last digested, so that large ones are read once."""

from __future__ import annotations

import json
from pathlib import Path

from vsepp.provenance.digests import file_digest, path_digest
from vsepp.provenance.manifest import artefact_digest
from vsepp.runtime.files import write_text

KNOWN = Path("results") / ".state" / "digests.json"
"""File of a working folder that keeps them."""


class KnownDigests:
    """Digests by path, valid as long as size, time of change and inode stay the same.

    Parameters
    ----------
    path
        JSON file that keeps them between calls; if it is damaged or missing, everything is digested again.
    """

    def __init__(self, path: Path = KNOWN) -> None:
        self._path = path
        self._known: dict[str, list] = {}
        self.read = 0
        """Bytes that had to be read."""
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            self._known = {
                name: entry for name, entry in known.items() if len(entry) == 4 and isinstance(entry[3], str)
            }
        except (OSError, ValueError, AttributeError, TypeError):
            pass

    def forget(self) -> None:
        """Digest everything anew."""
        self._known.clear()

    def file(self, path: Path) -> str:
        """SHA-256 of a file's bytes."""
        status = path.stat()
        state = [status.st_size, status.st_mtime_ns, status.st_ino]
        entry = self._known.get(str(path))
        if entry is None or entry[:3] != state:
            entry = [*state, file_digest(path)]
            self.read += status.st_size
            self._known[str(path)] = entry
        return entry[3]

    def path(self, path: Path) -> str:
        """Digest of a file or folder, as `path_digest` gives it."""
        return path_digest(path, self.file)

    def artefact(self, path: Path) -> str:
        """Digest of an input, as `artefact_digest` gives it."""
        return artefact_digest(path, self.path)

    def save(self) -> None:
        """Keep the digests of files that are still there."""
        there = {name: entry for name, entry in self._known.items() if Path(name).exists()}
        write_text(self._path, json.dumps(there, indent=0) + "\n")
