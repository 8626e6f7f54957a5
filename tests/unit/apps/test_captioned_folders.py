"""What `vsepp try` makes of folders of pictures before anything trains, and what it refuses."""

import csv
import io

import numpy as np
import pytest
from PIL import Image

from vsepp.apps.own_pictures import FEWEST_PICTURES, RUN, prepare
from vsepp.base.errors import VseppError


def picture(number):
    pixels = np.random.default_rng(number).integers(0, 255, (8, 8, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Sixty pictures, two captions each in a CSV beside their folder."""
    monkeypatch.chdir(tmp_path)
    pictures = tmp_path / "Holiday 2026"
    pictures.mkdir()
    rows = []
    for number in range(60):
        (pictures / f"{number}.png").write_bytes(picture(number))
        rows += [(f"{number}.png", f"Picture {number}, of noise."), (f"{number}.png", "Noise")]
    write(tmp_path / "captions.csv", rows)
    return pictures


def write(file, rows, head=("image", "caption")):
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([head, *rows])


def split_of(trial):
    """Split → names of its pictures, as the inputs of the run have them."""
    with (trial.inputs / "own-captions.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {
        split: {row["image"] for row in rows if row["split"] == split} for split in ("train", "val", "test")
    }


def test_pictures_are_split_by_count_and_keep_their_captions(folder):
    trial = prepare(folder, folder.parent / "captions.csv")
    assert trial.pictures == {"train": 40, "val": 10, "test": 10}
    assert trial.captions == 120
    assert {split: len(names) for split, names in split_of(trial).items()} == trial.pictures
    assert trial.inputs.name.startswith("holiday-2026-")
    assert (trial.inputs / "own-pictures").resolve() == folder.resolve()
    assert trial.settings["evaluation"] == {"fold_size": 10}


def test_the_same_folder_gives_the_same_inputs_and_a_changed_one_others(folder):
    first = prepare(folder, folder.parent / "captions.csv")
    table = first.inputs / "own-captions.csv"
    written = table.stat().st_mtime_ns
    assert prepare(folder, folder.parent / "captions.csv") == first
    assert table.stat().st_mtime_ns == written
    (folder / "0.png").write_bytes(picture(100))
    assert prepare(folder, folder.parent / "captions.csv").inputs != first.inputs


def test_text_files_beside_pictures_are_captions(folder):
    for number in range(60):
        (folder / f"{number}.txt").write_text(f"Picture {number}.\n\nNoise.\n")
    assert prepare(folder).captions == 120


def test_text_files_without_a_picture_are_named(folder, caplog):
    for number in range(62):
        (folder / f"{number}.txt").write_text("Noise.\n")
    assert prepare(folder).captions == 60
    assert "without a picture of their name: 2, the first is 60.txt" in caplog.text


def test_splits_of_the_user_are_kept(folder):
    splits = ["train"] * 40 + ["val"] * 8 + ["test"] * 12
    rows = [(f"{number}.png", "Noise", split) for number, split in enumerate(splits)]
    write(folder.parent / "captions.csv", rows, ("image", "caption", "split"))
    assert prepare(folder, folder.parent / "captions.csv").pictures == {"train": 40, "val": 8, "test": 12}


def test_few_damaged_pictures_are_left_out_and_named(folder, caplog):
    (folder / "7.png").write_bytes(b"no picture")
    trial = prepare(folder, folder.parent / "captions.csv")
    assert sum(trial.pictures.values()) == 59
    assert "7.png" in caplog.text
    assert "7.png" not in set().union(*split_of(trial).values())


def test_pictures_without_captions_are_left_out_and_named(folder, caplog):
    (folder / "more.png").write_bytes(picture(60))
    assert sum(prepare(folder, folder.parent / "captions.csv").pictures.values()) == 60
    assert "pictures without a caption, which are left out: 1" in caplog.text
    assert "more.png" in caplog.text


def test_few_steps_are_of_sh_alone_and_many_end_with_mh(folder):
    few = prepare(folder, folder.parent / "captions.csv").settings["runs"][RUN]
    assert (few["loss"], few["system"]) == ({"curriculum": 1.0}, "SH")
    rows = [(f"{number % 60}.png", f"Noise {number}") for number in range(40_000)]
    write(folder.parent / "captions.csv", rows)
    many = prepare(folder, folder.parent / "captions.csv").settings["runs"][RUN]
    assert many["loss"]["curriculum"] < 0.5
    assert many["epochs"] < few["epochs"]


def emptied(folder):
    for file in folder.iterdir():
        file.unlink()


def damaged(folder):
    for number in range(10):
        (folder / f"{number}.png").write_bytes(b"no picture")


def renamed(folder):
    (folder / "3.png").rename(folder / "three.png")


def too_few(folder):
    rows = [(f"{number}.png", "Noise") for number in range(FEWEST_PICTURES - 1)]
    write(folder.parent / "captions.csv", rows)


def in_latin_1(folder):
    (folder.parent / "captions.csv").write_bytes("image,caption\n1.png,Café\n".encode("latin-1"))


def never_tested(folder):
    rows = [(f"{number}.png", "Noise", "train" if number else "val") for number in range(60)]
    write(folder.parent / "captions.csv", rows, ("image", "caption", "split"))


REFUSED = {
    "no test split": (never_tested, "no picture with captions has the split test"),
    "no pictures": (emptied, r"expected pictures .*\.jpg.*found none"),
    "many damaged pictures": (damaged, r"4 of .* pictures cannot be read, more than 5% of all 60: .*0\.png"),
    "captions of a picture that is not there": (
        renamed,
        r"1 of 60 pictures are not in .*the first is 3\.png .*row 7",
    ),
    "too few pictures": (too_few, "49 pictures with captions, expected at least 50"),
    "another encoding": (in_latin_1, r"captions\.csv: not UTF-8: line 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_on_is_refused(folder, case):
    spoil, message = REFUSED[case]
    spoil(folder)
    with pytest.raises(VseppError, match=message):
        prepare(folder, folder.parent / "captions.csv")


def test_a_folder_without_captions_is_told_what_to_give(folder):
    with pytest.raises(VseppError, match="no captions; give a CSV"):
        prepare(folder)
