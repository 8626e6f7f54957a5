"""A model of one's own pictures in one command, as docs/using.md says."""

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image, ImageOps
from projects import copy_of_the_project

from vsepp.apps.query import open_index

pytestmark = pytest.mark.whole
COLOURS = {"red": (200, 30, 30), "green": (30, 160, 40), "blue": (30, 60, 200), "white": (240, 240, 240)}
PLACES = {"sand": (220, 200, 140), "grass": (90, 190, 90), "water": (60, 120, 180)}


def write_captions(file, captions):
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["image", "caption"])
        writer.writerows((name, text) for name, texts in captions.items() for text in texts)


def draw_squares(folder):
    """Squares of a few colours on a few grounds, two captions each."""
    rng = np.random.default_rng(0)
    (folder / "pictures").mkdir(parents=True)
    kinds = [(colour, place) for colour in COLOURS for place in PLACES]
    captions = {}
    for number in range(60):
        colour, place = kinds[number % len(kinds)]
        picture = Image.new("RGB", (120, 90), PLACES[place])
        left, top = rng.integers(0, 60, 2).tolist()
        picture.paste(COLOURS[colour], (left, top, left + 30, top + 30))
        picture.save(folder / f"pictures/{number}.png")
        captions[f"{number}.png"] = [
            f"A {colour} square on {place}.",
            f"On {place} there is a {colour} square.",
        ]
    write_captions(folder / "captions.csv", captions)


def tried(project, mine):
    """What the command says, and folders of the model and of its evaluation."""
    output = project.output("vsepp", "try", mine / "pictures", "--captions", mine / "captions.csv")
    model = Path(re.search(r"next +(?:uv run )?vsepp serve (\S+)", output)[1])
    page = Path(re.search(r"open +(\S+your-model\.html)", output)[1])
    assert (project.folder / page).is_file()
    return output, page, model, project.folder / str(model).replace("/runs/", "/evaluations/")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A project, drawn squares, and what a trial of them said and made."""
    folder = tmp_path_factory.mktemp("own")
    project, mine = copy_of_the_project(folder / "vsepp"), folder / "mine"
    draw_squares(mine)
    project.call("git", "init", "--quiet")
    project.commit()
    return project, mine, tried(project, mine)


def test_one_command_trains_and_the_second_call_has_nothing_to_do(first):
    project, mine, (output, page, model, _) = first
    assert "60 pictures, 120 captions: 40 pictures to train on, 10 to validate, 10 to test" in output
    text = (project.folder / page).read_text()
    assert "Your model on your pictures" in text
    (settings,) = re.findall(r"--configfile (\S+)", text)  # the page's command finds the pictures
    assert (project.folder / settings).is_file() and "Recalls, 10 test images" in text
    assert re.search(r"rsum +\d+\.\d +\[\d+\.\d, \d+\.\d\]", output)
    assert f"vsepp serve {model}" in text
    assert text.count('class="query"') == 12
    assert project.output("git", "status", "--porcelain") == ""
    again, *_ = tried(project, mine)
    assert "Nothing to be done" in again
    answers = project.vsepp(
        "query", model, "--text", "a red square on sand", "--pictures", mine / "pictures", "-k", "3"
    )
    assert len(re.findall(r"\d+\.png", answers)) >= 3


@contextmanager
def trying(project, mine, log):
    """A trial, once its features are made."""
    command = ["try", mine / "pictures", "--captions", mine / "captions.csv"]
    with (
        log.open("w") as stream,
        subprocess.Popen(
            [sys.executable, "-m", "vsepp.apps.cli", *map(str, command)],
            cwd=project.folder,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        ) as process,
    ):
        while "Features" not in log.read_text() and process.poll() is None:
            time.sleep(0.1)
        yield process


def test_an_interrupted_trial_leaves_no_lock_the_lock_of_a_killed_one_is_named_and_the_next_goes_on(
    first, tmp_path
):
    """Of pictures with the names and captions of the first trial's: each trial is whole for itself."""
    project, mine, (_, _, model, _) = first
    other, log = tmp_path / "other", tmp_path / "log"
    shutil.copytree(mine, other)
    for file in (other / "pictures").glob("*.png"):
        ImageOps.invert(Image.open(file)).save(file)
    with trying(project, other, log) as process:
        for asked in (signal.SIGHUP, signal.SIGINT):
            os.killpg(process.pid, asked)  # as a terminal sends it, to all of its group
            time.sleep(0.3)
        assert process.wait(60) != 0, log.read_text()
    assert not list((project.folder / ".snakemake" / "locks").glob("*"))
    with trying(project, other, log) as process:
        for each in [*psutil.Process(process.pid).children(recursive=True), process]:
            each.kill()
    with trying(project, other, log) as process:
        assert process.wait(60) == 1
    assert "snakemake --unlock" in log.read_text()
    project.call("snakemake", "--unlock")
    output, _, second, _ = tried(project, other)
    assert "unfinished" not in output and second != model
    for folder, pictures in ((model, mine), (second, other)):
        index = open_index(project.folder / folder)
        with Image.open(pictures / "pictures" / index.file_names[0]) as image:
            expected = np.asarray(image.convert("RGB").resize((256, 256), Image.Resampling.BILINEAR))
        assert np.array_equal(np.asarray(index.picture(0)), expected)
