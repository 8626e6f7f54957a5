"""What the terminal shows of jobs, from their logs and the events of Snakemake's logger."""

import logging
import os
import threading
import time

import pytest
from processes import wait_until
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake_interface_logger_plugins.common import LogEvent

from vsepp.runtime import progress, terminal
from vsepp.runtime.terminal import (
    Expected,
    Terminal,
    failure_text,
    is_chatter,
    look_once,
    reworded,
    seconds_taken,
    time_left,
)


def test_snakemakes_scheduler_looks_for_jobs_once_however_often_it_is_told_to():
    class Scheduler(JobScheduler):
        def __init__(self):
            self._open_jobs = threading.Semaphore(0)

    assert callable(Scheduler._schedule_reevalutation)  # which `look_once` takes the place of
    scheduler = Scheduler()
    for _ in range(5):
        look_once(scheduler, 0.05)
    assert scheduler._open_jobs.acquire(timeout=60)
    assert not scheduler._open_jobs.acquire(timeout=0.5)
    look_once(scheduler, 0.05)
    assert scheduler._open_jobs.acquire(timeout=60)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LOOKS", 0.05)
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LINES", 0.0)


@pytest.fixture
def rarely(monkeypatch):
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LOOKS", 0.05)
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LINES", 1000.0)


class Workflow:
    """A logger that is told of jobs as Snakemake's is, and the lines that were shown."""

    def __init__(self, folder, **expected):
        self.folder, self.shown = folder, []
        self.logger = logging.Logger("snakemake")
        numbered = {number: job for number, job in enumerate(expected.values(), start=1)}
        self.terminal = Terminal(self.shown.append, numbered)
        self.logger.addHandler(self.terminal)

    def log(self, job):
        return self.folder / f"{job}.log"

    def tell(self, event, **extra):
        self.logger.info(None, extra={"event": event, **extra})

    def begin(self, job, rule="train"):
        log = str(self.log(job))
        message = f"Train model {job} (log: {log})"
        self.tell(LogEvent.JOB_INFO, jobid=job, rule_msg=message, rule_name=rule, log=[log])

    def end(self, job):
        self.tell(LogEvent.JOB_FINISHED, job_id=job)

    def fail(self, job):
        self.tell(LogEvent.JOB_ERROR, jobid=job, rule_name="train", log=[str(self.log(job))])

    def write(self, job, *lines):
        with self.log(job).open("a") as stream:
            stream.writelines(f"{line}\n" for line in lines)

    def wait_for(self, *lines):
        deadline = time.monotonic() + 10
        while self.shown != list(lines) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self.shown == list(lines)


def test_the_newest_line_of_a_job_is_shown_while_it_runs(tmp_path, at_once):
    workflow = Workflow(tmp_path)
    workflow.begin(1)
    workflow.write(
        1, "12:00:01 INFO not for the terminal", "12:00:02 PROGRESS epoch 1/3", "12:00:03 PROGRESS epoch 2/3"
    )
    workflow.wait_for("Job 1: epoch 2/3")
    workflow.write(1, "12:00:04 PROGRESS epoch 3/3", "anything else", "12:00:05 PROGRE")
    workflow.wait_for("Job 1: epoch 2/3", "Job 1: epoch 3/3")


def test_a_short_job_shows_its_last_line_when_it_ends(tmp_path, rarely):
    workflow = Workflow(tmp_path)
    for job in (1, 2):
        workflow.begin(job)
        workflow.write(job, "12:00:01 PROGRESS epoch 1/2", "12:00:02 PROGRESS epoch 2/2")
    time.sleep(0.3)
    assert workflow.shown == []
    workflow.end(2)
    workflow.end(1)
    assert workflow.shown == ["Job 2: epoch 2/2", "Job 1: epoch 2/2"]


def test_the_log_of_an_earlier_call_is_not_news(tmp_path, at_once):
    workflow = Workflow(tmp_path)
    workflow.write(1, "12:00:01 PROGRESS epoch 9/9")
    os.utime(workflow.log(1), (time.time() - 60, time.time() - 60))
    workflow.begin(1)
    time.sleep(0.3)
    workflow.end(1)
    assert workflow.shown == []


def test_warnings_name_the_job_and_are_counted_off(tmp_path, rarely):
    workflow = Workflow(tmp_path)
    workflow.begin(1)
    workflow.write(1, *(f"12:00:0{number} WARNING number {number}" for number in range(6)))
    named = "WARNING: Train model 1: "
    workflow.wait_for(
        *(f"{named}number {number}" for number in range(3)), f"{named}more warnings, see the log"
    )


def test_the_lines_that_steps_log_are_those_that_are_shown(tmp_path, at_once):
    """The format of `configure_logging`, in a process of its own as a step is."""
    workflow = Workflow(tmp_path)
    workflow.begin(1)
    step = (
        "from vsepp.runtime import progress; progress.SECONDS_BETWEEN_LOG_LINES = 0\n"
        "progress.configure_logging()\n"
        "for _ in progress.track(range(2), 2, 'decoding', 'chunk of 9 image'): pass\n"
        "progress.log.warning('upscaled')"
    )
    assert os.system(f'python -c "{step}" > {workflow.log(1)} 2>&1') == 0
    workflow.end(1)
    # Whoever looks on meanwhile may have shown the first line already.
    told, warned = sorted(workflow.shown)
    assert warned == "WARNING: Train model 1: upscaled"
    assert told.startswith("Job 1: decoding: 1 of 2 chunks of 9 images, ")
    assert told.endswith("/s, done in about 0 s")


