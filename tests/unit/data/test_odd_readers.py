"""What the readers say of files that are odd, and what they read in a documented way and count."""

import os
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from raw_layouts import coco_name, edit_json, read, refused, write_coco, write_flickr8k, write_karpathy

from vsepp.base.errors import VseppError
from vsepp.base.manifest import recorded
from vsepp.base.spec import Component
from vsepp.data.arrays import NpyRows
from vsepp.data.captions import tokenize
from vsepp.data.raw import Container
from vsepp.data.tables import read_tables, write_tables

HUGE, DEEP = 1 << 70, "[" * 5000 + "]" * 5000


def set_in(value, *place):
    """An edit that puts a value at a place of a JSON document."""

    def edit(document):
        *outer, last = place
        for key in outer:
            document = document[key]
        document[last] = value

    return edit


ANNOTATION = {
    "a list": ([], "[]"),
    "an id as text": ({"id": "7", "image_id": 3, "caption": "x"}, "id: … '7'"),
    "an id that is true": ({"id": True, "image_id": 3, "caption": "x"}, "id: … True"),
    "an id beyond 64 bits": ({"id": HUGE, "image_id": 3, "caption": "x"}, f"id: … {HUGE}"),
    "no text": ({"id": 7, "image_id": 3}, "caption: missing"),
}


@pytest.mark.parametrize("case", ANNOTATION)
def test_coco_a_malformed_annotation_is_named_with_what_was_found(tmp_path, case):
    value, said = ANNOTATION[case]
    spec = write_coco(tmp_path)
    edit_json(spec.files["train_captions"], set_in(value, "annotations", 2))
    refused(spec, f"{spec.files['train_captions']}: annotations[2]", said)


COCO_DOCUMENTS = {
    "a cocoid of text": (set_in("57", "images", 0, "cocoid"), "images[0] … '57'"),
    "the file of another image": (set_in(coco_name(12, "val2014"), "images", 0, "filename"), "images[0]"),
    "another folder": (set_in("train2014", "images", 0, "filepath"), "images[0]"),
    "a folder that is a number": (set_in(2014, "images", 0, "filepath"), "images[0] … filepath … 2014"),
}


@pytest.mark.parametrize("case", COCO_DOCUMENTS)
def test_coco_an_image_that_is_not_in_its_place_is_named(tmp_path, case):
    edit, said = COCO_DOCUMENTS[case]
    spec = write_coco(tmp_path)
    edit_json(spec.files["splits"], edit)
    refused(spec, f"dataset_coco.json: {said}")


def test_coco_keys_that_are_not_read_may_be_anything(tmp_path):
    spec = write_coco(tmp_path)
    edit_json(spec.files["train_captions"], set_in(7, "images"))
    assert len(read(spec)[0]) == 9


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"annotations": [', f'"annotations": [{DEEP}, ', ""),
        ('"image_id": 3', f'"image_id": {"3" * 5000}', ""),
        ('"image_id": 3', '"image_id": 3, "image_id": 5', "'image_id'"),
        (
            '"image_id": 3',
            '"image_id": NaN',
            "image_id … nan",
        ),
    ],
)
def test_coco_json_that_no_program_writes(tmp_path, old, new, said):
    spec = write_coco(tmp_path)
    path = Path(spec.files["train_captions"])
    path.write_text(path.read_text().replace(old, new, 1))
    refused(spec, f"{path}: ", said)


def test_coco_of_six_captions_the_five_lowest_ids_are_used_where_that_is_said(tmp_path):
    spec = write_coco(tmp_path)
    by_id = replace(spec, reader=Component("coco", {"captions": "by_id"}))
    listed, sorted_ones = (read(one)[1] for one in (spec, by_id))
    of_12 = [one[one["image_index"] == 1] for one in (listed, sorted_ones)]
    assert of_12[0]["caption_id"].tolist() == [12005, 12004, 12003, 12002, 12001]
    assert of_12[1]["caption_id"].tolist() == [12000, 12001, 12002, 12003, 12004]
    assert of_12[1]["text"].tolist() == [f"Caption {12000 + k} of café." for k in range(5)]
    assert sorted(listed["image_index"]) == sorted(sorted_ones["image_index"])


