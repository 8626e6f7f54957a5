"""A stand-in for Amazon's S3 on a free port of this machine: moto's server, with one empty bucket."""

import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.request import ProxyHandler, Request, build_opener

from ssh_server import free_port, wait_for_port


@dataclass(frozen=True)
class S3Server:
    """Where the server is and how to get in."""

    url: str
    bucket: str
    key: str = "a-key"
    secret: str = "a-secret"


@contextmanager
def serve_s3(folder, bucket="results"):
    """Serve a bucket from memory until the body ends; `folder` takes the server's log."""
    folder.mkdir(parents=True)
    port, log = free_port(), folder / "moto.log"
    with log.open("w") as errors:
        command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
        server = subprocess.Popen(command, stdout=errors, stderr=errors, env=dict(os.environ), cwd=folder)
        try:
            wait_for_port(port, server, log)
            url = f"http://127.0.0.1:{port}"
            with build_opener(ProxyHandler({})).open(Request(f"{url}/{bucket}", method="PUT")) as answer:
                assert answer.status == 200
            yield S3Server(url, bucket)
        finally:
            server.terminate()
            server.wait()
