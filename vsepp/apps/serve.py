"""A local page that answers sentences and pictures: `vsepp serve`.

Flask makes the page and waitress serves it. An upload is opened as a picture of a few formats, and is gone with the answer.
"""

from __future__ import annotations

import base64
import errno
import ipaddress
import logging
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

import waitress
from flask import Flask, Response, render_template, request
from jinja2 import StrictUndefined
from werkzeug.exceptions import (
    BadRequest,
    Forbidden,
    HTTPException,
    NotFound,
    RequestEntityTooLarge,
    SecurityError,
)

from vsepp.apps.query import LONGEST_TEXT, Index
from vsepp.base.errors import VseppError
from vsepp.base.machine import return_freed_memory
from vsepp.data.pictures import FORMATS, read_picture, resized
from vsepp.data.thumbnails import small_jpeg
from vsepp.report.folders import TEMPLATES

MEGABYTE = 1 << 20
LARGEST_UPLOAD = 20 * MEGABYTE
"""Most bytes of a picture that is sent."""
LARGEST_READ = 10 * LARGEST_UPLOAD
"""Bytes of a request above which the connection is closed."""
MOST_PIXELS = 50_000_000
"""Pixels of a picture that is sent; its header is compared before any of them is decoded."""
_SIDE, _LARGE, _QUALITY = 256, 1600, 92
"""Longest side of small and of large pictures on the page, in pixels, and their quality."""
EVERYWHERE = "0.0.0.0"
"""The address of a server that listens on all addresses of this machine."""
LONGEST_SILENCE = 10
"""Seconds after which a connection on which nothing comes or goes is closed."""
_REASONS = {
    errno.EADDRINUSE: "the port is in use; stop what uses it, or name another port",
    errno.EADDRNOTAVAIL: "no address of this machine",
    errno.EACCES: "not allowed; name a port from 1024",
}
_TOO_LARGE = f"The upload is too large. Give one picture of at most {LARGEST_UPLOAD // MEGABYTE} MB."

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # under "no-referrer" a browser gives the page's own form the origin "null"
    "X-Content-Type-Options": "nosniff",
}


