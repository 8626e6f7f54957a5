"""A proxy in front of a server, that refuses, delays or drops requests on purpose."""

import http.client
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

DROPPED = "dropped"
"""In place of a status: the connection is closed in the middle of the request's body, without an answer."""


class FailingProxy(ThreadingHTTPServer):
    """Forwards requests to a server, except the requests for which `fault` says otherwise."""

    daemon_threads = True

    def __init__(self, server_url):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = urlsplit(server_url).netloc
        self.seen = []
        """Method and path of each request."""
        self.fault = self.delay = None
        self.heal()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def heal(self):
        """Forward everything from now on."""
        self.fault = lambda method, path: None
        self.delay = lambda method, path: 0

    def handle_error(self, request, client_address):
        """A client that went away is no error of the proxy."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):
        pass

    def _forward(self):
        proxy, method, path = self.server, self.command, self.path
        proxy.seen.append((method, path))
        length = int(self.headers.get("Content-Length", 0))
        fault = proxy.fault(method, path)
        if fault == DROPPED:
            self.rfile.read(length // 2)
            self.connection.close()
            self.close_connection = True
            return
        body = self.rfile.read(length)
        time.sleep(proxy.delay(method, path))
        if fault is not None:
            status, code, message = fault
            xml = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
            self._answer(status, [("Content-Type", "application/xml")], b"" if method == "HEAD" else xml, xml)
            return
        server = http.client.HTTPConnection(proxy.behind)
        server.request(method, path, body, dict(self.headers))
        answer = server.getresponse()
        content = answer.read()
        kept = [
            (k, v) for k, v in answer.getheaders() if k.lower() not in ("transfer-encoding", "connection")
        ]
        self._answer(answer.status, kept, content, content)
        server.close()

    def _answer(self, status, headers, content, whole):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward


@contextmanager
def failing_proxy(server_url):
    """Such a proxy until the body ends."""
    with FailingProxy(server_url) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
