"""Other processes, run and waited for, and a disk that has no room for what they write."""

import resource
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path


def python(code, *arguments, **options):
    """What a program says that Python runs in a process of its own, without the modules that tests have imported."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_until(true, process=None, seconds=60):
    """What a condition gives as soon as that is true; a process on which it waits must not end before."""
    limit = time.monotonic() + seconds
    while not (value := true()):
        assert process is None or process.poll() is None, f"the process ended with {process.returncode}"
        assert time.monotonic() < limit, f"not so after {seconds} s"
        time.sleep(0.005)
    return value


def at_work(folder):
    """Processes that work in a folder: id → command, as a list."""
    commands = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "cwd").readlink() == folder:
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().decode().split("\0")[:-1]
    return {pid: command for pid, command in commands.items() if command}  # a zombie has none


@contextmanager
def no_room(limit=0):
    """No file may grow beyond so many bytes: the system refuses a write just as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
