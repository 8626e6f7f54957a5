"""Processes that work together: real ones."""

import os
import signal
import time

import pytest

from vsepp.runtime.workers import run_together
from vsepp.errors import VseppError


def one_of(number, path):
    """What the processes of these tests do, by their number."""
    if number == 3:
        raise VseppError("row 3: got nothing")
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 5:
        raise ValueError("not meant for a user")
    if number == 6:
        time.sleep(60)
        path.write_text("it went on")
    return number, os.getpid()


def test_answers_come_in_order_and_each_from_a_process_of_its_own(tmp_path):
    looks = []
    answers = run_together(
        one_of, [(number, tmp_path) for number in (2, 0, 1)], lambda: looks.append(1) and None
    )
    assert [number for number, _ in answers] == [2, 0, 1]
    assert len({os.getpid(), *(process for _, process in answers)}) == 4 and looks


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (3, "row 3: got nothing"),
        (4, "process 2 of 2 was killed by signal 9"),
        (5, "process 2 of 2 was ended with status 1; see its message above"),
    ],
)
def test_a_failure_is_told_and_ends_the_others(tmp_path, number, said):
    with pytest.raises(VseppError, match=said):
        run_together(one_of, [(6, tmp_path / "late"), (number, tmp_path)])
    assert not list(tmp_path.iterdir())
