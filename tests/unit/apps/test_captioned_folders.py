"""What `vsepp try` makes of folders of pictures before anything trains, and what it refuses."""

import csv
import io
import json
import os
import unicodedata

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
    "no test split": (never_tested, "have the split (val|test)"),
    "no pictures": (emptied, r"expected pictures .*\.jpg.*found none"),
    "many damaged pictures": (damaged, r"4 of .* pictures cannot be read, more than 5% of all 60: .*0\.png"),
    "captions of a picture that is not there": (
        renamed,
        r"1 of 60.*3\.png .*row 7",
    ),
    "too few pictures": (too_few, "49 .*at least 50"),
    "another encoding": (in_latin_1, r"captions\.csv: not UTF-8: line 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_on_is_refused(folder, case):
    spoil, message = REFUSED[case]
    spoil(folder)
    with pytest.raises(VseppError, match=message):
        prepare(folder, folder.parent / "captions.csv")


def test_a_folder_without_captions_is_told_what_to_give(folder):
    with pytest.raises(VseppError, match="no captions; give a table"):
        prepare(folder)


NAMES = [f"{number}.png" for number in range(60)]
TABLES = {
    "metadata.csv": "file_name,text\n" + "".join(f"{n},noise\n" for n in NAMES),
    "metadata.jsonl": "".join(
        json.dumps({"file_name": n, "text": "noise"}, separators=(",", ":")) + "\n" for n in NAMES
    ),
    "cc.tsv": "filepath\ttitle\n" + "".join(f"{n}\ta, noise\n" for n in NAMES),
    "list.json": json.dumps([{"image": n, "caption": ["a", "b"]} for n in NAMES]),
    "semicolons.csv": "image;caption\n" + "".join(f"{n};a\n" for n in NAMES),
    "results.csv": "image_name| comment_number| comment\n"
    + "".join(
        f"{n}| {k}| noise .\n" if (n, k) != ("40.png", 4) else f"{n}| 4   noise .\n"
        for n in NAMES
        for k in range(5)
    ),
    "quotes.tsv": "filepath\ttitle\n" + "".join(f'{n}\t"Hi" says a man\n' for n in NAMES),
    "blanks.csv": "Image, Caption\n" + "".join(f"{n}, a\n" for n in NAMES),
    "excel.csv": "\ufeffsep=;\r\nimage;caption\r\n" + "".join(f"{n};a, b\r\n" for n in NAMES) + ";\r\n" * 9,
    "mac.csv": "image;caption\r" + "".join(f"{n};a, b\r" for n in NAMES),
    "names.json": json.dumps({n: ["a", "b"] for n in NAMES}, indent=1),
    "coco.json": json.dumps(
        {
            "images": [{"id": k, "file_name": n} for k, n in enumerate(NAMES)],
            "annotations": [{"id": k, "image_id": k, "caption": "a"} for k in range(60)],
        }
    ),
    "quotes.csv": "image,caption,,\n" + "".join(f'{n}, "a, b",,\n' for n in NAMES),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_captions_are_read_in_the_forms_that_people_have(folder, name):
    file = folder.parent / name
    file.write_text(TABLES[name])
    trial = prepare(folder, file)
    assert trial.pictures == {"train": 40, "val": 10, "test": 10}
    assert trial.captions == {"list.json": 120, "names.json": 120, "results.csv": 299}.get(name, 60)


def test_columns_of_other_names_are_found_by_what_is_said_of_them(folder):
    write(folder.parent / "captions.csv", [(name, "noise") for name in NAMES], ("file", "words"))
    with pytest.raises(VseppError, match=r"captions\.csv: .*'file', 'words'"):
        prepare(folder, folder.parent / "captions.csv")
    assert prepare(folder, folder.parent / "captions.csv", "image=file,caption=words").captions == 60


def test_captions_of_another_ending_lie_beside_pictures(folder):
    for name in NAMES:
        (folder / name).with_suffix(".caption").write_text("Noise.\n")
    assert prepare(folder).captions == 60


def test_names_with_blanks_are_used_and_odd_names_and_captions_are_left_out(folder, caplog):
    for old, new, text in (("0", " 0", "Noise"), ("1", "a\nb", "Noise"), ("2", "2", "a\0b")):
        (folder / f"{old}.png").rename(folder / f"{new}.png")
        (folder / f"{new}.txt").write_text(text)
    for number in range(3, 60):
        (folder / f"{number}.txt").write_text("Noise.\n")
    trial = prepare(folder)
    names = set().union(*split_of(trial).values())
    assert sum(trial.pictures.values()) == len(names) == 58 and " 0.png" in names
    assert "2.png" in caplog.text


def test_folders_of_a_row_and_of_a_file_must_be_the_same(folder):
    (folder / "a").mkdir()
    for name in NAMES:
        (folder / name).rename(folder / "a" / name)
    write(folder.parent / "captions.csv", [(f"{at}/{name}", f"of {at}") for at in "ab" for name in NAMES])
    with pytest.raises(VseppError, match=r"60 of 120.*b/0\.png"):
        prepare(folder, folder.parent / "captions.csv")


def test_equal_files_lie_in_one_split_and_are_counted(folder, caplog):
    rows = []
    for name in NAMES:
        (folder / f"copy-{name}").write_bytes((folder / name).read_bytes())
        rows += [(name, "Noise"), (f"copy-{name}", "Noise")]
    write(folder.parent / "captions.csv", rows)
    splits = split_of(prepare(folder, folder.parent / "captions.csv"))
    assert all({f"copy-{name}" for name in names if name in NAMES} <= names for names in splits.values())
    assert "equal files, which are put into one split: 120" in caplog.text
    given = ["train"] * 40 + ["val"] * 10 + ["test"] * 69 + ["train"]
    rows = [(*row, split) for row, split in zip(rows, given, strict=True)]
    write(folder.parent / "captions.csv", rows, ("image", "caption", "split"))
    with pytest.raises(VseppError, match=r"59\.png.*test.*train"):
        prepare(folder, folder.parent / "captions.csv")


UNSEPARATED = [
    "第{}张",
    "红色圆形",
    "Nikeの赤い靴{}足",
    "Sony のカメラで撮った写真 {}",
    "รูปที่ {} วงกลมสีแดง",
    "ລົດສີແດງ {}",
]


@pytest.mark.parametrize("text", UNSEPARATED)
def test_captions_without_blanks_between_words_are_refused(folder, text):
    write(folder.parent / "captions.csv", [(name, text.format(k)) for k, name in enumerate(NAMES)])
    with pytest.raises(VseppError, match="60 of 60 captions are not separated"):
        prepare(folder, folder.parent / "captions.csv")


@pytest.mark.parametrize(
    "text",
    [
        "红色 的 圆形 图案",
        "5个 红色 圆形",
        "赤い スポーツカー が 走る",
        "รถ สี แดง จอด อยู่ บน ถนน",
        "빨간 원이 있습니다",
        "Một con chó",
        "🐶🏖️🐕",
    ],
)
def test_captions_with_blanks_between_words_are_used(folder, text):
    write(folder.parent / "captions.csv", [(name, text) for name in NAMES])
    assert prepare(folder, folder.parent / "captions.csv").captions == 60


NO_TABLES = {
    "t.parquet": (b"PAR1\x15", "Parquet"),
    "t.xlsx": (b"PK\x03\x04\x14\0", "zip"),
    "t.csv.gz": (b"\x1f\x8b\x08", "gzip"),
    "page.csv": (b"<!DOCTYPE html>", "HTML"),
    "empty.csv": (b"", "empty"),
    "other.json": (b'{"data": [{"image": "0.png"}], "version": 1}', "'data'; 'version'"),
    "cut.jsonl": (b'{"image": "0.png", "caption": "a"}\n{"image": "1.p', "line 2"),
    "lists.json": (b'[["0.png", "a"]]', "entry 1"),
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_what_is_no_table_of_captions_is_named(folder, name):
    data, said = NO_TABLES[name]
    (folder.parent / name).write_bytes(data)
    with pytest.raises(VseppError) as caught:
        prepare(folder, folder.parent / name)
    assert f"{name}: " in str(caught.value) and said in str(caught.value)


def test_folders_of_rows_may_be_parted_as_windows_does_and_rows_that_lead_out_are_left_out(folder, caplog):
    (folder / "a").mkdir()
    for name in NAMES:
        (folder / name).rename(folder / "a" / name)
    rows = [(f"a\\{name}", "Noise") for name in NAMES[:58]] + [("C:\\58.png", "x"), ("../59.png", "x")]
    write(folder.parent / "captions.csv", rows)
    assert prepare(folder, folder.parent / "captions.csv").captions == 58
    assert "row 59: 'C:" in caplog.text and "row 60: '../59.png'" in caplog.text


def test_a_text_file_in_another_encoding_is_left_out_and_named(folder, caplog):
    for name in NAMES:
        (folder / name).with_suffix(".txt").write_bytes(b"caf\xe9" if name == "7.png" else b"Noise")
    assert prepare(folder).captions == 59
    assert "7.txt" in caplog.text


def test_a_fifo_in_place_of_a_table_is_named(folder):
    os.mkfifo(folder.parent / "fifo.csv")
    with pytest.raises(VseppError, match=r"fifo\.csv: a FIFO"):
        prepare(folder, folder.parent / "fifo.csv")


def test_a_table_that_is_not_there_is_named(folder):
    with pytest.raises(VseppError, match=r"none\.csv: no such file; expected a table of captions"):
        prepare(folder, folder.parent / "none.csv")


def test_quoted_cells_of_a_table_of_tabs_are_unquoted(folder):
    rows = "".join(f'{name}\t"on ""two""\nlines"\n' for name in NAMES)
    (folder.parent / "captions.tsv").write_text(f"image\tcaption\n{rows}")
    trial = prepare(folder, folder.parent / "captions.tsv")
    with (trial.inputs / "own-captions.csv").open(newline="") as stream:
        assert {row["caption"] for row in csv.DictReader(stream)} == {'on "two" lines'}


def test_copies_of_one_file_count_once(folder):
    for number in range(15, 60):
        (folder / f"{number}.png").write_bytes(picture(number % 15))
    with pytest.raises(VseppError, match=r"15 .*at least 50"):
        prepare(folder, folder.parent / "captions.csv")


def test_a_split_of_copies_of_one_file_is_refused(folder):
    for number in range(4):
        (folder / f"{number}.png").write_bytes(picture(0))
    rows = [
        (name, "Noise", "val" if number < 4 else "test" if number < 9 else "train")
        for number, name in enumerate(NAMES)
    ]
    write(folder.parent / "captions.csv", rows, ("image", "caption", "split"))
    with pytest.raises(VseppError, match=r"1 .*split val, expected at least 2"):
        prepare(folder, folder.parent / "captions.csv")


def test_captions_that_share_no_word_are_refused_before_anything_is_trained(folder):
    write(folder.parent / "captions.csv", [(name, f"word{k}") for k, name in enumerate(NAMES)])
    with pytest.raises(VseppError, match=r"40 captions.* 2 times"):
        prepare(folder, folder.parent / "captions.csv")


def coco(folder, images, annotations):
    file = folder.parent / "coco.json"
    file.write_text(
        json.dumps(
            {
                "images": [{"id": k, "file_name": name} for k, name in images],
                "annotations": [{"id": k, "image_id": of, "caption": f"of {of}"} for k, of in annotations],
            }
        )
    )
    return file


def test_an_id_that_two_images_have_is_refused(folder):
    ids = [3 if k == 7 else k for k in range(60)]
    with pytest.raises(VseppError, match=r"coco\.json: .*id 3 .*3\.png.*7\.png"):
        prepare(folder, coco(folder, zip(ids, NAMES, strict=True), enumerate(ids)))


@pytest.mark.parametrize("kind", [str, float, "{:012}".format])
def test_ids_as_text_or_floats_are_the_same_whole_numbers(folder, kind):
    file = coco(folder, enumerate(NAMES), [(k, kind(k)) for k in range(60)])
    assert prepare(folder, file).captions == 60


def test_an_id_that_no_image_has_is_named(folder):
    with pytest.raises(VseppError, match=r"entry 1: .*123"):
        prepare(folder, coco(folder, enumerate(NAMES), [(k, k + 123) for k in range(60)]))


def test_empty_text_files_count_as_empty_cells_do(folder, caplog):
    for number, name in enumerate(NAMES):
        (folder / name).with_suffix(".txt").write_text("\n" if number < 2 else "Noise\n")
    assert prepare(folder).captions == 58 and "0.txt: line 1" in caplog.text
    for name in NAMES[:10]:
        (folder / name).with_suffix(".txt").write_text("")
    with pytest.raises(VseppError, match="10 of 60 captions cannot be used"):
        prepare(folder)


def test_text_files_are_found_in_other_spellings_of_their_names(folder):
    (folder / "0.png").rename(folder / unicodedata.normalize("NFD", "é.png"))
    (folder / unicodedata.normalize("NFC", "é.txt")).write_text("Noise")
    for number, name in enumerate(NAMES[1:]):
        (folder / name).with_suffix(".TXT" if number % 2 else ".Caption").write_text("Noise")
    assert prepare(folder).captions == 60


@pytest.mark.parametrize("missing", [{}, {"split": None}, {"split": ""}])
def test_an_entry_without_a_split_is_refused_where_others_have_one(folder, missing):
    entries = [{"image": name, "caption": "Noise", "split": "train"} for name in NAMES[1:]]
    file = folder.parent / "list.json"
    file.write_text(json.dumps([{"image": "0.png", "caption": "Noise"} | missing, *entries]))
    with pytest.raises(VseppError, match=r"list\.json: entry 1: got split ''"):
        prepare(folder, file)


def test_every_other_caption_without_blanks_is_refused_and_names_in_captions_are_not(folder):
    rows = [(name, text) for name in NAMES for text in ("A red circle", "红色的圆形图案")]
    write(folder.parent / "captions.csv", rows)
    with pytest.raises(VseppError, match="60 of 120 captions are not separated"):
        prepare(folder, folder.parent / "captions.csv")
    write(folder.parent / "captions.csv", [(name, "A sign that says 北京烤鸭店") for name in NAMES])
    assert prepare(folder, folder.parent / "captions.csv").captions == 60


def test_what_is_left_out_is_named_as_it_is_there(folder, caplog):
    (folder / "0.png").rename(folder / os.fsdecode(b"caf\xe9.png"))
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("Noise")
    for name in NAMES[1:]:
        (folder / name).with_suffix(".txt").write_text("Noise\na\0b\n" if name == "1.png" else "Noise")
    assert prepare(folder).captions == 59
    assert r"'caf\xe9.png' is not UTF-8" in caplog.text and "1.txt: line 2" in caplog.text
    file = folder.parent / "list.json"
    file.write_text(
        json.dumps([{"image": name, "caption": None if name == "7.png" else "a"} for name in NAMES[1:]])
    )
    assert prepare(folder, file).captions == 58 and "got null" in caplog.text


def test_columns_said_twice_are_refused(folder):
    with pytest.raises(VseppError, match="image=t"):
        prepare(folder, folder.parent / "captions.csv", "image=image,image=t")


def test_absolute_paths_are_named_with_what_is_expected(folder):
    write(folder.parent / "captions.csv", [(str(folder / name), "Noise") for name in NAMES])
    with pytest.raises(VseppError, match=r"60 of 60.*row 1: .*relative"):
        prepare(folder, folder.parent / "captions.csv")
