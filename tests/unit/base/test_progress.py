"""Lines of a log: how far work is, times in words, and how long a line may be."""

from pathlib import Path

import pytest
from processes import python

from vsepp.base.provenance import cpu_seconds
from vsepp.base.words import duration_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (89, "89 s"),
        (90, "2 min"),
        (12_000, "3 h 20 min"),
        (190_800, "2 d 5 h"),
    ],
)
def test_times_are_said_as_one_says_them(seconds, text):
    assert duration_text(seconds) == text


def test_a_line_of_a_log_has_a_bound_and_cannot_steer_the_terminal():
    log = (
        "import sys\nfrom vsepp.base import progress\n"
        "sys.stderr = sys.stdout\nprogress.configure_logging()\n"
        "progress.log.warning('a\\x1b[2J%sz', 'word ' * 50_000)"
    )
    (line,) = python(log).splitlines()
    assert "WARNING a\\x1b[2Jword word" in line and line.endswith("word z")
    assert len(line) < 6000


def test_seconds_of_processors_are_those_of_this_process_and_of_children_that_ended():
    before = cpu_seconds()
    python("while sum(__import__('os').times()[:2]) < 0.3: pass")
    assert cpu_seconds() - before >= 0.3 - 1e-9


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_what_the_starting_process_took_is_not_counted():
    """`getrusage` would say 300 MB of a program that a process of that size starts."""
    program = "from vsepp.base.provenance import peak_memory; print(peak_memory())"
    starting = f"import subprocess, sys; held = bytearray(300_000_000); sys.exit(subprocess.call([sys.executable, '-c', {program!r}]))"
    assert 1e6 < int(python(starting)) < 100e6