def test_a_job_that_failed_is_told_with_its_last_words_and_one_that_was_tried_again_is_not(tmp_path, rarely):
    workflow = Workflow(tmp_path)
    for job in (1, 2, 3):
        workflow.begin(job)
        if job > 1:  # the first did not come so far as to have a log
            workflow.write(job, "12:00:01 INFO began", "vsepp: error: the loss is nan", "")
        workflow.fail(job)
    workflow.begin(2)
    workflow.end(2)
    text = failure_text(workflow.terminal.failed, "snakemake --cores 2")
    assert text.splitlines()[:6] == [
        "2 jobs failed; what does not depend on them was done:",
        "  Train model 1",
        f"    log: {workflow.log(1)}",
        "  Train model 3",
        "    vsepp: error: the loss is nan",
        f"    log: {workflow.log(3)}",
    ]
    assert text.endswith("\n  snakemake --cores 2")
    assert "To go on, give the same command again:\n  snakemake -c 1" in failure_text({}, "snakemake -c 1")


def test_an_event_of_another_form_stops_nothing(tmp_path, capsys):
    workflow = Workflow(tmp_path)
    workflow.tell(LogEvent.JOB_FINISHED)
    assert "KeyError: 'job_id'" in capsys.readouterr().err


def test_the_time_left_is_told_while_jobs_run(tmp_path, at_once, monkeypatch):
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_ESTIMATES", 0.0)
    workflow = Workflow(tmp_path, a=Expected("train", 3600.0))
    wait_until(lambda: workflow.shown)
    assert workflow.shown[0] == "About 60 min left for 1 job"


# --- How long the rest takes -----------------------------------------------------------------------------------


def jobs(*expected):
    return dict(enumerate(expected))


def test_the_rest_is_what_jobs_took_before_or_their_rule_takes_now_over_those_at_once():
    left = jobs(*[Expected("train", 600.0)] * 2, *[Expected("evaluate", None)] * 10)
    assert time_left(left, {"evaluate": 60.0, "train": 5.0}, {}, 2.0) == "about 15 min left for 12 jobs"
    # Two are at work, one of them longer than it took before.
    assert time_left(left, {"evaluate": 60.0}, {0: 300.0, 1: 900.0}, 1.0) == "about 15 min left for 12 jobs"


def test_the_rest_takes_no_less_than_its_longest_job():
    left = jobs(Expected("train", 7200.0), *[Expected("train", 60.0)] * 3)
    assert time_left(left, {}, {}, 4.0) == "about 2 h 0 min left for 4 jobs"


def test_what_was_never_timed_is_named_and_too_much_of_it_makes_no_estimate():
    left = jobs(*[Expected("train", 30.0)] * 3, Expected("report", None))
    assert time_left(left, {}, {}, 1.0) == "about 2 min left for 4 jobs, not counting report, never timed yet"
    assert time_left(jobs(Expected("corpus", 1.0), *[Expected("train", None)] * 9), {}, {}, 1.0) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (5340, "89 min"),
        (12_000, "3 h 20 min"),
        (190_800, "2 d 5 h"),
    ],
)
def test_times_are_said_as_one_says_them(seconds, text):
    assert progress.duration_text(seconds) == text


def test_benchmarks_tell_what_a_job_took_or_those_beside_it(tmp_path):
    own = tmp_path / "seed-0.tsv"
    assert seconds_taken(own) is None
    (tmp_path / "seed-1.tsv").write_text("s\th:m:s\n10.0\t0:00:10\n")
    (tmp_path / "seed-2.tsv").write_text("s\th:m:s\n20.0\t0:00:20\n")
    (tmp_path / "seed-3.tsv").write_text("")
    assert seconds_taken(own) == 15.0
    own.write_text("s\th:m:s\n5.5\t0:00:05\n")
    assert seconds_taken(own) == 5.5
    own.write_text("s\th:m:s\nNA\tNA\n")
    assert seconds_taken(own) is None


def test_the_lines_that_say_nothing_of_a_job_are_known():
    def record(message, **extra):
        return logging.makeLogRecord({"msg": message, **extra})

    assert is_chatter(record("Execute 1 jobs...", event=LogEvent.JOB_STARTED))
    assert is_chatter(record("Select jobs to execute..."))
    assert not is_chatter(record(None, event=LogEvent.PROGRESS))
    assert not is_chatter(record("About 5 min left"))


@pytest.mark.parametrize(
    ("text", "alone", "said"),
    [
        ("LockException:\nError: Directory cannot", True, "a Snakemake that was killed left its lock"),
        ("LockException:\nError: Directory cannot", False, "another Snakemake is making the same files"),
        (
            "WorkflowError:\nFailed to create output directory a/b.\nPermissionError: [Errno 13] Permission denied: 'a'",
            True,
            "a: this user may not write there, or the disk is full (Permission denied).",
        ),
        ("Error in rule train", True, "Error in rule train"),
    ],
)
def test_what_stops_snakemake_is_said_in_a_sentence(text, alone, said):
    assert said in reworded(text, alone)
