"""Jobs take GPUs from locks: real processes, and numbers of GPUs that need not be there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import wait_until

from vsepp.base import devices
from vsepp.base.errors import VseppError

# Takes a GPU, says which it sees, and keeps it until its standard input ends.
JOB = """
import os, sys
from vsepp.base import devices
from vsepp.base.progress import configure_logging
configure_logging()
devices.SECONDS_BETWEEN_TRIES = 0.02
what, gpus, share = sys.argv[1:]
with devices.claim(what, gpus.split(","), int(share)) as gpu:
    assert os.environ["CUDA_VISIBLE_DEVICES"] == gpu
    print(gpu, flush=True)
    sys.stdin.read()
assert "torch" not in sys.modules
"""


class Job:
    """A process that wants a GPU."""

    def __init__(self, folder, what, gpus, share=1):
        self.log = folder / f"{what}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", JOB, what, gpus, str(share)],
                env=os.environ | {"TMPDIR": str(folder)},
                cwd=Path(__file__).parents[3],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def gpu(self):
        """The GPU it got, once it has one."""
        return self.process.stdout.readline().strip()

    def waits(self):
        """Wait until it says that it waits, and for whom."""
        wait_until(lambda: " waits for " in self.log.read_text(), self.process)
        return self.log.read_text()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def jobs(tmp_path):
    started = []

    def start(what, gpus, **options):
        started.append(Job(tmp_path, what, gpus, **options))
        return started[-1]

    yield start
    for job in started:
        job.kill()
        job.process.stdout.close()


def test_jobs_get_different_gpus_and_a_third_waits_until_one_is_killed(jobs):
    first, second = jobs("first", "3,5"), jobs("second", "3,5")
    gpus = {first.gpu(): first, second.gpu(): second}
    assert gpus.keys() == {"3", "5"}
    third = jobs("third", "3,5")
    message = third.waits()
    assert f"third (process {third.process.pid}) waits for" in message
    for gpu, job in gpus.items():
        assert f"GPU {gpu} with process {job.process.pid}" in message
    killed = next(gpu for gpu, job in gpus.items() if job is second)
    second.kill()
    assert third.gpu() == killed
    fourth = jobs("fourth", "3,5")
    assert f"GPU {killed} with process {third.process.pid}" in fourth.waits()
    first.end()
    assert fourth.gpu() == ({"3", "5"} - {killed}).pop()


def test_jobs_that_share_go_to_the_emptiest_gpu_and_no_more_than_fit(jobs):
    gpus = [jobs(f"head-{number}", "0,1", share=2).gpu() for number in range(4)]
    assert sorted(gpus) == ["0", "0", "1", "1"] and set(gpus[:2]) == {"0", "1"}
    assert jobs("fifth", "0,1", share=2).waits()


def test_a_job_that_wants_a_gpu_for_itself_does_not_meet_one_that_shares(jobs):
    sharing = jobs("sharing", "0", share=4)
    assert sharing.gpu() == "0"
    whole = jobs("whole", "0")
    assert f"GPU 0 with process {sharing.process.pid}" in whole.waits()
    half = jobs("half", "0", share=2)
    assert half.gpu() == "0"
    half.end()
    sharing.end()
    assert whole.gpu() == "0"
    assert f"GPU 0 with process {whole.process.pid}" in jobs("late", "0", share=4).waits()


def test_a_claim_is_given_back_and_visibility_is_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv(devices.VISIBLE, raising=False)
    for before in (None, "1,0"):
        if before:
            monkeypatch.setenv(devices.VISIBLE, before)
        with devices.claim("test", ["1"]) as gpu:
            assert gpu == os.environ[devices.VISIBLE] == "1"
        assert os.environ.get(devices.VISIBLE) == before


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (None, ("0", "1", "2", "3", "4", "5")),
        ("3,5", ("3", "5")),
        (" 5 , 3 ", ("5", "3")),
        ("NoDevFiles", ()),
        ("-1", ()),
        ("2,9,3", ("2",)),
    ],
)
def test_only_gpus_that_are_visible_are_taken(monkeypatch, variable, expected):
    monkeypatch.delenv(devices.VISIBLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(devices.VISIBLE, variable)
    for number, gpus in ((6, expected), (0, ())):
        monkeypatch.setattr(devices, "installed", lambda number=number: number)
        assert devices.visible_gpus() == gpus


def test_a_number_counts_the_gpus_that_are_visible():
    assert devices.allowed_gpus(("3", "5"), 1) == ("5",)
    assert devices.allowed_gpus(("3", "5"), None) == ("3", "5")
    with pytest.raises(VseppError, match=r"cuda:2.* 2 GPUs"):
        devices.allowed_gpus(("3", "5"), 2)
