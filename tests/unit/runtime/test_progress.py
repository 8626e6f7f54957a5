"""Progress of bytes: lines in a log, a bar at a terminal."""

import logging

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
    assert first.endswith("/s, about 0 s left")
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
