"""A corpus as tar archives, and read back from them."""

import csv
import json
import shutil
import subprocess
import sys
import tarfile

import pandas as pd
import pytest
from processes import wait_until
from raw_layouts import jpeg

from vsepp.data.containers import Container
from vsepp.data.corpora import read_corpus
from vsepp.data.tables import read_tables, write_tables
from vsepp.data.tars import write_tars
from vsepp.errors import VseppError
from vsepp.spec import Component, CorpusSpec

# Not in the order of their names; ids with a dot and a folder; captions that a line cannot hold, or a reader would strip.
ROWS = [
    ("more/c.d.jpg", "restval", ["Said 'no'\non two lines", " A café "]),
    ("b.png", "train", ["A dog, two cats"]),
    ("a.JPG", "test", ["Alone", "Alone again", "Same\u2028again"]),
    ("e.jpeg", "val", ["Seen"]),
    ("d.bmp", "train", ["Last"]),
]
PICTURES = {name: jpeg(number) for number, (name, _, _) in enumerate(ROWS)}


@pytest.fixture
def corpus(tmp_path):
    """Folder of the tables of five photographs, and the folder of the photographs by its role."""
    return written(tmp_path, ROWS, PICTURES)


def written(folder, rows, pictures):
    for name, data in pictures.items():
        path = folder / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    with (folder / "list.csv").open("w", encoding="utf-8", newline="") as stream:
        cells = [(name, text, split) for name, split, texts in rows for text in texts]
        csv.writer(stream).writerows([("image", "caption", "split"), *cells])
    files = {"images": str(folder / "pictures"), "captions": str(folder / "list.csv")}
    spec = CorpusSpec(name="x", reader=Component("captions_csv"), files=files)
    write_tables(folder / "corpus", *read_corpus(spec))
    return folder / "corpus", {"images": folder / "pictures"}


def read_back(folder):
    spec = CorpusSpec(name="web", reader=Component("webdataset"), files={"shards": str(folder)})
    return read_corpus(spec)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_read_back_is_the_corpus(corpus, tmp_path):
    write_tars(*corpus, tmp_path / "out", 2)
    before, said = read_tables(corpus[0])
    images, captions = read_back(tmp_path / "out")
    for column in ("image_id", "split"):
        assert images[column].tolist() == before[column].tolist()
    for column in ("caption_id", "image_index", "text", "split"):
        assert captions[column].tolist() == said[column].tolist()
    assert captions["text"].tolist() == [text for _, _, texts in ROWS for text in texts]
    container = Container(tmp_path / "out")
    assert [container.read(member) for member in images["member"]] == list(PICTURES.values())


def test_what_has_been_read_back_is_written_as_the_same_bytes(corpus, tmp_path):
    write_tars(*corpus, tmp_path / "out", 2)
    shutil.rmtree(corpus[0])
    write_tables(corpus[0], *read_back(tmp_path / "out"))
    write_tars(corpus[0], {"shards": tmp_path / "out"}, tmp_path / "again", 2)
    assert content(tmp_path / "again") == content(tmp_path / "out")


def test_a_sample_is_a_photograph_its_ids_and_a_caption_a_line(corpus, tmp_path):
    write_tars(*corpus, tmp_path / "out", 2)
    assert sorted(content(tmp_path / "out")) == ["00000.tar", "00001.tar", "00002.tar"]
    with tarfile.open(tmp_path / "out/00000.tar", "r:") as archive:
        assert archive.getnames() == [
            *("000000000.jpg", "000000000.json", "000000000.txt"),
            *("000000001.png", "000000001.json", "000000001.txt"),
        ]
        assert {(i.mtime, i.uid, i.gid, i.uname, i.gname, i.mode) for i in archive} == {
            (0, 0, 0, "", "", 0o644)
        }
        assert archive.extractfile("000000000.txt").read().decode() == "Said 'no' on two lines\n A café "
        assert json.load(archive.extractfile("000000000.json")) == {
            "split": "restval",
            "image_id": "more/c.d",
            "caption_ids": [1, 2],
            "texts": ["Said 'no'\non two lines", " A café "],
        }
    with tarfile.open(tmp_path / "out/00002.tar", "r:") as archive:
        assert archive.getnames() == ["000000004.jpg", "000000004.json", "000000004.txt"]
        assert archive.extractfile("000000004.jpg").read() == PICTURES["d.bmp"]


