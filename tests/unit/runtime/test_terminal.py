"""What the terminal shows of jobs, from their logs and the events of Snakemake's logger."""

import logging
import os
import time

import pytest
from processes import wait_until
from snakemake_interface_logger_plugins.common import LogEvent

from vsepp.runtime import terminal
from vsepp.runtime.terminal import JobLogs, failure_text


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LOOKS", 0.05)


@pytest.fixture
def never(monkeypatch):
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LOOKS", 1000.0)


class Workflow:
    """A logger that is told of jobs as Snakemake's is, and the lines that were shown."""

    def __init__(self, folder):
        self.folder, self.shown = folder, []
        self.logger = logging.Logger("snakemake")
        self.job_logs = JobLogs(self.shown.append)
        self.logger.addHandler(self.job_logs)

    def log(self, job):
        return self.folder / f"{job}.log"

    def tell(self, event, **extra):
        self.logger.info(None, extra={"event": event, **extra})

    def begin(self, job):
        log = str(self.log(job))
        message = f"Train model {job}: slowly (log: {log})"
        self.tell(LogEvent.JOB_INFO, jobid=job, rule_msg=message, rule_name="train", log=[log])

    def end(self, job):
        self.tell(LogEvent.JOB_FINISHED, job_id=job)

    def fail(self, job, said=None):
        log = [str(self.log(job))]
        self.tell(LogEvent.JOB_ERROR, jobid=job, rule_name="train", rule_msg=said, log=log)

    def write(self, job, *lines):
        with self.log(job).open("a") as stream:
            stream.writelines(f"{line}\n" for line in lines)

    def wait_for(self, *lines):
        wait_until(lambda: len(self.shown) >= len(lines))
        assert self.shown == list(lines)


def test_the_newest_line_of_a_job_is_shown_while_it_runs(tmp_path, at_once):
    workflow = Workflow(tmp_path)
    lines = ("INFO not for the terminal", "PROGRESS epoch 1/3", "PROGRESS epoch 2/3")
    workflow.write(1, *(f"12:00:01 {line}" for line in lines))
    workflow.begin(1)
    workflow.wait_for("Train model 1: epoch 2/3")
    workflow.write(1, "12:00:04 PROGRESS epoch 3/3", "anything else", "12:00:05 PROGRE")
    workflow.wait_for("Train model 1: epoch 2/3", "Train model 1: epoch 3/3")


def test_a_short_job_shows_its_last_line_when_it_ends(tmp_path, never):
    workflow = Workflow(tmp_path)
    for job in (1, 2):
        workflow.begin(job)
        workflow.write(job, "12:00:01 PROGRESS epoch 1/2", "12:00:02 PROGRESS epoch 2/2")
    workflow.end(2)
    workflow.end(1)
    assert workflow.shown == ["Train model 2: epoch 2/2", "Train model 1: epoch 2/2"]


def test_the_log_of_an_earlier_call_is_not_news(tmp_path, never):
    workflow = Workflow(tmp_path)
    workflow.write(1, "12:00:01 PROGRESS epoch 9/9")
    os.utime(workflow.log(1), (time.time() - 60, time.time() - 60))
    workflow.begin(1)
    workflow.end(1)
    assert workflow.shown == []


def test_warnings_name_the_job_and_are_counted_off(tmp_path, never):
    workflow = Workflow(tmp_path)
    workflow.begin(1)
    workflow.write(1, *(f"12:00:0{number} WARNING number {number}" for number in range(6)))
    workflow.end(1)
    named = "WARNING: Train model 1: "
    first = [f"{named}number {number}" for number in range(3)]
    assert workflow.shown == [*first, f"{named}more warnings, see {workflow.log(1)}"]


def test_a_job_that_failed_is_told_with_its_last_words_and_one_that_was_tried_again_is_not(tmp_path, never):
    workflow = Workflow(tmp_path)
    for job in (1, 2, 3):
        workflow.begin(job)
        if job > 1:  # the first did not come so far as to have a log
            workflow.write(job, "12:00:01 INFO began", "vsepp: error: the loss is nan", "")
        workflow.fail(job)
    workflow.begin(2)
    workflow.end(2)
    assert failure_text(workflow.job_logs.failed).splitlines()[:6] == [
        "2 jobs failed; what does not depend on them was done:",
        "  Train model 1: slowly",
        f"    log: {workflow.log(1)}",
        "  Train model 3: slowly",
        "    vsepp: error: the loss is nan",
        f"    log: {workflow.log(3)}",
    ]
    assert failure_text({}) == "It was stopped. To go on, give the same command again"


def test_of_a_job_that_a_cluster_refuses_its_words_are_told_and_not_the_last_ones_of_an_earlier_job(
    tmp_path, never
):
    workflow = Workflow(tmp_path)
    workflow.write(1, "rsum 330.8")
    hour_ago = time.time() - 3600
    os.utime(workflow.log(1), (hour_ago, hour_ago))
    workflow.begin(1)
    workflow.fail(1, "sbatch failed: no partition nowhere\n    sbatch call: a long one")
    assert failure_text(workflow.job_logs.failed).splitlines()[1:4] == [
        "  Train model 1: slowly",
        "    sbatch failed: no partition nowhere",
        f"    log: {workflow.log(1)}",
    ]


def test_an_event_of_another_form_stops_nothing(tmp_path, never, capsys):
    Workflow(tmp_path).tell(LogEvent.JOB_FINISHED)
    assert "KeyError: 'job_id'" in capsys.readouterr().err
