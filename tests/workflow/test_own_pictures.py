"""The page about one's own images, done as it says: its files are written, its commands and its code are run."""

import csv
import json

import numpy as np
import pytest
from dag import copy_of_the_project
from pages import DOCS, blocks, one
from PIL import Image

pytestmark = pytest.mark.whole
COLOURS = {"red": (200, 30, 30), "green": (30, 160, 40), "blue": (30, 60, 200), "white": (240, 240, 240)}
PLACES = {"sand": (220, 200, 140), "grass": (90, 190, 90), "water": (60, 120, 180)}


def write_pictures(folder, head):
    """Squares of a few colours on a few grounds, and their captions below the page's first lines."""
    rng = np.random.default_rng(0)
    (folder / "pictures").mkdir(parents=True)
    rows = list(csv.reader(head.splitlines()))
    named = [("beach.jpg", "white", "sand")]
    kinds = [(colour, place) for colour in COLOURS for place in PLACES]
    named += [(f"{number}.png", *kinds[number % len(kinds)]) for number in range(59)]
    for name, colour, place in named:
        picture = Image.new("RGB", (120, 90), PLACES[place])
        left, top = rng.integers(0, 60, 2).tolist()
        picture.paste(COLOURS[colour], (left, top, left + 30, top + 30))
        picture.save(folder / "pictures" / name)
        rows += [[name, f"A {colour} square on {place}."], [name, f"On {place} there is a {colour} square."]]
    with (folder / "captions.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return [name for name, *_ in named]


def test_the_page_on_own_pictures_works_as_written(tmp_path):
    project, mine = copy_of_the_project(tmp_path / "vsepp"), tmp_path / "mine"
    texts = blocks((DOCS / "own-pictures.md").read_text().replace("/data/mine", str(mine)))
    names = write_pictures(mine, one(texts, f"{mine}/pictures/").partition("\n\n")[2])

    added = one(texts, "sources:")
    for section, lines in zip(("sources", "datasets"), added.split("\n\n"), strict=True):
        head, _, entries = lines.partition("\n")
        assert head == f"{section}:"
        project.edit("params/datasets.yaml", f"\n{head}\n", f"\n{head}\n{entries}\n")
    preset = one(texts, "title: My pictures\ndata_note")
    # A few pictures, and few epochs on them; the rest is as on the page.
    for written, tiny in (("fold_size: 20", "fold_size: 4"), ("epochs: 40", "epochs: 3")):
        assert written in preset
        preset = preset.replace(written, tiny)
    (project.folder / "params/presets/mine.yaml").write_text(preset)

    command = one(texts, "uv run snakemake").split()
    assert command[:2] == ["uv", "run"]
    project.call(*command[2:])
    evaluated = project.folder / "results/mine/paper/evaluations/flickr-vse0-1c/seed-0/metrics.json"
    for found in json.loads(evaluated.read_text()).values():
        assert found["fold_size"] == 4
    assert "My pictures" in (project.folder / "reports/mine/index.html").read_text()

    found = project.said("python", "-c", one(texts, "from pathlib import Path")).split()
    assert len(set(found)) == 5
    assert set(found) <= {str(mine / "pictures" / name) for name in names}
