"""A real HTTP server of files, with ranges, that misbehaves where it is told to."""

from __future__ import annotations

import hashlib
import mmap
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote

PIECE = 1 << 22


@dataclass
class Served:
    """A file and how it is served; all may be changed while the server runs."""

    content: bytes | memoryview
    statuses: list[int] = field(default_factory=list)
    """Answer the next requests with these, one each, before any file; see `always`."""
    always: int | None = None
    """Answer every request with this status."""
    headers: dict[str, str] = field(default_factory=dict)
    """Further headers of every answer, such as `Retry-After`; they win over the usual ones."""
    etag: bool = True
    last_modified: bool = False
    ignore_ranges: bool = False
    refuse_ranges: bool = False
    """Answer 416 to every range."""
    announce_length: bool = True
    """Without it the body is sent in chunks."""
    stall_after: int | None = None
    """Send so many bytes of every body, then nothing while the connection stays open."""
    cut_after: int | None = None
    """Close the connection after so many bytes of every body, its length announced in full."""
    cuts: int | None = None
    """Stall or cut only the next so many bodies."""
    bytes_per_second: float | None = None

    def identity(self) -> str | None:
        """Its ETag."""
        start = hashlib.sha256(self.content[: 1 << 20]).hexdigest()[:16]
        return f'"{start}"' if self.etag else None

    def modified(self) -> str | None:
        """When it was changed last."""
        return formatdate(1_400_000_000, usegmt=True) if self.last_modified else None


@dataclass
class Request:
    """What was asked, and what was given."""

    name: str
    range: str | None
    status: int = 0
    sent: int = 0
    """Bytes of the body."""
    headers: dict[str, str] = field(default_factory=dict)


def _served(file: bytes | Path | Served) -> Served:
    if isinstance(file, Path):
        with file.open("rb") as stream:
            return Served(memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)))
    return file if isinstance(file, Served) else Served(file)


class FileServer(ThreadingHTTPServer):
    """Serves `files` by name on a free port of this machine."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, files: Mapping[str, bytes | Path | Served]):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = {name: _served(file) for name, file in files.items()}
        self.requests: list[Request] = []
        self.stopping = threading.Event()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{quote(name)}"

    def handle_error(self, request, client_address) -> None:
        """Clients that go away in the middle are what is tested."""


@contextmanager
def serve(files: Mapping[str, bytes | Path | Served]) -> Iterator[FileServer]:
    """Serve files, by name, until the body ends."""
    server = FileServer(files)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FileServer

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        name = unquote(self.path.partition("?")[0].lstrip("/"))
        request = Request(name, self.headers.get("Range"), headers=dict(self.headers.items()))
        self.server.requests.append(request)
        file = self.server.files.get(name)
        status = 404 if file is None else file.statuses.pop(0) if file.statuses else file.always
        if status:
            self._head(request, status, {"Content-Length": "0"} | (file.headers if file else {}))
        else:
            self._give(request, file)

    def _give(self, request: Request, file: Served) -> None:
        size, start, status, part = len(file.content), 0, 200, {}
        match = re.fullmatch(r"bytes=(\d+)-", request.range or "")
        same = self.headers.get("If-Range") in (None, file.identity(), file.modified())
        if match and same and not file.ignore_ranges:
            start, status = int(match[1]), 206
            part = {"Content-Range": f"bytes {start}-{size - 1}/{size}"}
            if start >= size or file.refuse_ranges:
                self._head(request, 416, {"Content-Length": "0", "Content-Range": f"bytes */{size}"})
                return
        usual = {
            "Content-Type": "application/octet-stream",
            "ETag": file.identity(),
            "Last-Modified": file.modified(),
            "Content-Length": str(size - start) if file.announce_length else None,
            "Transfer-Encoding": None if file.announce_length else "chunked",
        }
        self._head(request, status, usual | part | file.headers)
        end = size
        limit = file.stall_after if file.cut_after is None else file.cut_after
        if limit is not None and file.cuts != 0:
            end = min(size, start + limit)
            file.cuts = None if file.cuts is None else file.cuts - 1
        self._body(request, file, start, end)
        if end < size:
            self.close_connection = True
            if file.cut_after is None:
                self.server.stopping.wait()
        elif not file.announce_length:
            self.wfile.write(b"0\r\n\r\n")

    def _head(self, request: Request, status: int, headers: Mapping[str, str | None]) -> None:
        request.status = status
        self.send_response(status)
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()

    def _body(self, request: Request, file: Served, start: int, end: int) -> None:
        piece = PIECE if file.bytes_per_second is None else max(int(file.bytes_per_second / 50), 1)
        while start < end and not self.server.stopping.is_set():
            block = file.content[start : min(start + piece, end)]
            if not file.announce_length:
                self.wfile.write(b"%x\r\n" % len(block))
            self.wfile.write(block)
            if not file.announce_length:
                self.wfile.write(b"\r\n")
            start += len(block)
            request.sent += len(block)
            if file.bytes_per_second is not None:
                self.server.stopping.wait(len(block) / file.bytes_per_second)
