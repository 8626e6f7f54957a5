"""Processes that share work: real ones."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from processes import wait_until

from vsepp.base.errors import VseppError
from vsepp.base.progress import in_processes


def work(number, path=None):
    """What the processes of these tests do, by a number."""
    if number == 3:
        raise VseppError("row 3: got nothing")
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 5:
        raise ValueError("not meant for a user")
    if number == 7:
        raise OSError(28, "No space left on device")
    if number == 8:
        time.sleep(0.05)
        tempfile.mkdtemp(dir=path)
    if number == 6:
        (path / f"{os.getpid()}").touch()
        time.sleep(60)
    return number, os.getpid()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_call_is_answered_by_as_many_processes_as_were_asked_for(workers):
    answers = dict(in_processes(work, [(n,) for n in (2, 0, 1)], workers))
    assert {number: answer[0] for number, answer in answers.items()} == {0: 2, 1: 0, 2: 1}
    used = {process for _, process in answers.values()}
    assert (os.getpid() in used) == (workers == 1) and len(used) <= workers


@pytest.mark.parametrize(
    ("number", "error", "text"),
    [
        (3, VseppError, "row 3: got nothing"),
        (4, VseppError, "killed"),
        (5, ValueError, "not meant for a user"),
        (7, OSError, "No space left"),
    ],
)
def test_a_failure_is_told_and_no_further_call_begins(tmp_path, number, error, text):
    with pytest.raises(error, match=text):
        list(in_processes(work, [(number,), *[(8, tmp_path)] * 99], 2))
    assert len(list(tmp_path.iterdir())) < 99


def gone(pid):
    """Whether a process has ended, were it not waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_processes_end_with_the_one_that_is_killed(tmp_path):
    program = (
        f"import test_workers as t; list(t.in_processes(t.work, [(6, t.Path({str(tmp_path)!r}))] * 2, 2))"
    )
    script = tmp_path / "step.py"
    script.write_text(f"if __name__ == '__main__':\n    {program}\n")
    path = os.pathsep.join([str(Path(__file__).parent), os.environ["PYTHONPATH"]])
    step = subprocess.Popen(
        [sys.executable, script], env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE
    )
    wait_until(lambda: len(list(tmp_path.glob("[0-9]*"))) == 2, step)
    begun = [int(file.name) for file in tmp_path.glob("[0-9]*")]
    step.kill()
    assert b"Traceback" not in step.communicate()[1]
    wait_until(lambda: all(map(gone, begun)))