def test_two_exports_have_the_same_bytes(corpus, tmp_path):
    for name in ("one", "two"):
        write_tars(*corpus, tmp_path / name, 3)
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_a_photograph_that_is_gone_is_named_and_the_export_goes_on_with_the_missing_archives(
    corpus, tmp_path
):
    write_tars(*corpus, tmp_path / "whole", 2)
    gone = corpus[1]["images"] / "e.jpeg"
    data = gone.read_bytes()
    gone.unlink()
    with pytest.raises(VseppError, match=r"pictures/e\.jpeg: no such file; expected a whole copy"):
        write_tars(*corpus, tmp_path / "out", 2)
    assert not (tmp_path / "out").exists()
    (kept,) = (tmp_path / ".state").rglob("*.tar")
    written = kept.stat().st_ino, kept.stat().st_mtime_ns
    gone.write_bytes(data)
    write_tars(*corpus, tmp_path / "out", 2)
    there = (tmp_path / "out/00000.tar").stat()
    assert (there.st_ino, there.st_mtime_ns) == written
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_what_was_begun_with_other_archives_is_not_used(corpus, tmp_path):
    write_tars(*corpus, tmp_path / "whole", 1)
    gone = corpus[1]["images"] / "e.jpeg"
    data = gone.read_bytes()
    gone.unlink()
    with pytest.raises(VseppError):
        write_tars(*corpus, tmp_path / "out", 2)
    gone.write_bytes(data)
    write_tars(*corpus, tmp_path / "out", 1)
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_a_folder_that_is_there_is_left_alone(corpus, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(VseppError, match=r"out: already exists; name a new folder"):
        write_tars(*corpus, tmp_path / "out", 2)
    assert content(tmp_path / "out") == {}


def test_features_without_photographs_are_no_archives(corpus, tmp_path):
    images, captions = (pd.read_parquet(corpus[0] / f"{name}.parquet") for name in ("images", "captions"))
    images["container"] = ["images", "", "images", "images", "images"]
    write_tables(tmp_path / "features", images, captions)
    with pytest.raises(VseppError, match=r"features: has images without photographs"):
        write_tars(tmp_path / "features", corpus[1], tmp_path / "out", 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"caption_ids": [1]},
        {"caption_ids": [1, "2"]},
        {"caption_ids": [1, -2]},
        {"caption_ids": [1, 2**70]},
        {"caption_ids": 1},
        {"texts": None},
        {"image_id": 7},
        {"image_id": None},
    ],
)
def test_ids_that_are_none_are_named(corpus, tmp_path, changes):
    write_tars(*corpus, tmp_path / "out", 9)
    unpacked = tmp_path / "unpacked"
    with tarfile.open(tmp_path / "out/00000.tar", "r:") as archive:
        archive.extractall(unpacked, filter="data")
    note = unpacked / "000000000.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), **changes}))
    with tarfile.open(tmp_path / "out/00000.tar", "w") as archive:
        for path in sorted(unpacked.iterdir()):
            archive.add(path, path.name)
    with pytest.raises(
        VseppError, match=r"00000\.tar/000000000\.json: .*; expected image_id, a text, and cap"
    ):
        read_back(tmp_path / "out")


def test_archives_of_two_exports_in_one_folder_have_the_same_keys(corpus, tmp_path):
    write_tars(*corpus, tmp_path / "out", 9)
    shutil.copy(tmp_path / "out/00000.tar", tmp_path / "out/copy.tar")
    with pytest.raises(VseppError, match=r"copy\.tar/000000000: .*00000\.tar/000000000 has the same key"):
        read_back(tmp_path / "out")


EXPORT = """
import sys
from pathlib import Path
from vsepp.data.tars import write_tars
corpus, pictures, output = map(Path, sys.argv[1:])
write_tars(corpus, {"images": pictures}, output, 1)
"""


def test_a_killed_export_goes_on_with_the_missing_archives(tmp_path):
    pictures = {f"{number:03d}.png": PICTURES["b.png"] for number in range(500)}
    tables, raw = written(tmp_path, [(name, "train", [f"Picture {name}"]) for name in pictures], pictures)
    write_tars(tables, raw, tmp_path / "whole", 1)
    command = [sys.executable, "-c", EXPORT, *map(str, (tables, raw["images"], tmp_path / "out"))]

    def kept():
        return {path: path.stat().st_ino for path in (tmp_path / ".state").rglob("*.tar")}

    with subprocess.Popen(command) as process:
        wait_until(lambda: len(kept()) > 2, process)
        process.kill()
    before = {path.name: inode for path, inode in kept().items()}
    assert 2 < len(before) < 500 and not (tmp_path / "out").exists()
    subprocess.run(command, check=True)
    after = {path.name: path.stat().st_ino for path in (tmp_path / "out").iterdir()}
    assert before.items() <= after.items()
    assert content(tmp_path / "out") == content(tmp_path / "whole")
