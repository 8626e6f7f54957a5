"""Ports of this machine, for servers that tests start."""

import socket
import time


def free_port():
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port, server, log, seconds=60):
    """Wait until a server that was started takes connections."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert server.poll() is None, f"the server ended with {server.returncode}\n{log.read_text()}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nothing answers at port {port} after {seconds} s\n{log.read_text()}")
