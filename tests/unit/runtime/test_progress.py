"""Progress of bytes: lines in a log, a bar at a terminal."""

import logging
import os
import pty
import subprocess
import sys
import termios

import pytest

from vsepp.runtime import progress
from vsepp.runtime.progress import track_bytes


def test_lines_tell_bytes_rate_and_the_time_left(caplog, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOG_LINES", 0.0)
    with (
        caplog.at_level(logging.INFO, "vsepp"),
        track_bytes(4_000_000_000, "a.zip", 1_000_000_000) as advance,
    ):
        advance(2_000_000_000)
    first, last = caplog.messages
    assert first.startswith("a.zip: 3.00 GB of 4.00 GB, ")
    assert first.endswith(" min left")
    assert last.startswith("a.zip: 3.00 GB in 0.0 s, ")


def test_an_unknown_total_and_nothing_at_all(caplog, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOG_LINES", 0.0)
    with caplog.at_level(logging.INFO, "vsepp"):
        with track_bytes(None, "a") as advance:
            advance(1500)
        with track_bytes(0, "b") as advance:
            advance(0)
    assert caplog.messages[0].startswith("a: 1.50 kB, ")
    assert caplog.messages[2] == "b: 0 B, 0 B/s"


def test_no_line_says_it_is_done_after_a_failure(caplog):
    with caplog.at_level(logging.INFO, "vsepp"), pytest.raises(ValueError), track_bytes(9, "a") as advance:
        advance(1)
        raise ValueError
    assert not caplog.messages


def test_a_terminal_gets_a_bar():
    program = "from vsepp.runtime.progress import track_bytes\nwith track_bytes(4_000_000, 'a.zip', 1_000_000) as a: a(3_000_000)"
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 110))
    subprocess.run([sys.executable, "-c", program], stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "a.zip: 100%" in shown
    assert "4.00M/4.00M" in shown
