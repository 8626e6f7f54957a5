"""Kills, full disks, folders that may not be written: the results equal a quiet run's.

The DAG is the preset `tiny` with few pictures: all kinds of steps, each in a second or two. How many kills is an environment
variable, so that a long soak is one line: SOAK_KILLS=100 pytest -m soak -n 0.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from contents import MADE, content, differing
from dag import RUNS, make_tiny_project
from plans import edit
from processes import at_work, wait_until

from vsepp.base.errors import PHASES

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]
KILLS = int(os.environ.get("SOAK_KILLS", "10"))
SEED = int(os.environ.get("SOAK_SEED", "13"))
_, _, RC, FT = RUNS
# A checkpoint after each step, so that most kills of a training fall between two of them.
SMALL = {
    "scenes": {"images": {"coco": {"train": 20, "restval": 10, "val": 10, "test": 20}}},
    "evaluation": {"fold_size": 4},
    "resources": {"checkpoint_seconds": 0},
    "tables": {"vsepp": ["table2", "figure1"]},
}


def forget(project):
    """Take away all that was made."""
    for folder in (*MADE, ".snakemake"):
        shutil.rmtree(project.folder / folder, ignore_errors=True)


def step_of(command):
    """The step that a process belongs to, whose shell it may be; `worker` of one of several."""
    words = " ".join(command).split()
    return next((after for word, after in pairwise(words) if word.endswith("vsepp")), "worker")


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """The project, what it makes undisturbed, and the seconds that it takes."""
    project = make_tiny_project(tmp_path_factory.mktemp("soak").resolve() / "vsepp")
    edit(project.folder / "params/presets/tiny.yaml", SMALL)
    project.edit("params/config.yaml", json.dumps(RUNS), json.dumps([RC, FT]))
    project.commit("Fewer pictures")
    began = time.monotonic()
    project.run("reproduce_tables")
    return project, content(project), time.monotonic() - began


def steps_of(project, snakemake):
    """Processes of the steps that a call of Snakemake has started, without the processes that outlived an earlier call."""
    found = {}
    for pid, command in at_work(project.folder).items():
        with suppress(ProcessLookupError):
            if pid != snakemake and os.getsid(pid) == snakemake:
                found[pid] = command
    return found


def kill_some(project, command, what, moments, longest):
    """Start the command and kill at random moments what it does; what was killed, and whether it has ended well all the same."""
    snakemake = project.start(*command, output=subprocess.DEVNULL)
    if what == "steps":
        return _kill_steps(project, snakemake, moments, longest)
    with suppress(subprocess.TimeoutExpired):
        assert snakemake.wait(timeout=moments.uniform(0, longest)) == 0, "it failed without a kill"
        return [], True
    if what == "Snakemake":  # its steps go on
        snakemake.kill()
    else:
        os.killpg(snakemake.pid, signal.SIGKILL)
    snakemake.wait()
    project.call("snakemake", "--unlock")
    return [what], False


def _kill_steps(project, snakemake, moments, longest):
    """Kill one step after another, or its shell, behind which it lives on, until nothing is left that does not depend on them."""
    killed = []
    while snakemake.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            snakemake.wait(timeout=moments.uniform(0, longest))
        if steps := steps_of(project, snakemake.pid):
            pid = moments.choice(sorted(steps))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(f"{Path(steps[pid][0]).name} of {step_of(steps[pid])}")
    return killed, snakemake.returncode == 0


def test_kills_at_random_moments_end_with_the_bytes_of_a_quiet_run(quiet, capsys):
    project, expected, seconds = quiet
    command = project.snakemake("reproduce_tables")
    moments, killed = random.Random(SEED), Counter()
    while killed.total() < KILLS:
        forget(project)
        whole = False
        while killed.total() < KILLS and not whole:
            what = moments.choice(("steps", "steps", "Snakemake", "Snakemake and all below it"))
            now, whole = kill_some(project, command, what, moments, seconds / 3)
            killed.update(now)
        project.run("reproduce_tables")
        wait_until(lambda: not at_work(project.folder), seconds=600)  # what outlived its Snakemake
        assert differing(content(project), expected) == [], f"after {killed}, seed {SEED}"
        assert leftovers(project) == []
        assert "Nothing to be done" in project.run("reproduce_tables", "--dry-run")
    project.run(*(f"all_{phase}" for phase in PHASES))  # what other runs of the paper share, too
    project.call("vsepp", "verify", "--full")
    with capsys.disabled():
        print(f"\n{killed.total()} kills (seed {SEED}), each followed by the same command: {dict(killed)}")


def leftovers(project):
    """Files of unfinished work."""
    found = (path for top in MADE for path in (project.folder / top).rglob("*"))
    return [
        str(path)
        for path in found
        if (path.name.startswith(".") and path.name not in (".state", ".snakemake_timestamp"))
        or (path.parent.name == ".state" and path.is_dir())
    ]


def test_a_disk_may_be_full_again_and_again_and_with_room_the_same_command_goes_on(quiet, capsys):
    project, expected, _ = quiet
    forget(project)
    disk = project.folder / "results"
    disk.mkdir()
    room, refusals = 100, 0
    mount = ["mount", "-t", "tmpfs", "-o", f"size={room}k", "none", disk]
    if os.geteuid() or subprocess.run(mount).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        while project.call(*project.snakemake("reproduce_tables"), check=False).returncode:
            refusals += 1
            room *= 2
            subprocess.run(["mount", "-o", f"remount,size={room}k", disk], check=True)
        assert differing(content(project), expected) == []
        assert leftovers(project) == []
    finally:
        subprocess.run(["umount", disk], check=True)
        forget(project)
    with capsys.disabled():
        print(f"\n{refusals} times a full disk, with room the bytes are equal")


WITHOUT_RIGHTS = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]
"""Root as any other user: bound to the rights that a folder gives."""


@pytest.mark.parametrize(
    ("missing", "closed"),
    [
        ("results/tiny/paper/evaluations", "results/tiny/paper"),
        ("reports/tiny", "reports"),
        (".snakemake", "."),
    ],
)
def test_a_folder_that_may_not_be_written_is_named_in_a_sentence(quiet, missing, closed):
    project, expected, _ = quiet
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("needs setpriv")
    rights = WITHOUT_RIGHTS if os.geteuid() == 0 else []
    project.run("reproduce_tables")
    shutil.rmtree(project.folder / missing)
    folder = project.folder / closed
    mode = folder.stat().st_mode
    folder.chmod(0o555)
    try:
        said = project.refusal(*rights, *project.snakemake("reproduce_tables"))
        sentence = rf"{missing}.*: Permission denied|Permission denied: '{missing}"
        assert re.search(sentence, said), said
    finally:
        folder.chmod(mode)
    project.run("reproduce_tables")
    assert differing(content(project), expected) == []
