"""A model of one's own pictures in one command."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from vsepp.apps.cli.common import a_path, add_step
from vsepp.base.errors import VseppError, as_started

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a command to end: of Ctrl-C, a batch system and a closed terminal."""


def add_steps(steps: Any) -> None:
    """Add `try`."""
    what = "train and test a small model on your own pictures"
    parser = add_step(steps, "try", try_pictures, what, "vsepp try photographs --captions captions.csv")
    parser.add_argument("folder", type=a_path, metavar="FOLDER", help="folder of pictures, also below it")
    parser.add_argument(
        "--captions",
        type=a_path,
        metavar="FILE",
        help="table of images and captions (CSV, JSON, JSON lines), one row per caption: a line `image,caption`, then lines such as "
        "`beach.jpg,A dog on wet sand`; without it each picture needs a text file of its name beside it, with one caption per line",
    )
    parser.add_argument(
        "--columns",
        default="",
        metavar="image=NAME,caption=NAME",
        help="columns of the table, where their names are not the usual ones",
    )
    parser.add_argument("--cores", default="all", metavar="N", help="cores to use; all by default")


def try_pictures(options: argparse.Namespace) -> None:
    """Check, train, test, and say where the page is."""
    if not Path("Snakefile").is_file():
        raise VseppError("there is no Snakefile here: run this in the folder of a clone of the project")
    from vsepp.apps.own_pictures import prepare
    from vsepp.pipeline.planner import make_plan

    trial = prepare(options.folder, options.captions, options.columns)
    counts = trial.pictures
    print(
        f"{sum(counts.values()):,} pictures, {trial.captions:,} captions: {counts['train']:,} pictures to train on, "
        f"{counts['val']:,} to validate, {counts['test']:,} to test",
        flush=True,
    )
    plan = make_plan(Path("params"), trial.settings)
    (report,) = plan.of_kind("report").values()
    command = [sys.executable, "-m", "snakemake", "--cores", options.cores, "--configfile", str(trial.file)]
    command += ["--", *map(str, report.targets)]
    started = time.time()
    if _run(command):
        again = f"the same command goes on with the rest: {trial.inputs.name}"
        if _is_locked():
            raise VseppError(
                f"another call works in this folder, or was killed; where none does, {as_started()}snakemake --unlock, then {again}"
            )
        raise VseppError(f"the workflow stopped, see above; {again}")
    headline = report.folder / "headline.txt"
    if headline.stat().st_mtime < started:  # all of it was there, so the workflow had nothing to say
        print(f"\n{headline.read_text(encoding='utf-8')}", end="")


def _is_locked() -> bool:
    """Whether Snakemake's lock is there, which it takes away when it ends by itself."""
    locks = Path(".snakemake") / "locks"
    return locks.is_dir() and any(locks.iterdir())


def _run(command: list[str]) -> int:
    """Run Snakemake, and pass Ctrl-C on once: it ends its jobs and unlocks the folder. A second one kills it.

    It has a process group of its own, so that nothing but this process sends signals to it.
    """
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait()
            except KeyboardInterrupt:
                # A third one waits until the folder is unlocked.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                unlock = [*command[: command.index("--")], "--unlock"]
                subprocess.run(unlock, check=False, stdin=subprocess.DEVNULL, capture_output=True)
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise
