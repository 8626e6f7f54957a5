"""A file that is being downloaded: ask a mirror for the bytes that are missing, and notice if it
sends something else."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from vsepp.base.files import check_space, write_text
from vsepp.base.progress import track_amount
from vsepp.base.spec import SourceSpec

log = logging.getLogger("vsepp")

_BLOCK = 1 << 18  # bytes; at most this many are lost when a connection breaks
TIMEOUTS = (15.0, 60.0)
"""Seconds to wait for a connection, and for the next byte."""
RETRIES = Retry(
    total=4,
    status_forcelist=(408, 429, 500, 502, 503, 504),
    backoff_factor=1.0,
    retry_after_max=120,
    raise_on_status=False,
)
"""Retries of a request that finds no connection or a busy server; each waits at most 2 minutes."""


class Partial:
    """The part of a file that is on disk, in a state folder that survives a kill.

    Attributes
    ----------
    source
        The file that is expected.
    file
        The bytes.
    """

    def __init__(self, source: SourceSpec, folder: Path) -> None:
        self.source = source
        self.file = folder / "content"
        self._note = folder / "origin.json"

    @property
    def length(self) -> int:
        """Bytes received so far."""
        return self.file.stat().st_size if self.file.exists() else 0

    @property
    def origin(self) -> tuple[str | None, str | None]:
        """The mirror that the bytes come from, and the ETag or date by which it identifies their
        file; `None` if unknown."""
        try:
            url, validator = json.loads(self._note.read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError):
            return None, None
        return url, validator

    def receive(self, url: str, *, sum_known: bool) -> str:
        """Complete the file from one mirror; after a broken connection go on, as long as
        each one brings new bytes.

        Parameters
        ----------
        url
            The mirror.
        sum_known
            Whether the finished file will be compared with a known checksum; then its part is continued
            though the mirror names none.

        Returns
        -------
        str
            Why the mirror does not give the file, or not all of it; empty where the file is complete.

        Raises
        ------
        VseppError
            If the disk has no room for it.
        """
        furthest = 0
        with requests.Session() as session:
            session.mount("http://", HTTPAdapter(max_retries=RETRIES))
            session.mount("https://", HTTPAdapter(max_retries=RETRIES))
            while self.length != self.source.size:
                try:
                    return self._ask(session, url, sum_known)
                except requests.RequestException as error:
                    reason = f"the connection failed after {self.length:,} bytes: {error}"
                    if self.length <= furthest:
                        return reason
                    furthest = self.length
                    log.warning("%s: %s: %s; going on", self.source.file, url, reason)
        return ""

    def _ask(self, session: requests.Session, url: str, sum_known: bool) -> str:
        """Ask for the file, for the missing part alone if what is there is certain to belong to the same
        file; as `receive`."""
        origin, validator = self.origin
        position = self.length if origin == url and (validator or sum_known) else 0
        headers = {
            # A compressed transfer would have another length, other ranges and another checksum.
            "Accept-Encoding": "identity",
            "Range": f"bytes={position}-" if position else None,
            "If-Range": validator if position else None,
        }
        log.info("%s: from %s, byte %d on", self.source.file, url, position)
        with session.get(url, headers=headers, stream=True, timeout=TIMEOUTS) as response:
            nothing_further = response.status_code == 416 and position
            if not nothing_further:
                return self._receive_body(response, url, position)
            if response.headers.get("Content-Range") == f"bytes */{position}":
                return ""
        # What is there belongs to another file: once more, from the first byte.
        self.file.unlink()
        return self._ask(session, url, sum_known)

    def _receive_body(self, response: requests.Response, url: str, position: int) -> str:
        """Append the body of a response, or write it in place of what is there; why not, if its head
        is of something else."""
        status, headers = response.status_code, response.headers
        part = headers.get("Content-Range", "")
        if status == 200:  # the server ignores ranges, or the file has changed
            position = 0
        elif status != 206 or not position or not part.startswith(f"bytes {position}-"):
            return f"status {status} {response.reason} {part}".rstrip()
        if headers.get("Content-Type", "").lower().startswith("text/html"):
            return "it answers with an HTML page, not with the file"
        length = headers.get("Content-Length", "")
        total = position + int(length) if length.isdecimal() else self.source.size
        if self.source.size not in (None, total):
            return f"its file has {total:,} bytes, expected {self.source.size:,}"
        if not position:
            self.file.write_bytes(b"")
            etag = headers.get("ETag", "W/")  # a weak one does not identify bytes
            validator = headers.get("Last-Modified") if etag.startswith("W/") else etag
            write_text(self._note, json.dumps([url, validator]))
        if total is not None:
            check_space(self.file.parent, total - position, f"the rest of {self.source.file}")
        with (
            self.file.open("ab") as stream,
            track_amount(total, self.source.file, "B", self.length) as advance,
        ):
            for block in response.iter_content(_BLOCK):
                stream.write(block)
                advance(len(block))
            stream.flush()
            os.fsync(stream.fileno())  # before a manifest vouches for it
        return ""
