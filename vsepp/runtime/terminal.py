"""What a terminal shows of a workflow while it runs: how far its jobs are, what they warn of, how long the rest takes.

The output of a job goes to its log file. Here the logs of the jobs at work are read, and the lines that matter are shown
through Snakemake's own logger: one writer, so that no line is torn. It works the same where jobs run on other machines,
as long as their logs are on a shared disk.
"""

from __future__ import annotations

import csv
import logging
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from vsepp.runtime.progress import PROGRESS, duration_text

SECONDS_BETWEEN_LOOKS = 3.0
SECONDS_BETWEEN_LINES = 10.0
"""Of one job, at least; the fiftieth part of its time where that is more."""
SECONDS_BETWEEN_ESTIMATES = 30.0
"""Of the time left, likewise."""
_WARNINGS_OF_A_JOB = 3
_NO_FOLDER = re.compile(r"Failed to create output directory .*\n\w+: \[Errno \d+\] (.+): '(.+)'")
_LINE = re.compile(rf"\d\d:\d\d:\d\d ({logging.getLevelName(PROGRESS)}|WARNING|ERROR) (.+)")


@dataclass(frozen=True)
class Expected:
    """A job that is to be done."""

    rule: str
    seconds: float | None
    """What it took the last time; `None` if it was never timed."""


@dataclass
class _Running:
    job: int
    name: str
    rule: str
    log: Path | None
    began: float
    began_at: float
    """By the clock of files, which tells an earlier job's log from this one's."""
    read: int = 0
    """Bytes of the log."""
    shown: float = 0.0
    latest: str = ""
    warnings: int = 0


class Terminal(logging.Handler):
    """Follows the jobs of one call of Snakemake by the events that its logger gets.

    Parameters
    ----------
    say
        Shows one line.
    expected
        Job id → what is to be done; without targets, which take no time.
    """

    def __init__(self, say: Callable[[str], None], expected: Mapping[int, Expected]) -> None:
        super().__init__()
        self.failed: dict[int, str] = {}
        """Job id → what it was to make, the last line of its log, and where that is."""
        self._say = say
        self._left = dict(expected)
        self._running: dict[int, _Running] = {}
        self._took: dict[str, list[float]] = defaultdict(list)
        self._began = self._told = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of an event; what goes wrong here is printed, and stops no workflow."""
        said = vars(record)
        try:
            match str(said.get("event")):
                case "job_info":
                    name = said["rule_msg"] or said["rule_name"]
                    self._begin(said["jobid"], name, said["rule_name"], said["log"])
                case "job_finished":
                    self._end(said["job_id"])
                case "job_error":
                    running = self._running.pop(said["jobid"], None)
                    name = running.name if running else said["rule_name"]
                    self.failed[said["jobid"]] = _failure(name, said["log"])
                    self._left.pop(said["jobid"], None)
        except Exception:
            self.handleError(record)

    def _begin(self, job: int, name: str, rule: str, logs: list[str]) -> None:
        now, log = time.monotonic(), Path(logs[0]) if logs else None
        name = name.removesuffix(f" (log: {log})")
        self._running[job] = _Running(job, name, rule, log, now, time.time(), shown=now)

    def _end(self, job: int) -> None:
        self.failed.pop(job, None)  # it was tried again
        if running := self._running.pop(job, None):
            self._took[running.rule].append(time.monotonic() - running.began)
            self._look(running, last=True)
        self._left.pop(job, None)

    def _watch(self) -> None:
        while True:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            self.acquire()
            try:
                for running in self._running.values():
                    self._look(running)
                self._tell_time_left()
            except Exception:
                logging.getLogger("vsepp").exception("what the jobs at work say is no longer shown")
                return
            finally:
                self.release()

    def _look(self, running: _Running, last: bool = False) -> None:
        """Show what a job has said since the last look."""
        for level, text in self._new_lines(running):
            if level == logging.getLevelName(PROGRESS):
                running.latest = text
                continue
            running.warnings += 1
            if running.warnings <= _WARNINGS_OF_A_JOB:
                self._say(f"{level}: {running.name}: {text}")
            elif running.warnings == _WARNINGS_OF_A_JOB + 1:
                self._say(f"{level}: {running.name}: more warnings, see the log")
        if running.latest and (last or _due(running.shown, running.began, SECONDS_BETWEEN_LINES)):
            self._say(f"Job {running.job}: {running.latest}")
            running.shown, running.latest = time.monotonic(), ""

    def _new_lines(self, running: _Running) -> list[tuple[str, str]]:
        """Level and text of the finished lines that were added to a job's log."""
        try:
            if running.log is None or running.log.stat().st_mtime < running.began_at - 0.1:
                return []
            with running.log.open("rb") as stream:
                stream.seek(running.read)
                added = stream.read()
        except OSError:  # not there yet
            return []
        whole = added[: added.rfind(b"\n") + 1]
        running.read += len(whole)
        found = map(_LINE.fullmatch, whole.decode(errors="replace").splitlines())
        return [(match[1], match[2]) for match in found if match]

    def _tell_time_left(self) -> None:
        now = time.monotonic()
        if not self._left or not _due(self._told, self._began, SECONDS_BETWEEN_ESTIMATES):
            return
        took = {rule: mean(seconds) for rule, seconds in self._took.items()}
        done = {job: now - running.began for job, running in self._running.items()}
        at_once = (sum(map(sum, self._took.values())) + sum(done.values())) / (now - self._began)
        if text := time_left(self._left, took, done, at_once):
            # What depends on a job that failed is not done.
            self._say(f"At most {text}" if self.failed else text.capitalize())
            self._told = now


