"""One mirror: ask for the missing bytes, and notice if it sends something else."""

from __future__ import annotations

import re
from dataclasses import dataclass

import requests

from vsepp import __version__
from vsepp.provenance.space import check_space
from vsepp.runtime.progress import track_bytes
from vsepp.sources.partial import Origin, Partial
from vsepp.spec import SourceSpec

_BLOCK = 1 << 18  # bytes; at most this many are lost when a connection breaks
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_ZIP = b"PK\x03\x04"
_PAGE = "it answers with an HTML page, not with the file"


class Refused(Exception):
    """A mirror does not give the file, or not now (`again`), perhaps with a number of seconds to `wait`."""

    def __init__(self, reason: str, *, again: bool = False, wait: float = 0.0):
        super().__init__(reason)
        self.again = again
        self.wait = wait


@dataclass(frozen=True)
class Manner:
    """How patient a download is."""

    timeouts: tuple[float, float] = (15.0, 60.0)
    """Seconds to wait for a connection, and for the next byte."""
    attempts: int = 5
    """Failures in a row before a mirror is given up; a failure after new bytes counts as the first."""
    backoff: float = 1.0
    """Seconds to wait after the first of these, doubled after each further one."""


def transfer(
    session: requests.Session,
    url: str,
    source: SourceSpec,
    partial: Partial,
    *,
    sum_known: bool,
    manner: Manner,
) -> None:
    """Complete `partial` from `url`.

    Parameters
    ----------
    session
        Session that keeps connections.
    url
        The mirror.
    source
        What is expected.
    partial
        What is there already; resumed if it is certain to be a part of the same file.
    sum_known
        Whether the finished file will be compared with a known checksum; then one mirror may continue another's part.
    manner
        Timeouts, and the event that stops the download.

    Raises
    ------
    Refused
        If the mirror does not give the file, or not all of it.
    VseppError
        If the disk has no room for it.
    """
    headers = _headers(partial, url, sum_known)
    try:
        with session.get(url, headers=headers, stream=True, timeout=manner.timeouts) as response:
            _prepare(response, url, source, partial, resuming="Range" in headers)
            _receive(response, source, partial)
    except requests.RequestException as error:
        raise _refusal(error, partial, manner) from error


def _headers(partial: Partial, url: str, sum_known: bool) -> dict[str, str]:
    """Headers of a request: for the missing part, if it can be identified as part of the same file, otherwise for all of it."""
    # A compressed transfer would have another length, other ranges and another checksum.
    headers = {"User-Agent": f"vsepp/{__version__}", "Accept-Encoding": "identity"}
    origin = partial.origin
    if origin is None or not partial.length:
        return headers
    validator = origin.validator if origin.url == url else None
    if validator:
        headers["If-Range"] = validator
    if validator or (sum_known and origin.total is not None and partial.length < origin.total):
        headers["Range"] = f"bytes={partial.length}-"
    return headers


def _prepare(
    response: requests.Response, url: str, source: SourceSpec, partial: Partial, resuming: bool
) -> None:
    """Read the head of a response and set `partial` to where its body continues, or refuse it."""
    status = response.status_code
    if status == 416 and resuming:
        partial.start(None)
        raise Refused("status 416: it has no such range; starting over", again=True)
    if status not in (200, 206) or (status == 206 and not resuming):
        again = status >= 500 or status in (408, 429)
        wait = response.headers.get("Retry-After", "")
        seconds = float(wait) if wait.isdecimal() else 0.0
        raise Refused(f"status {status} {response.reason}", again=again, wait=seconds)
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == "text/html":
        raise Refused(_PAGE)
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise Refused(f"it compresses the file ({encoding}) although asked not to")
    origin = _origin(response, url, partial)
    if source.size is not None and origin.total not in (None, source.size):
        raise Refused(f"its file has {origin.total:,} bytes, expected {source.size:,}")
    if status == 206:
        partial.go_on(origin)
    else:
        partial.start(origin)  # all of it: the server ignores ranges, or the file has changed
    total = source.size if origin.total is None else origin.total
    if total is not None:
        check_space(partial.file.parent, total - partial.length, f"the rest of {source.file}")


def _origin(response: requests.Response, url: str, partial: Partial) -> Origin:
    """What a valid response says about the file; a part that does not fit the others is refused."""
    total: int | None
    if response.status_code == 200:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
    else:
        match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        total = int(match[2]) if match and match[2] != "*" else None
        before = partial.origin
        fits = match is not None and before is not None and int(match[1]) == partial.length
        if not fits or (before and before.total is not None and before.total != total):
            partial.start(None)
            raise Refused(
                "its file is not the one begun with (another size or range); starting over", again=True
            )
    return Origin(url, response.headers.get("ETag"), response.headers.get("Last-Modified"), total)


def _receive(response: requests.Response, source: SourceSpec, partial: Partial) -> None:
    total = partial.origin.total if partial.origin else None
    with (
        partial.file.open("ab", buffering=0) as stream,
        track_bytes(total, source.file, partial.length) as advance,
    ):
        for block in response.iter_content(_BLOCK):
            if not partial.length:
                _require_first_bytes(block, source)
            partial.append(stream, block)
            advance(len(block))
    if total is not None and partial.length != total:
        raise _ended_early(partial)


def _require_first_bytes(block: bytes, source: SourceSpec) -> None:
    start = block[:512].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        raise Refused(_PAGE)
    if source.file.lower().endswith(".zip") and not block.startswith(_ZIP):
        raise Refused(f"what it sends is not a zip file: it begins with {block[:8]!r}")


def _refusal(error: requests.RequestException, partial: Partial, manner: Manner) -> Refused:
    """An error of the HTTP library in words, and whether another attempt could help."""
    if isinstance(error, requests.exceptions.SSLError):
        return Refused(f"its certificate is not accepted ({error})")
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return Refused(f"no connection within {manner.timeouts[0]:g} s", again=True)
    # A stall within the body is a connection error; only its text tells.
    if isinstance(error, requests.exceptions.ReadTimeout) or "Read timed out" in str(error):
        return Refused(f"stalled: no byte for {manner.timeouts[1]:g} s", again=True)
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return _ended_early(partial)
    again = isinstance(error, requests.exceptions.ConnectionError)
    return Refused(f"the connection failed ({error})", again=again)


def _ended_early(partial: Partial) -> Refused:
    total = partial.origin.total if partial.origin else None
    of = f" of {total:,}" if total is not None else ""
    return Refused(f"the connection ended after {partial.length:,}{of} bytes", again=True)
