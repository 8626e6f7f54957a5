"""Pictures of one's own with a CSV of captions."""

import csv
from dataclasses import replace

import pytest
from PIL import Image
from raw_layouts import read, refused

from vsepp.base.spec import Component, CorpusSpec


def corpus(folder, text, pictures=("a.jpg", "b.png", "more/c.jpg")):
    for name in pictures:
        path = folder / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 7)).save(path)
    (folder / "list.csv").write_text(text, encoding="utf-8")
    files = {"images": str(folder / "pictures"), "captions": str(folder / "list.csv")}
    return CorpusSpec(name="mine", reader=Component("captions_csv"), files=files)


def test_captions_may_hold_commas_quotes_and_line_ends_and_images_keep_their_order(tmp_path):
    text = 'image,caption,split\nb.png,"A dog, two cats",train\nmore/c.jpg,"Said ""no""\non two lines",test\nb.png,Again,train\na.jpg,Again,val\n'
    images, captions = read(corpus(tmp_path, text))
    assert images[["image_id", "split"]].values.tolist() == [["b", "train"], ["more/c", "test"], ["a", "val"]]
    assert captions["image_index"].tolist() == [0, 0, 1, 2]
    assert captions["caption_id"].tolist() == [1, 3, 2, 4]
    assert captions["text"].tolist() == ["A dog, two cats", "Again", 'Said "no" on two lines', "Again"]


def test_without_a_column_of_splits_a_picture_keeps_its_split_when_others_are_added(tmp_path):
    names = [f"{number}.jpg" for number in range(200)]
    rows = [f"{name},Something" for name in names]
    few, _ = read(corpus(tmp_path / "few", "\n".join(["image,caption", *rows[:100]]), names[:100]))
    many, _ = read(corpus(tmp_path / "many", "\n".join(["image,caption", *rows[::-1]]), names))
    splits = dict(zip(many["file_name"], many["split"], strict=True))
    assert all(splits[name] == split for name, split in zip(few["file_name"], few["split"], strict=True))
    counts = many["split"].value_counts()
    assert 8 <= counts["test"] <= 35 and 8 <= counts["val"] <= 35 and counts["train"] > 130


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,words\na.jpg,A dog\n", "caption"),
        ("image,caption,caption\na.jpg,A dog,A cat\n", "caption"),
        ("image,caption\n,A dog\n", "row 1"),
        ("image,caption\na.jpg,A dog\nb.png\n", "row 2"),
        ("image,caption,split\na.jpg,A dog,dev\n", "row 1 … 'dev'"),
        ("image,caption,split\na.jpg,A,train\na.jpg,B,test\n", "row 2: a.jpg … test"),
        ('image,caption\na.jpg,"A dog\n', "row 1"),
    ],
)
def test_a_fault_is_named_with_its_row(tmp_path, text, message):
    refused(corpus(tmp_path, text), "list.csv: ", message)


def test_a_caption_may_be_longer_than_pythons_own_limit_of_a_cell(tmp_path):
    limit = csv.field_size_limit()
    _, captions = read(corpus(tmp_path, f"image,caption\na.jpg,{'dog ' * 50_000}cat\n"))
    assert len(captions["text"][0]) == 200_003
    assert csv.field_size_limit() == limit


def test_files_that_share_a_stem_or_a_base_name_are_different_images(tmp_path):
    text = "image,caption,split\na.jpg,A,train\na.png,B,test\nmore/b.jpg,C,val\nb.jpg,D,train\n"
    images, _ = read(corpus(tmp_path, text, ("a.jpg", "a.png", "more/b.jpg", "b.jpg")))
    assert images["image_id"].tolist() == ["a.jpg", "a.png", "more/b", "b"]
    assert images["member"].tolist() == ["a.jpg", "a.png", "more/b.jpg", "b.jpg"]


def test_rows_of_another_folder_and_two_rows_of_one_file_are_refused(tmp_path):
    refused(corpus(tmp_path / "a", "image,caption\ndogs/1.jpg,A\n", ("cats/1.jpg",)), "dogs/1.jpg")
    text = "image,caption,split\ncats/1.jpg,A,train\n1.jpg,B,test\n"
    refused(corpus(tmp_path / "b", text, ("cats/1.jpg",)), "row 2: … 1.jpg … row 1")


def test_an_image_that_loses_a_caption_is_left_out_with_its_others(tmp_path, caplog):
    names = [f"{number}.jpg" for number in range(60)]
    rows = "".join(f"{name},A dog\n{name},{'A cat' if name != '7.jpg' else ''}\n" for name in names)
    spec = replace(corpus(tmp_path, f"image,caption\n{rows}", names), captions_per_image=2)
    images, captions = read(spec)
    assert (len(images), len(captions), images.attrs["facts"]["unusable"]) == (59, 118, 2)
    assert "7.jpg" in caplog.text and "2 of 120" in caplog.text
    few = corpus(tmp_path / "few", "image,caption\na.jpg,A\na.jpg,\nb.png,A\nb.png,B\n")
    refused(replace(few, captions_per_image=2), "2 of 4")