PATHS = [
    "../a.jpg",
    "/etc/passwd",
    "x/../../a.jpg",
    "a\0.jpg",
    "a\x1b[2J.jpg",
    "a\n.jpg",
    "\ud800.jpg",
    "C:/a.jpg",
]


@pytest.mark.parametrize("name", PATHS)
def test_names_of_images_that_lead_elsewhere_or_that_no_table_holds_are_refused(tmp_path, name):
    spec = write_karpathy(tmp_path)
    edit_json(spec.files["splits"], set_in(name, "images", 2, "filename"))
    assert refused(spec, "images[2]").isprintable()


# Flickr8k's captions


def with_tokens(tmp_path, edit):
    spec = write_flickr8k(tmp_path)
    path = Path(spec.files["text"]) / "Flickr8k.token.txt"
    path.write_bytes(edit(path.read_bytes()))
    return spec


def test_control_characters_are_parts_of_words(tmp_path):
    spec = with_tokens(tmp_path, lambda data: data.replace(b"a.jpg caption", b"a.jpg\x1b \x07caption\tx"))
    _, captions = read(spec)
    assert captions["text"].iloc[4] == "a.jpg\x1b \x07caption\tx 0 ."
    assert tokenize("A\x1b \x07dog\tx") == ["a\x1b", "\x07dog", "x"]


LONG = {
    "spaces": "a" + " " * 200_000 + "!",
    "spaces after a full stop": "a." + " " * 200_000 + "x",
    "white space of other kinds": "a." + " \t\u2003" * 60_000 + "x",
    "words": "dog " * 50_000 + "?",
    "full stops": "a. " * 50_000,
    "brackets": "a." + ")" * 200_000 + "x",
    "quotes": "' " * 100_000,
    "letters": "a" * 200_000 + "é",
}


@pytest.mark.parametrize("case", LONG)
def test_the_time_of_a_long_caption_is_linear_in_its_length(case):
    started = time.process_time()
    words = tokenize(LONG[case])
    assert time.process_time() - started < 5
    assert "".join(words)[:1] == LONG[case][:1]


# Where files lie


def test_a_fifo_or_device_in_the_place_of_a_file_is_never_opened(tmp_path):
    spec = write_flickr8k(tmp_path)
    tokens = Path(spec.files["text"]) / "Flickr8k.token.txt"
    tokens.unlink()
    os.mkfifo(tokens)
    refused(spec, "Flickr8k.token.txt: a FIFO, not a file")
    spec = write_karpathy(tmp_path / "other")
    for path, said in ((tokens, "a FIFO"), (Path("/dev/zero"), "a device")):
        refused(replace(spec, files={**spec.files, "splits": str(path)}), f"{path}: {said}, not a file")


def test_a_table_that_is_not_as_its_step_wrote_it_is_refused(tmp_path):
    images, captions = read(write_karpathy(tmp_path / "raw"))
    (tmp_path / "corpus").mkdir()
    with recorded(tmp_path / "corpus", "corpus", spec={}, inputs={}):
        write_tables(tmp_path / "corpus", images, captions)
    assert len(read_tables(tmp_path / "corpus")[1]) == 10
    path = tmp_path / "corpus" / "captions.parquet"
    # Valid, but with other texts: only the manifest knows.
    captions["text"] = captions["text"].str.replace("a", "b")
    write_tables(tmp_path / "other", images, captions)
    path.write_bytes((tmp_path / "other" / "captions.parquet").read_bytes())
    with pytest.raises(VseppError, match=r"captions\.parquet: is not what its step wrote"):
        read_tables(tmp_path / "corpus")


def test_arrays_inside_an_archive_are_compared_with_their_checksum(tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((50_000, 4), np.float32))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.write(tmp_path / "rows.npy", "rows.npy")
    data = bytearray((tmp_path / "a.zip").read_bytes())
    data[data.index(b"\x00\x00\x80\x3f") + 400_000] ^= 1
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(VseppError, match=r"rows\.npy: it is damaged"):
        list(NpyRows(Container(tmp_path / "a.zip"), "rows.npy").blocks(50_000, 999))
