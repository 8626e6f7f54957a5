"""What a terminal shows of the jobs at work: how far they are, what they warn of, and which of them failed.

The output of a job goes to its log. Here the logs of the jobs at work are read, and the lines that matter are shown
through Snakemake's own logger. So one process writes to the terminal, and jobs of a cluster are shown as well, as long as
their logs are on a shared disk.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vsepp.runtime.progress import PROGRESS

SECONDS_BETWEEN_LOOKS = 10.0
_WARNINGS_OF_A_JOB = 3
_CLOCK_SECONDS = 0.1
"""Seconds by which a file may look older than it is."""
_LINE = re.compile(rf"\d\d:\d\d:\d\d ({logging.getLevelName(PROGRESS)}|WARNING|ERROR) (.+)")


def as_started() -> str:
    """Prefix of a printed command, `uv run ` or nothing, so that it can be pasted where the present command was given."""
    return "uv run " if "UV" in os.environ else ""


@dataclass
class _Job:
    message: str
    log: Path
    began: float
    """Start, in seconds as times of files are: it tells the log of an earlier call from the log of this call."""
    bytes_read: int = 0
    warnings: int = 0

    @property
    def subject(self) -> str:
        """`Store coco-squash46` of `Store coco-squash46: decode every image once`."""
        return self.message.partition(": ")[0]


class JobLogs(logging.Handler):
    """Handler for Snakemake's logger, whose events name the jobs that begin and end.

    Parameters
    ----------
    show
        Shows one line.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self.failed: dict[int, str] = {}
        """Job id → its message, the last line of its log, and the path of the log."""
        self._show = show
        self._at_work: dict[int, _Job] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of an event; errors here are printed, and stop no workflow."""
        event = vars(record)
        try:
            match str(event.get("event")):
                case "job_info" if event["log"]:
                    message, log = event["rule_msg"] or event["rule_name"], event["log"][0]
                    message = message.removesuffix(f" (log: {log})")
                    self._at_work[event["jobid"]] = _Job(message, Path(log), time.time())
                case "job_finished":
                    self.failed.pop(event["job_id"], None)  # it was tried again
                    if job := self._at_work.pop(event["job_id"], None):
                        self._show_news(job)
                case "job_error":
                    job = self._at_work.pop(event["jobid"], None)
                    message = job.message if job else event["rule_name"]
                    said, began = event.get("rule_msg") or "", job.began if job else 0.0
                    self.failed[event["jobid"]] = _failure(message, said, event["log"], began)
        except Exception:
            self.handleError(record)

    def _watch(self) -> None:
        while True:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            with self.lock:  # type: ignore[union-attr]  # every handler has one
                for job in self._at_work.values():
                    self._show_news(job)

    def _show_news(self, job: _Job) -> None:
        """Show the first warnings of a job, and the newest line that says how far it is."""
        progress = ""
        for level, text in _new_lines(job):
            if level == logging.getLevelName(PROGRESS):
                progress = text
                continue
            job.warnings += 1
            if job.warnings <= _WARNINGS_OF_A_JOB:
                self._show(f"{level}: {job.subject}: {text}")
            elif job.warnings == _WARNINGS_OF_A_JOB + 1:
                self._show(f"{level}: {job.subject}: more warnings, see {job.log}")
        if progress:
            self._show(f"{job.subject}: {progress}")


def _new_lines(job: _Job) -> list[tuple[str, str]]:
    """Level and text of the finished lines that were added to a job's log since the last look."""
    try:
        if job.log.stat().st_mtime < job.began - _CLOCK_SECONDS:
            return []
        with job.log.open("rb") as stream:
            stream.seek(job.bytes_read)
            added = stream.read()
    except OSError:  # not there yet
        return []
    whole = added[: added.rfind(b"\n") + 1]
    job.bytes_read += len(whole)
    matches = map(_LINE.fullmatch, whole.decode(errors="replace").splitlines())
    return [(match[1], match[2]) for match in matches if match]


def _failure(message: str, said: str, logs: Sequence[str], began: float) -> str:
    """A job's message, the first line of a cluster's message, and each log's path, with its last line if it is of this call."""
    lines = [message, *(f"    {line}" for line in said.splitlines()[:1])]
    for log in logs:
        with suppress(OSError):
            if Path(log).stat().st_mtime >= began - _CLOCK_SECONDS:
                text = Path(log).read_text(encoding="utf-8", errors="replace")
                lines += [f"    {line.strip()}" for line in text.split("\n") if line.strip()][-1:]
        lines.append(f"    log: {log}")
    return "\n".join(lines)


def failure_text(failed: Mapping[int, str]) -> str:
    """What to say at the end of a workflow that failed: which jobs, where their logs are, and how to go on.

    Parameters
    ----------
    failed
        `failed` of `JobLogs`.
    """
    if not failed:
        return "It was stopped. To go on, give the same command again"
    jobs, them = ("1 job", "it") if len(failed) == 1 else (f"{len(failed)} jobs", "them")
    return "\n".join(
        [
            f"{jobs} failed; what does not depend on {them} was done:",
            *(f"  {failure}" for failure in failed.values()),
            "Mend the cause and give the same command again; what is finished is kept, and a training goes on from its last "
            "checkpoint",
        ]
    )
