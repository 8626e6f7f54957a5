"""A model of one's own pictures in one command, as docs/using.md says: on drawn squares, and on real photographs."""

import csv
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import flickr8k
import numpy as np
import psutil
import pytest
from dag import copy_of_the_project
from PIL import Image, ImageOps

from vsepp.apps.query import open_index
from vsepp.evaluation.intervals import image_interval
from vsepp.evaluation.metrics import per_image
from vsepp.evaluation.ranks import kept_ranks

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


def copy_photographs(folder, count):
    """Photographs of Flickr8k, drawn with a fixed seed, and their captions."""
    archives = flickr8k.archives("Flicker8k_Dataset")
    captions = flickr8k.captions_in(archives)
    files = {
        path.name: path for path in (archives / "Flicker8k_Dataset").rglob("*.jpg") if path.name in captions
    }
    chosen = random.Random(0).sample(sorted(files), count)
    (folder / "pictures").mkdir(parents=True)
    for name in chosen:
        shutil.copy(files[name], folder / "pictures" / name)
    write_captions(folder / "captions.csv", {name: captions[name] for name in chosen})


def tried(project, mine):
    """What the command says, and folders of the model and of its evaluation."""
    output = project.said("vsepp", "try", mine / "pictures", "--captions", mine / "captions.csv")
    model = Path(re.search(r"next +(?:uv run )?vsepp serve (\S+)", output)[1])
    page = Path(re.search(r"open +(\S+your-model\.html)", output)[1])
    assert (project.folder / page).is_file()
    return output, page, model, project.folder / str(model).replace("/runs/", "/evaluations/")


def test_one_command_trains_and_the_second_call_has_nothing_to_do(tmp_path):
    project, mine = copy_of_the_project(tmp_path / "vsepp"), tmp_path / "mine"
    draw_squares(mine)
    project.call("git", "init", "--quiet")
    project.commit()
    output, page, model, _ = tried(project, mine)
    assert "60 pictures, 120 captions: 40 pictures to train on, 10 to validate, 10 to test" in output
    text = (project.folder / page).read_text()
    assert "Your model on your pictures" in text
    (settings,) = re.findall(r"--configfile (\S+)", text)  # the page's command finds the pictures
    assert (project.folder / settings).is_file() and "Recalls, 10 test images" in text
    assert re.search(r"rsum +\d+\.\d +\[\d+\.\d, \d+\.\d\]", output)
    assert f"vsepp serve {model}" in text
    assert text.count('class="query"') == 12
    assert project.said("git", "status", "--porcelain") == ""
    again, *_ = tried(project, mine)
    assert "Nothing to be done" in again
    answers = project.said(
        "vsepp", "query", model, "--text", "a red square on sand", "--pictures", mine / "pictures", "-k", "3"
    )
    assert len(re.findall(r"\d+\.png", answers)) >= 3
    # Another trial, of the same names and captions, is whole for itself: the first one shows its own pictures.
    other = tmp_path / "other"
    shutil.copytree(mine, other)
    for file in (other / "pictures").glob("*.png"):
        ImageOps.invert(Image.open(file)).save(file)
    output, _, second, _ = tried(project, other)
    assert "unfinished" not in output and second != model
    for folder, pictures in ((model, mine), (second, other)):
        index = open_index(project.folder / folder)
        with Image.open(pictures / "pictures" / index.file_names[0]) as image:
            expected = np.asarray(image.convert("RGB").resize((256, 256), Image.Resampling.BILINEAR))
        assert np.array_equal(np.asarray(index.picture(0)), expected)


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


def test_an_interrupted_trial_leaves_no_lock_the_lock_of_a_killed_one_is_named_and_the_next_goes_on(tmp_path):
    project, mine, log = copy_of_the_project(tmp_path / "vsepp"), tmp_path / "mine", tmp_path / "log"
    draw_squares(mine)
    for signals in ([signal.SIGINT], [signal.SIGHUP, signal.SIGINT]):
        with trying(project, mine, log) as process:
            for asked in signals:
                os.killpg(process.pid, asked)  # as a terminal sends it, to all of its group
                time.sleep(0.3)
            assert process.wait(60) != 0, log.read_text()
        assert not list((project.folder / ".snakemake" / "locks").glob("*"))
    with trying(project, mine, log) as process:
        for each in [*psutil.Process(process.pid).children(recursive=True), process]:
            each.kill()
    with trying(project, mine, log) as process:
        assert process.wait(60) == 1
    assert "snakemake --unlock" in log.read_text()
    project.call("snakemake", "--unlock")
    tried(project, mine)


def test_three_hundred_photographs_give_a_model_above_chance(tmp_path):
    project, mine = copy_of_the_project(tmp_path / "vsepp"), tmp_path / "mine"
    copy_photographs(mine, 300)
    *_, evaluation = tried(project, mine)
    arrays = np.load(evaluation / "ranks.npz")
    ranks = kept_ranks(arrays, "5K")
    images = len(ranks["i2t"].best)
    assert images == 30
    for metric in ("i2t_r1", "t2i_r1"):
        interval = image_interval(per_image(ranks, metric))
        assert interval.low > 3 * 100 / images, metric
