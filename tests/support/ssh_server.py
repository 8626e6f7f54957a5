"""A real OpenSSH server on a free port of this machine, with keys of its own."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SSHD = shutil.which("sshd")  # where it is installed, but not on the path: PATH=$PATH:/usr/sbin

_SETTINGS = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True)
class SshServer:
    """Where the server is and how to log in."""

    port: int
    user: str
    key: Path


@contextmanager
def serve_ssh(folder):
    """Serve this machine's files to the present user, with keys in `folder`, until the body ends."""
    folder.mkdir(parents=True)
    for name in ("host_key", "user_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    if os.geteuid() == 0:  # where sshd run by root puts its children; a service would make it
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    port = free_port()
    (folder / "sshd_config").write_text(_SETTINGS.format(port=port, folder=folder))
    log = folder / "sshd.log"
    with log.open("w") as errors:
        command = [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")]
        server = subprocess.Popen(command, stdout=errors, stderr=errors)
        try:
            wait_for_port(port, server, log)
            yield SshServer(port, getpass.getuser(), folder / "user_key")
        finally:
            server.terminate()
            server.wait()


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