def is_chatter(record: logging.LogRecord) -> bool:
    """Whether a record of Snakemake's is one of the two that come with every job and say nothing of it."""
    return str(getattr(record, "event", "")) == "job_started" or record.msg == "Select jobs to execute..."


def look_once(scheduler: Any, delay: float) -> None:
    """Let Snakemake's scheduler look for jobs again after some seconds, unless a look is waiting.

    Its own method leaves a timer for each job that has ended, which looks once a second to the end: after 130 jobs these took a
    third of a core.
    """

    def look() -> None:
        scheduler.is_looking = False
        scheduler._open_jobs.release()

    if not getattr(scheduler, "is_looking", False):
        scheduler.is_looking = True
        threading.Timer(delay, look).start()


def _due(last: float, began: float, least: float) -> bool:
    """Whether a line may be shown again."""
    now = time.monotonic()
    return now - last >= max(least, (now - began) / 50)


def time_left(
    left: Mapping[int, Expected], took: Mapping[str, float], done: Mapping[int, float], at_once: float
) -> str:
    """About how long the jobs that are left take, in words; nothing where too few of them were ever timed.

    Parameters
    ----------
    left
        Job id → what is to be done, the jobs at work included.
    took
        Rule → mean seconds of its jobs in this call.
    done
        Job id → seconds so far, of the jobs at work.
    at_once
        How many jobs were at work at a time, on average.
    """
    seconds, longest, unknown = 0.0, 0.0, []
    for job, expected in left.items():
        whole = took.get(expected.rule) if expected.seconds is None else expected.seconds
        if whole is None:
            unknown.append(expected.rule)
            continue
        rest = max(whole - done.get(job, 0.0), 0.0)
        seconds, longest = seconds + rest, max(longest, rest)
    if len(unknown) > len(left) / 3:
        return ""
    jobs = f"{len(left)} job{'s' if len(left) > 1 else ''}"
    rules = ", ".join(dict.fromkeys(unknown))
    without = f", not counting {rules}, never timed yet" if unknown else ""
    return f"about {duration_text(max(seconds / max(at_once, 1.0), longest))} left for {jobs}{without}"


def seconds_taken(benchmark: Path) -> float | None:
    """What a job took the last time by its benchmark file; else the mean of the files beside it, such as other seeds.

    Parameters
    ----------
    benchmark
        The job's file as Snakemake writes it: tab-separated, with a column `s`.
    """
    if benchmark.is_file():
        return _seconds(benchmark)
    beside = [seconds for path in benchmark.parent.glob("*.tsv") if (seconds := _seconds(path)) is not None]
    return mean(beside) if beside else None


def _seconds(benchmark: Path) -> float | None:
    with benchmark.open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream, delimiter="\t"):
            try:
                return float(row["s"])
            except (KeyError, TypeError, ValueError):  # cut off, or of a job that was too short
                return None
    return None


def _failure(name: str, logs: list[str]) -> str:
    lines = [name]
    for log in logs:
        with suppress(OSError):
            said = Path(log).read_text(encoding="utf-8", errors="replace").split("\n")
            lines += [f"    {line.strip()}" for line in said if line.strip()][-1:]
        lines.append(f"    log: {log}")
    return "\n".join(lines)


def reworded(text: str, alone: bool) -> str:
    """In a sentence what stops Snakemake before any job, where its own words do not say what it is or how to go on.

    Parameters
    ----------
    text
        What Snakemake says.
    alone
        Whether no other call of Snakemake is at work in the folder.
    """
    if text.startswith("LockException") and alone:
        return (
            "Nothing was done: a Snakemake that was killed left its lock here. Remove it with `snakemake --unlock`, then give "
            "the same command again; it goes on where it was"
        )
    if text.startswith("LockException"):
        return (
            "Nothing was done: another Snakemake is making the same files in this folder. Wait until it has ended, then give "
            "the same command again"
        )
    if found := _NO_FOLDER.search(text):
        return f"{found[2]}: this user may not write there, or the disk is full ({found[1]}). Mend it and give the same command again"
    return text


def failure_text(failed: Mapping[int, str], command: str) -> str:
    """What to say at the end of a workflow that failed: which jobs, where their logs are, and how to go on.

    Parameters
    ----------
    failed
        Of `Terminal`.
    command
        The command line that failed.
    """
    if not failed:
        return f"It was stopped. To go on, give the same command again:\n  {command}"
    jobs = "1 job failed" if len(failed) == 1 else f"{len(failed)} jobs failed"
    return "\n".join(
        [
            f"{jobs}; what does not depend on {'it' if len(failed) == 1 else 'them'} was done:",
            *(f"  {name}" for name in failed.values()),
            "Mend the cause and give the same command again; what is finished is kept, and a training goes on from its last "
            "checkpoint:",
            f"  {command}",
        ]
    )
