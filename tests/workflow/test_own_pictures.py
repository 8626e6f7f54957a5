"""A model of one's own pictures in one command, which is interrupted and killed on its way."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image
from projects import copy_of_the_project

from vsepp.apps.query import open_index

pytestmark = pytest.mark.whole
COLOURS = {"red": (200, 30, 30), "green": (30, 160, 40), "blue": (30, 60, 200), "white": (240, 240, 240)}
GROUNDS = {"sand": (220, 200, 140), "grass": (90, 190, 90), "water": (60, 120, 180)}


def draw_squares(folder):
    """Squares of a few colours on a few grounds, two captions each."""
    rng = np.random.default_rng(0)
    (folder / "pictures").mkdir(parents=True)
    kinds = [(colour, ground) for colour in COLOURS for ground in GROUNDS]
    rows = []
    for number in range(60):
        colour, ground = kinds[number % len(kinds)]
        picture = Image.new("RGB", (120, 90), GROUNDS[ground])
        left, top = rng.integers(0, 60, 2).tolist()
        picture.paste(COLOURS[colour], (left, top, left + 30, top + 30))
        picture.save(folder / f"pictures/{number}.png")
        captions = f"A {colour} square on {ground}.", f"On {ground} there is a {colour} square."
        rows += [(f"{number}.png", caption) for caption in captions]
    with (folder / "captions.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("image", "caption"), *rows])


@contextmanager
def trying(project, command, log):
    """A trial, once its features are made."""
    with (
        log.open("w") as stream,
        subprocess.Popen(
            [sys.executable, "-m", "vsepp.apps.cli", *command],
            cwd=project.folder,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        ) as process,
    ):
        while "Features" not in log.read_text() and process.poll() is None:
            time.sleep(0.1)
        yield process


def interrupt(project, command, log):
    """Send the signals of a closed terminal and of Ctrl-C to a trial, and later to another one none that it could catch."""
    with trying(project, command, log) as process:
        for number in (signal.SIGHUP, signal.SIGINT):
            os.killpg(process.pid, number)  # as a terminal sends it, to all of its group
            time.sleep(0.3)
        assert process.wait(60) != 0, log.read_text()
    assert not list((project.folder / ".snakemake" / "locks").glob("*"))
    with trying(project, command, log) as process:
        for victim in [*psutil.Process(process.pid).children(recursive=True), process]:
            victim.kill()
    with trying(project, command, log) as process:
        assert process.wait(60) == 1
    assert "snakemake --unlock" in log.read_text()
    project.call("snakemake", "--unlock")


def test_one_command_trains_after_a_kill_too_and_the_second_call_has_nothing_to_do(tmp_path):
    project, mine = copy_of_the_project(tmp_path / "vsepp"), tmp_path / "mine"
    draw_squares(mine)
    project.call("git", "init", "--quiet")
    project.commit()
    command = ["try", str(mine / "pictures"), "--captions", str(mine / "captions.csv")]
    interrupt(project, command, tmp_path / "log")

    output = project.output("vsepp", *command)
    assert re.findall(r"\d+", output.splitlines()[0]) == ["60", "120", "40", "10", "10"]
    model = Path(re.search(r"next +(?:uv run )?vsepp serve (\S+)", output)[1])
    text = (project.folder / re.search(r"open +(\S+your-model\.html)", output)[1]).read_text()
    (settings,) = re.findall(r"--configfile (\S+)", text)  # the page's command finds the pictures
    assert (project.folder / settings).is_file() and "Recalls, 10 test images" in text
    assert re.search(r"rsum +\d+\.\d +\[\d+\.\d, \d+\.\d\]", output)
    assert f"vsepp serve {model}" in text
    assert text.count('class="query"') == 12
    assert project.output("git", "status", "--porcelain") == ""
    assert "Nothing to be done" in project.output("vsepp", *command)

    question = ["--text", "a red square on sand", "--pictures", mine / "pictures", "-k", "3"]
    assert len(re.findall(r"\d+\.png", project.vsepp("query", model, *question))) >= 3
    index = open_index(project.folder / model)
    with Image.open(mine / "pictures" / index.file_names[0]) as image:
        expected = np.asarray(image.convert("RGB").resize((256, 256), Image.Resampling.BILINEAR))
    assert np.array_equal(np.asarray(index.picture(0)), expected)
