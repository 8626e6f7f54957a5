"""What `vsepp try` makes of folders of pictures before anything trains, and what it refuses."""

import csv
import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from csv_rows import csv_rows
from PIL import Image
from plans import PARAMS
from raw_layouts import encoded

from vsepp.apps.own_pictures import FEWEST_PICTURES, RUN, prepare
from vsepp.base.errors import VseppError
from vsepp.pipeline.planner import make_plan


def picture(number):
    pixels = np.random.default_rng(number).integers(0, 255, (8, 8, 3), np.uint8)
    return encoded(Image.fromarray(pixels), "PNG")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Sixty pictures, two captions each in a CSV beside their folder."""
    monkeypatch.chdir(tmp_path)
    pictures = tmp_path / "Holiday 2026"
    pictures.mkdir()
    for number in range(60):
        (pictures / f"{number}.png").write_bytes(picture(number))
    write_table([(name, text) for name in NAMES for text in (f"Picture {name}, of noise.", "Noise")])
    return pictures


NAMES = [f"{number}.png" for number in range(60)]
TABLE = Path("captions.csv")


def write_table(rows, head=("image", "caption")):
    with TABLE.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([head, *rows])


def write_texts(folder, texts):
    """Text files beside pictures: name of a picture → its captions."""
    for name, text in texts.items():
        (folder / name).with_suffix(".txt").write_text(text)


def split_of(trial):
    """Split → names of its pictures, as the inputs of the run have them."""
    rows = csv_rows(trial.inputs / "own-captions.csv")
    splits = ("train", "val", "test")
    return {split: {row["image"] for row in rows if row["split"] == split} for split in splits}


def test_pictures_are_split_by_count_and_keep_their_captions(folder):
    trial = prepare(folder, TABLE)
    assert trial.pictures == {"train": 40, "val": 10, "test": 10} and trial.captions == 120
    assert {split: len(names) for split, names in split_of(trial).items()} == trial.pictures
    assert trial.inputs.name.startswith("holiday-2026-")
    assert (trial.inputs / "own-pictures").resolve() == folder.resolve()
    assert trial.settings["evaluation"] == {"fold_size": 10}


def test_the_same_folder_gives_the_same_inputs_and_a_changed_one_others(folder):
    first = prepare(folder, TABLE)
    table = first.inputs / "own-captions.csv"
    written = table.stat().st_mtime_ns
    assert prepare(folder, TABLE) == first and table.stat().st_mtime_ns == written
    (folder / "0.png").write_bytes(picture(100))
    second = prepare(folder, TABLE)
    assert second.inputs != first.inputs
    folders, others = (
        {artefact.folder for artefact in make_plan(PARAMS, trial.settings).table.values() if artefact.inputs}
        for trial in (first, second)
    )
    assert not folders & others, "trials share nothing that is made of pictures or captions"


def test_splits_of_the_user_are_kept(folder):
    splits = ["train"] * 40 + ["val"] * 8 + ["test"] * 12
    write_table([(*row, "Noise") for row in zip(NAMES, splits, strict=True)], ("image", "split", "caption"))
    assert prepare(folder, TABLE).pictures == {"train": 40, "val": 8, "test": 12}


def test_few_steps_are_of_sh_alone_and_many_end_with_mh(folder):
    few = prepare(folder, TABLE).settings["runs"][RUN]
    assert (few["loss"], few["system"]) == ({"curriculum": 1.0}, "SH")
    write_table([(f"{number % 60}.png", f"Noise {number}") for number in range(40_000)])
    many = prepare(folder, TABLE).settings["runs"][RUN]
    assert many["loss"]["curriculum"] < 0.5 and many["epochs"] < few["epochs"]


# Forms of captions.

TABLES = {
    "metadata.jsonl": "".join(f'{{"file_name":"{name}","text":"noise"}}\n' for name in NAMES),
    "cc.tsv": "filepath\ttitle\n" + "".join(f"{name}\ta, noise\n" for name in NAMES),
    "list.json": json.dumps([{"image": name, "caption": ["a", "b"]} for name in NAMES]),
    "names.json": json.dumps({name: ["a", "b"] for name in NAMES}, indent=1),
    "results.csv": "image_name| comment_number| comment\n"
    + "".join(f"{name}| {number}| noise .\n" for name in NAMES for number in range(2)),
    "quotes.tsv": "filepath\ttitle\n" + "".join(f'{name}\t"Hi" says a man\n' for name in NAMES),
    "blanks.csv": "Image, Caption\n" + "".join(f"{name}, a\n" for name in NAMES),
    "mac.csv": "image;caption\r" + "".join(f"{name};a, b\r" for name in NAMES),
    "excel.csv": "\ufeffsep=;\r\nimage;caption\r\n"
    + "".join(f"{name};a, b\r\n" for name in NAMES)
    + ";\r\n" * 9,
    "coco.json": json.dumps(
        {
            "images": [{"id": number, "file_name": name} for number, name in enumerate(NAMES)],
            "annotations": [{"id": k, "image_id": str(k), "caption": "a"} for k in range(60)],
        }
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_captions_are_read_in_the_forms_that_people_have(folder, name):
    Path(name).write_text(TABLES[name])
    trial = prepare(folder, Path(name))
    assert trial.pictures == {"train": 40, "val": 10, "test": 10}
    assert trial.captions == (120 if name in ("list.json", "names.json", "results.csv") else 60)


def test_columns_of_other_names_are_named_by_the_user(folder):
    write_table([(name, "noise") for name in NAMES], ("file", "words"))
    with pytest.raises(VseppError, match=r"captions\.csv: .*'file', 'words'"):
        prepare(folder, TABLE)
    assert prepare(folder, TABLE, "image=file,caption=words").captions == 60
    with pytest.raises(VseppError, match="image=t"):
        prepare(folder, TABLE, "image=file,image=t")


def test_quoted_cells_of_a_table_of_tabs_are_unquoted(folder):
    rows = "".join(f'{name}\t"on ""two""\nlines"\n' for name in NAMES)
    Path("captions.tsv").write_text(f"image\tcaption\n{rows}")
    rows = csv_rows(prepare(folder, Path("captions.tsv")).inputs / "own-captions.csv")
    assert {row["caption"] for row in rows} == {'on "two" lines'}


def test_text_files_beside_pictures_are_captions_in_any_spelling_of_their_names(folder, caplog):
    write_texts(folder, {name: "Noise.\n\nPicture.\n" for name in NAMES})
    assert prepare(folder).captions == 120
    (folder / "0.png").rename(folder / unicodedata.normalize("NFD", "é.png"))
    (folder / "0.txt").rename(folder / unicodedata.normalize("NFC", "é.TXT"))
    (folder / "1.txt").rename(folder / "1.caption")
    (folder / "60.txt").write_text("Noise.\n")
    assert prepare(folder).captions == 120
    assert "60.txt" in caplog.text, "it has no picture"


# What is left out, and named.


def test_few_pictures_and_captions_that_cannot_be_used_are_left_out_and_named(folder, caplog):
    write_texts(folder, dict.fromkeys(NAMES, "Noise"))
    (folder / "7.png").write_bytes(b"no picture")
    (folder / "8.txt").write_text("\n")
    (folder / "9.txt").write_bytes(b"caf\xe9")
    (folder / "more.png").write_bytes(picture(60))
    (folder / "1.png").rename(folder / "a\nb.png")
    (folder / "0.png").rename(folder / " 0.png")
    (folder / "0.txt").rename(folder / " 0.txt")
    trial = prepare(folder)
    names = set().union(*split_of(trial).values())
    assert trial.captions == len(names) == 56 and " 0.png" in names
    assert all(name in caplog.text for name in ("7.png", "8.txt: line 1", "9.txt", "1.txt"))


def test_rows_that_lead_out_of_the_folder_are_left_out_and_windows_may_part_their_folders(folder, caplog):
    (folder / "a").mkdir()
    for name in NAMES:
        (folder / name).rename(folder / "a" / name)
    write_table([*((f"a\\{name}", "Noise") for name in NAMES[:58]), ("C:\\58.png", "x"), ("../59.png", "x")])
    assert prepare(folder, TABLE).captions == 58
    assert "row 59: 'C:" in caplog.text and "row 60: '../59.png'" in caplog.text


def test_equal_files_lie_in_one_split_and_count_once(folder, caplog):
    rows = []
    for name in NAMES:
        (folder / f"copy-{name}").write_bytes((folder / name).read_bytes())
        rows += [(name, "Noise"), (f"copy-{name}", "Noise")]
    write_table(rows)
    splits = split_of(prepare(folder, TABLE))
    assert all({f"copy-{name}" for name in names if name in NAMES} <= names for names in splits.values())
    assert "120" in caplog.text
    splits_of_user = ["train"] * 40 + ["val"] * 10 + ["test"] * 69 + ["train"]
    write_table(
        [(*row, split) for row, split in zip(rows, splits_of_user, strict=True)],
        ("image", "caption", "split"),
    )
    with pytest.raises(VseppError, match=r"59\.png.*test.*train"):
        prepare(folder, TABLE)
    for number in range(60):
        (folder / f"{number}.png").write_bytes(picture(number % 15))
    write_table([(name, "Noise") for name in NAMES])
    with pytest.raises(VseppError, match=r"15 .*at least 50"):
        prepare(folder, TABLE)


# What is refused.


def of_each(text, count=60):
    """Rows with one caption a picture; `{}` is its number."""
    return [(name, text.format(number)) for number, name in enumerate(NAMES[:count])]


REFUSED = {
    "a picture that is not there": (
        [*of_each("Noise"), ("three.png", "Noise")],
        r"1 of 61.*three\.png .*row 61",
    ),
    "too few pictures": (of_each("Noise", FEWEST_PICTURES - 1), "49 .*at least 50"),
    "no word twice": (of_each("word{}"), r"40 captions.* 2 times"),
    "nor in every other one": (of_each("A red circle") + of_each("赤い靴{}足"), "60 of 120"),
    "absolute paths": ([(f"/pictures/{name}", "Noise") for name in NAMES], "60 of 60.*row 1: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_captions_that_cannot_be_trained_on_are_refused(folder, case):
    rows, named = REFUSED[case]
    write_table(rows)
    with pytest.raises(VseppError, match=named):
        prepare(folder, TABLE)


@pytest.mark.parametrize("text", ["红色 的 圆形 图案", "A sign that says 北京烤鸭店", "🐶🏖️🐕"])
def test_captions_with_blanks_between_words_are_used(folder, text):
    write_table(of_each(text))
    assert prepare(folder, TABLE).captions == 60


def test_splits_that_cannot_be_trained_or_tested_on_are_refused(folder):
    head = ("image", "caption", "split")
    write_table([(name, "Noise", "train" if number else "val") for number, name in enumerate(NAMES)], head)
    with pytest.raises(VseppError, match="test"):
        prepare(folder, TABLE)
    write_table([(name, "Noise", "train" if number else "") for number, name in enumerate(NAMES)], head)
    with pytest.raises(VseppError, match=r"captions\.csv: .*1: got split ''"):
        prepare(folder, TABLE)


def test_a_folder_without_pictures_or_with_many_damaged_ones_is_refused(folder):
    for name in NAMES[:10]:
        (folder / name).write_bytes(b"no picture")
    with pytest.raises(VseppError, match=r"4 of .* 60: .*0\.png"):
        prepare(folder, TABLE)
    for name in NAMES:
        (folder / name).unlink()
    with pytest.raises(VseppError, match="found none"):
        prepare(folder, TABLE)


NO_TABLES = {
    "t.xlsx": (b"PK\x03\x04\x14\0", "zip"),
    "latin.csv": ("image,caption\n1.png,Café\n".encode("latin-1"), "line 2"),
    "other.json": (b'{"data": [{"image": "0.png"}], "version": 1}', "'data'; 'version'"),
    "cut.jsonl": (b'{"image": "0.png", "caption": "a"}\n{"image": "1.p', "line 2"),
    "twice.json": (
        b'{"images": [{"id": 3, "file_name": "0.png"}, {"id": 3, "file_name": "1.png"}], "annotations": []}',
        "id 3 .*0.png.*1.png",
    ),
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_what_is_no_table_of_captions_is_named(folder, name):
    data, named = NO_TABLES[name]
    Path(name).write_bytes(data)
    with pytest.raises(VseppError, match=rf"{name}: .*{named}"):
        prepare(folder, Path(name))


def test_without_captions_nothing_is_trained(folder):
    with pytest.raises(VseppError, match="no captions"):
        prepare(folder)
    with pytest.raises(VseppError, match=r"none\.csv: no such file"):
        prepare(folder, Path("none.csv"))
