"""What libraries and child processes need is there on any machine."""

import errno
import os
import sys
from pathlib import Path

import pytest

from vsepp.base.environment import environment
from vsepp.base.errors import VseppError
from vsepp.base.locks import file_lock


@pytest.mark.parametrize("home", [None, "", "/proc/none", "/proc"])
def test_a_home_that_cannot_be_written_to_is_replaced(monkeypatch, home):
    monkeypatch.delenv("HOME") if home is None else monkeypatch.setenv("HOME", home)
    # Root may write everywhere but to what is no folder of a disk.
    monkeypatch.setattr(os, "access", lambda path, mode: path != "/proc")
    variables = environment()
    assert Path(variables["HOME"]).is_dir() and Path(variables["XDG_CACHE_HOME"]).parent == Path(
        variables["HOME"]
    )


def test_the_programs_of_this_python_are_found_first(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert environment()["PATH"] == f"{Path(sys.executable).parent}:/usr/bin:/bin"


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK])
def test_a_file_system_without_locks_is_named_and_waited_for_by_nobody(tmp_path, monkeypatch, code):
    def flock(*_):
        raise OSError(code, os.strerror(code))

    with file_lock(tmp_path / "a.lock"):
        pass
    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(VseppError, match=rf"{tmp_path}: .*flock: {os.strerror(code)}"):
        file_lock(tmp_path / "a.lock")


@pytest.mark.parametrize(
    ("names", "known", "added"),
    [
        ({}, False, {"USER": "12345", "LOGNAME": "12345"}),
        ({"LOGNAME": "me"}, False, {}),
        ({}, True, {}),
    ],
)
def test_a_number_without_a_name_is_the_users_name(monkeypatch, names, known, added):
    for name in ("USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "getuid", (lambda: 0) if known else (lambda: 12345))
    variables = environment()
    assert {name: variables[name] for name in ("USER", "LOGNAME") if name in variables} == added