class _Site:
    """Handlers of the page's addresses."""

    def __init__(self, indexes: Sequence[Index], answers: int) -> None:
        self.indexes, self.answers = indexes, answers
        # A model switches its own modes while it embeds.
        self.model_lock = Lock()
        # Decoded pictures are large: one at a time.
        self.upload_lock = Lock()

    def text(self) -> str:
        """The page, with the images nearest to a sentence where one is given."""
        text = request.args.get("text", "")
        if not text.strip():
            return self._page()
        with self.model_lock:
            answers = [index.images_for(text, self.answers) for index in self.indexes]
        unknown = [index.unknown_words(text) for index in self.indexes]
        return self._page(text=text, answers=answers, unknown=unknown)

    def picture(self) -> str:
        """The page with the captions nearest to an uploaded picture."""
        upload = request.files.get("image")
        if upload is None or not upload.filename:
            raise BadRequest("No picture was chosen.")
        with self.upload_lock:
            stores = [index.model.run.eval_store for index in self.indexes]
            shortest = 4 * max(store.side for store in stores)
            picture = read_picture(
                upload.read(), upload.filename, upright=True, largest=MOST_PIXELS, shortest=shortest
            ).rgb
            shrunk = [resized(picture, store, upload.filename) for store in stores]
            shown = small_jpeg(picture, _SIDE, _QUALITY)
            del picture
            return_freed_memory()
        with self.model_lock:
            answers = [
                index.captions_for(pixels, self.answers)
                for index, pixels in zip(self.indexes, shrunk, strict=True)
            ]
        address = f"data:image/jpeg;base64,{base64.b64encode(shown).decode()}"
        return self._page(asked=address, name=upload.filename, answers=answers)

    def like(self, number: int, row: int) -> str:
        """The page with an image of an index, large, and the images nearest to it."""
        self._require(number, row)
        image_id, name = self.indexes[number].image_ids[row], self.indexes[number].file_names[row]
        rows = [index.row_of(image_id) for index in self.indexes]
        answers = [
            [] if nearest_to is None else index.images_like(nearest_to, self.answers)
            for index, nearest_to in zip(self.indexes, rows, strict=True)
        ]
        captions = self.indexes[number].captions_at(row)
        large = f"/image/{number}/{row}?large" if self.indexes[number].pixels is not None else ""
        return self._page(large=large, name=name, own=captions, answers=answers)

    def image(self, number: int, row: int) -> Response:
        """An image of an index, small or, with `?large`, large."""
        self._require(number, row)
        side = _LARGE if "large" in request.args else _SIDE
        with self.upload_lock:
            picture = self.indexes[number].picture(row, shortest=side)
            if picture is None:
                raise NotFound
            jpeg = small_jpeg(picture, side, _QUALITY)
        return Response(jpeg, mimetype="image/jpeg", headers={"Cache-Control": "no-cache"})

    def _require(self, number: int, row: int) -> None:
        if number >= len(self.indexes) or row >= len(self.indexes[number].image_ids):
            raise NotFound

    def refused(self, error: VseppError | HTTPException) -> tuple[str | Response, int]:
        """The page with what was wrong with a request."""
        if isinstance(error, SecurityError):  # to a stranger, nothing of what is here
            message = "The page is not served under this address.\n"
            return Response(message, mimetype="text/plain"), 400
        text = request.args.get("text", "")[:LONGEST_TEXT]
        if isinstance(error, VseppError):
            return self._page(text=text, error=str(error)), 400
        reason = _TOO_LARGE if isinstance(error, RequestEntityTooLarge) else error.description
        return self._page(text=text, error=reason), error.code or 500

    def _page(self, **values: Any) -> str:
        empty: dict[str, Any] = {"text": "", "asked": None, "large": "", "name": "", "own": ()}
        empty |= {"answers": None, "unknown": None, "error": None}
        first = [index.first_images(self.answers) for index in self.indexes]
        limits = {"longest": LONGEST_TEXT, "largest": LARGEST_UPLOAD, "megabytes": LARGEST_UPLOAD // MEGABYTE}
        accepted = ",".join(f"image/{name.lower()}" for name in FORMATS)
        return render_template(
            "serve_page.html.j2",
            indexes=self.indexes,
            first=first,
            accepted=accepted,
            **limits,
            **{**empty, **values},
        )


def create_app(indexes: Sequence[Index], hosts: Sequence[str], answers: int = 12) -> Flask:
    """Make the page.

    Parameters
    ----------
    indexes
        What is asked, side by side.
    hosts
        Names that a browser may call this server by, besides addresses; any other is refused, so that no foreign site can have
        its own name point here and read the answers. An address is nobody's name.
    answers
        Images or captions shown of each.
    """
    site = _Site(indexes, answers)
    app = Flask("vsepp", template_folder=str(TEMPLATES), static_folder=None)
    app.config.update(
        MAX_CONTENT_LENGTH=LARGEST_UPLOAD + MEGABYTE,  # the picture, and what is around it in a form
        MAX_FORM_PARTS=4,
        PROPAGATE_EXCEPTIONS=False,
    )
    app.jinja_options = {
        "undefined": StrictUndefined,
        "trim_blocks": True,
        "lstrip_blocks": True,
        "autoescape": True,
    }
    app.add_url_rule("/", "text", site.text)
    app.add_url_rule("/", "picture", site.picture, methods=["POST"])
    app.add_url_rule("/image/<int:number>/<int:row>", "image", site.image)
    app.add_url_rule("/like/<int:number>/<int:row>", "like", site.like)
    for name, kind in (("page.css", "text/css"), ("page.js", "text/javascript")):
        app.add_url_rule(f"/{name}", name, lambda name=name, kind=kind: _file(name, kind))
    app.register_error_handler(VseppError, site.refused)
    app.register_error_handler(HTTPException, site.refused)

    @app.before_request
    def own_page_alone() -> None:
        host = request.host.lower()
        name = host.rpartition(":")[0] if re.search(r":\d*$", host) else host
        if name not in hosts and not _is_address(name):
            raise SecurityError
        if request.method == "POST":
            origin = request.headers.get("Origin")
            site = request.headers.get("Sec-Fetch-Site", "none")
            ours = (None, f"http://{host}", f"https://{host}")
            if (origin and origin.lower()) not in ours or site not in ("same-origin", "none"):
                raise Forbidden("Pictures are taken from this page alone.")

    @app.after_request
    def secured(response: Response) -> Response:
        response.headers.update(_HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return app


def _file(name: str, kind: str) -> Response:
    return Response(render_template(f"serve_{name}.j2"), mimetype=kind)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def trusted_hosts(host: str) -> list[str]:
    """Names that a browser may use, besides addresses, for a server that listens on `host`."""
    names = [socket.gethostname(), socket.getfqdn()] if host == EVERYWHERE else [host]
    return ["localhost", *map(str.lower, names)]


def _address_of(host: str) -> str:
    """A name or an address by which a browser reaches a server that listens on `host`."""
    if host != EVERYWHERE:
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # sends nothing: the system says from which address it would
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def require_address(host: str, port: int) -> None:
    """Refuse what is no address to listen on, before pictures are embedded."""
    if not re.fullmatch(r"[A-Za-z0-9.-]+", host):
        raise VseppError(f"{host!r}: expected a host name or an IPv4 address to listen on")
    if not 0 <= port < 1 << 16:
        raise VseppError(f"port {port}: expected a number from 0 to 65535")


def serve(indexes: Sequence[Index], host: str = "127.0.0.1", port: int = 8000, answers: int = 12) -> None:
    """Serve the page until the process is interrupted; print where it is.

    Parameters
    ----------
    indexes, answers
        As for `create_app`.
    host
        Name or IPv4 address to listen on. By default only this machine reaches it.
    port
        0 takes a free one.

    Raises
    ------
    VseppError
        If the address cannot be listened on.
    """
    require_address(host, port)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # waiting requests are no trouble
    try:
        server = waitress.create_server(
            create_app(indexes, trusted_hosts(host), answers),
            listen=f"{host}:{port}",
            ipv6=False,
            threads=4,
            # Connections that send nothing are many and cheap: they leave room for others until they are closed.
            connection_limit=500,
            channel_timeout=LONGEST_SILENCE,
            cleanup_interval=2,
            # What Flask refuses is read to its end first: a browser that still sends does not read an answer.
            max_request_body_size=LARGEST_READ,
            ident=None,
        )
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", errno.EADDRNOTAVAIL)  # waitress has none for a name of no machine
        raise VseppError(f"{host}:{port}: cannot listen there: {_REASONS.get(number, error)}") from error
    print(
        f"http://{_address_of(host)}:{server.effective_port}/ is open for questions. Ctrl-C stops it.",
        flush=True,
    )
    server.run()
