"""Pictures of one's own with a CSV of captions."""

import csv
from dataclasses import replace

import pytest
from PIL import Image
from raw_layouts import paths, read

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component, CorpusSpec
from vsepp.data.corpus import make_tables


def corpus(folder, text, pictures=("a.jpg", "b.png", "more/c.jpg")):
    for name in pictures:
        path = folder / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 7)).save(path)
    (folder / "list.csv").write_text(text, encoding="utf-8")
    files = {"images": str(folder / "pictures"), "captions": str(folder / "list.csv")}
    return CorpusSpec(name="mine", reader=Component("captions_csv"), files=files)


def test_captions_may_hold_commas_quotes_and_line_ends_and_images_keep_their_order(tmp_path):
    text = 'image,caption,split\nb.png,"A dog, two cats",train\nmore/c.jpg,"Said ""no""\non two lines",test\nb.png,Again,train\na.jpg,Alone,val\n'
    images, captions = read(corpus(tmp_path, text))
    assert images[["image_id", "split"]].values.tolist() == [["b", "train"], ["more/c", "test"], ["a", "val"]]
    assert captions["image_index"].tolist() == [0, 0, 1, 2]
    assert captions["caption_id"].tolist() == [1, 3, 2, 4]
    assert captions["text"].tolist() == ["A dog, two cats", "Again", 'Said "no" on two lines', "Alone"]


def test_too_few_test_images_for_the_folds_of_an_evaluation_are_refused(tmp_path):
    spec = corpus(tmp_path, "image,caption,split\na.jpg,A,test\nb.png,B,test\nmore/c.jpg,C,train\n")
    assert make_tables(spec, paths(spec), tmp_path / "out", 2)["images"] == {"test": 2, "train": 1}
    with pytest.raises(VseppError, match=r"corpus mine: .*2 test images.* 3; .*fold_size"):
        make_tables(spec, paths(spec), tmp_path / "out", 3)


def test_without_a_column_of_splits_a_picture_stays_in_its_own_when_others_are_added(tmp_path):
    names = [f"{number}.jpg" for number in range(200)]
    rows = [f"{name},Something" for name in names]
    few, _ = read(corpus(tmp_path / "few", "\n".join(["image,caption", *rows[:100]]), names[:100]))
    many, _ = read(corpus(tmp_path / "many", "\n".join(["image,caption", *rows[::-1]]), names))
    assert (
        dict(zip(few["file_name"], few["split"], strict=True)).items()
        <= dict(zip(many["file_name"], many["split"], strict=True)).items()
    )
    counts = many["split"].value_counts()
    assert 8 <= counts["test"] <= 35 and 8 <= counts["val"] <= 35 and counts["train"] > 130


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("image,words\na.jpg,A dog\n", "caption"),
        ("image,caption,caption\na.jpg,A dog,A cat\n", "caption"),
        ("image,caption\n,A dog\n", "row 1"),
        ("image,caption\na.jpg,A dog\nb.png\n", "row 2"),
        ("image,caption\na.jpg,A dog, a cat\n", "row 1"),
        ("image,caption,split\na.jpg,A dog,dev\n", "row 1: got split 'dev'"),
        (
            "image,caption,split\na.jpg,A,train\na.jpg,B,test\n",
            "row 2: a.jpg is in test",
        ),
        ('image,caption\na.jpg,"A dog\n', "row 1"),
        ("image,caption\na.jpg, \n", "row 1"),
        ("image,caption\n.,A dog\n", "row 1"),
    ],
)
def test_bad_rows_are_named(tmp_path, text, said):
    with pytest.raises(VseppError) as caught:
        read(corpus(tmp_path, text))
    assert "list.csv: " in str(caught.value) and said in str(caught.value)


def test_a_caption_may_be_longer_than_pythons_own_limit_of_a_cell(tmp_path):
    before = csv.field_size_limit()
    _, captions = read(corpus(tmp_path, f"image,caption\na.jpg,{'dog ' * 50_000}cat\n"))
    assert len(captions["text"][0]) == 200_003
    with pytest.raises(VseppError):
        read(corpus(tmp_path / "other", "image,caption\na.jpg\n"))
    assert csv.field_size_limit() == before


def test_equal_captions_and_files_of_one_base_name_are_used(tmp_path):
    text = "image,caption\na.jpg,A dog\nmore/a.jpg,A dog\na.jpg,A dog\nb.png,A cat\n"
    images, captions = read(corpus(tmp_path, text, ("a.jpg", "more/a.jpg", "b.png")))
    assert (len(images), len(captions)) == (3, 4)


def test_files_that_share_a_stem_or_a_base_name_are_different_images(tmp_path):
    text = "image,caption,split\na.jpg,A,train\na.png,B,test\nmore/b.jpg,C,val\nb.jpg,D,train\n"
    images, _ = read(corpus(tmp_path, text, ("a.jpg", "a.png", "more/b.jpg", "b.jpg")))
    assert images["image_id"].tolist() == ["a.jpg", "a.png", "more/b", "b"]
    assert images["member"].tolist() == ["a.jpg", "a.png", "more/b.jpg", "b.jpg"]


def test_rows_of_another_folder_and_two_rows_of_one_file_are_refused(tmp_path):
    with pytest.raises(VseppError, match=r"dogs/1\.jpg"):
        read(corpus(tmp_path / "a", "image,caption\ndogs/1.jpg,A\n", ("cats/1.jpg",)))
    text = "image,caption,split\ncats/1.jpg,A,train\n1.jpg,B,test\n"
    with pytest.raises(VseppError, match=r"row 2: .*1\.jpg.*same file.*row 1"):
        read(corpus(tmp_path / "b", text, ("cats/1.jpg",)))


def test_options_that_no_reader_has_are_refused(tmp_path):
    spec = replace(corpus(tmp_path, "image,caption\na.jpg,A\n"), reader=Component("captions_csv", {"foo": 1}))
    with pytest.raises(VseppError, match="foo"):
        read(spec)


def test_an_image_that_loses_a_caption_is_left_out_with_those_that_it_has_besides(tmp_path, caplog):
    names = [f"{k}.jpg" for k in range(60)]
    rows = "".join(f"{name},A dog\n{name},{'A cat' if name != '7.jpg' else ''}\n" for name in names)
    spec = replace(corpus(tmp_path, f"image,caption\n{rows}", names), captions_per_image=2)
    images, captions = read(spec)
    assert (len(images), len(captions), images.attrs["facts"]["unusable"]) == (59, 118, 2)
    assert "7.jpg" in caplog.text and "left out 2 of 120 captions" in caplog.text
    few = corpus(tmp_path / "few", "image,caption\na.jpg,A\na.jpg,\nb.png,A\nb.png,B\n")
    with pytest.raises(VseppError, match=r"2 of 4 captions cannot be used"):
        read(replace(few, captions_per_image=2))
