"""Kills at random moments: the same command goes on, to the bytes of an undisturbed run.

More kills: KILLS=100 SEED=1 pytest -m whole -n 0 tests/workflow/test_kills.py
"""

import os
import random
import shutil
import signal
import subprocess
from collections import Counter
from contextlib import suppress

import pytest
from processes import at_work, wait_until
from project_contents import FOLDERS, content, differing
from projects import RUNS

pytestmark = [pytest.mark.workflow, pytest.mark.whole, pytest.mark.resume]
KILLS = int(os.environ.get("KILLS", "4"))
SEED = int(os.environ.get("SEED", "13"))
WAYS = ("a step", "Ctrl-C", "Snakemake", "Snakemake and all below it")
# A checkpoint after each step, so that most kills of a training fall between two of them.
CONFIG = {"resources": {"checkpoint_seconds": 0}}
# A tape, a training on it, one that starts from there, their evaluations, and the report.
AGAIN = ("results/tiny/tapes", *(f"results/tiny/paper/*/{run}" for run in RUNS[2:]), "reports/tiny")


@pytest.fixture
def case(reproduced, tmp_path):
    """The project without its last results, and the content that it had."""
    project = reproduced.copy(tmp_path.resolve() / "vsepp")
    project.call("git", "reset", "--quiet", "HEAD~1")  # a manifest names the commit
    expected = content(project)
    forget(project)
    return project, expected


def forget(project):
    for pattern in AGAIN:
        for folder in project.folder.glob(pattern):
            shutil.rmtree(folder)


def require_whole(project, expected):
    """The results are equal, no unfinished work is left, and nothing is to be done."""
    wait_until(lambda: not at_work(project.folder), seconds=600)  # what outlived its Snakemake
    assert differing(content(project), expected) == []
    paths = (path for top in FOLDERS for path in (project.folder / top).rglob("*"))
    assert not [
        path
        for path in paths
        if (path.name.startswith(".") and path.name not in (".state", ".snakemake_timestamp"))
        or (path.parent.name == ".state" and path.is_dir() and path.name not in ("plans",))
    ]
    assert project.planned("reproduce_tables", **CONFIG) == {}


def steps_of(project, snakemake):
    """Processes of the steps that a call of Snakemake has started, without those that outlived an earlier call."""
    processes = []
    for pid, command in at_work(project.folder).items():
        with suppress(ProcessLookupError):
            if "make" in command and os.getsid(pid) == snakemake:
                processes.append(pid)
    return sorted(processes)


def killed(project, way, moments):
    """Start the command and kill it, or what it does, at a random moment; whether it has ended well all the same."""
    snakemake = project.start(*project.snakemake("reproduce_tables", **CONFIG), output=subprocess.DEVNULL)
    wait_until(lambda: snakemake.poll() is not None or steps_of(project, snakemake.pid), seconds=300)
    with suppress(subprocess.TimeoutExpired):
        snakemake.wait(timeout=moments.uniform(0, 8))
    if way == "a step":
        with suppress(ProcessLookupError):
            os.kill(moments.choice(steps_of(project, snakemake.pid) or [snakemake.pid]), signal.SIGKILL)
    elif snakemake.poll() is None:
        if way == "Snakemake":  # its steps go on
            snakemake.kill()
        else:
            os.killpg(snakemake.pid, signal.SIGINT if way == "Ctrl-C" else signal.SIGKILL)
    status = snakemake.wait()
    if status == -signal.SIGKILL:
        project.call("snakemake", "--unlock")
    return status == 0


def test_kills_at_random_moments_end_with_the_bytes_of_an_undisturbed_run(case, capsys):
    project, expected = case
    moments, count = random.Random(SEED), Counter()
    while count.total() < KILLS:
        way = WAYS[count.total() % len(WAYS)]
        if killed(project, way, moments):
            require_whole(project, expected)
            forget(project)
        else:
            count[way] += 1
    project.run("reproduce_tables", **CONFIG)
    require_whole(project, expected)
    project.call("vsepp", "verify", "--full")
    with capsys.disabled():
        print(f"\nkills (seed {SEED}), each followed by the same command: {dict(count)}")
