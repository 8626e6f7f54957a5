"""Reading a corpus whatever the layout of its raw files; see `test_readers` for each layout."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from raw_layouts import (
    edit_json,
    paths,
    read,
    refused,
    write_coco,
    write_flickr8k,
    write_karpathy,
    zipped,
)

from vsepp.base.errors import VseppError
from vsepp.data.container import Container
from vsepp.data.corpus import make_tables

LAYOUTS = {"coco": write_coco, "karpathy": write_karpathy, "flickr8k": write_flickr8k}


@pytest.fixture(params=LAYOUTS)
def spec(request, tmp_path):
    return LAYOUTS[request.param](tmp_path)


def sizes_of(images):
    return images["split"].value_counts(sort=False).to_dict()


def test_a_zip_gives_the_tables_of_its_folder_at_any_depth(spec, capsys):
    images, captions = read(spec)
    for prefix in ("", "release/"):
        of_zip, captions_of_zip = read(zipped(spec, prefix=prefix))
        pd.testing.assert_frame_equal(captions_of_zip, captions)
        pd.testing.assert_frame_equal(of_zip, images.assign(member=prefix + images["member"]))
    assert capsys.readouterr().out == ""


def test_rows_point_at_each_other_and_at_their_photograph(spec):
    images, captions = read(spec)
    for row in images.itertuples():
        (path,) = Path(spec.files[row.container]).rglob(row.file_name)
        assert Container(spec.files[row.container]).read(row.member) == path.read_bytes()
    assert captions["caption_id"].dtype == np.int64 and captions["image_index"].dtype == np.int32
    assert captions["caption_id"].is_unique and images["image_id"].is_unique
    assert captions["split"].tolist() == images["split"].iloc[captions["image_index"]].tolist()
    assert (captions["image_index"].value_counts() == spec.captions_per_image).all()
    facts = images.attrs["facts"]
    assert facts["images"] == sizes_of(images)
    assert facts["captions"] == {split: n * spec.captions_per_image for split, n in facts["images"].items()}


def test_missing_photographs_are_named_and_counted(spec):
    images, _ = read(spec)
    for row in images.iloc[[0, 1]].itertuples():
        (Path(spec.files[row.container]) / row.member).unlink()
    first = images.iloc[0]
    count = (images["container"] == first["container"]).sum()
    for source in (spec, zipped(spec)):
        folder = str(source.files[first["container"]])
        refused(source, folder, first["file_name"], first["split"], f"2 of {count}")


def test_a_split_of_the_wrong_size_is_named_with_the_images_beyond_it(spec):
    images, _ = read(spec)
    sizes = sizes_of(images)
    read(replace(spec, expected_images=sizes))
    last = images[images["split"] == "train"].iloc[-1]
    wrong = {"train": sizes["train"] - 1, "test": sizes["test"] + 4}
    message = refused(replace(spec, expected_images=wrong), last["image_id"], last["file_name"])
    for split, count in wrong.items():
        assert f"{split} has {sizes[split]} images, expected {count}" in message


def test_the_first_images_of_a_split_are_kept_with_their_captions_once_everything_was_checked(spec):
    images, captions = read(spec)
    first = {"train": 1, "test": 99}
    cut = replace(spec, first_images=first, expected_images=sizes_of(images))
    cut_images, cut_captions = read(cut)
    train = images.index[images["split"] == "train"].tolist()
    rows = [row for row in images.index if row not in train[1:]]
    pd.testing.assert_frame_equal(cut_images, images.loc[rows].reset_index(drop=True))
    expected = captions[captions["image_index"].isin(rows)].reset_index(drop=True)
    columns = ["caption_id", "text", "split"]
    pd.testing.assert_frame_equal(cut_captions[columns], expected[columns])
    assert [rows[row] for row in cut_captions["image_index"]] == expected["image_index"].tolist()
    tests = sizes_of(images)["test"]
    facts = {"train": {"kept": 1, "of": len(train)}, "test": {"kept": tests, "of": tests}}
    assert cut_images.attrs["facts"]["first_images"] == facts
    lost = images.loc[train[-1]]
    (Path(spec.files[lost["container"]]) / lost["member"]).unlink()
    refused(cut, lost["file_name"], "1 of")


def test_too_few_test_images_for_the_folds_of_an_evaluation_are_refused(tmp_path):
    spec = write_karpathy(tmp_path / "raw")
    facts = make_tables(spec, paths(spec), tmp_path / "out", 2)
    assert facts["images"] == {"train": 2, "val": 1, "test": 2}
    with pytest.raises(VseppError, match=r"flickr30k: .*2 test images.* 3"):
        make_tables(spec, paths(spec), tmp_path / "out", 3)


def test_images_that_are_left_out_are_counted_and_not_checked(tmp_path):
    spec = replace(write_karpathy(tmp_path), captions_per_image=None)
    edit_json(spec.files["splits"], lambda d: d["images"][4]["sentences"][0].update(raw=""))
    refused(spec, "sentid 8")
    (tmp_path / "images" / "e.jpg").unlink()
    images, captions = read(replace(spec, leave_out=("e",)))
    assert images["image_id"].tolist() == ["b", "d", "a", "c"] and len(captions) == 8
    assert images.attrs["facts"]["left_out"] == 1
    refused(replace(spec, leave_out=("nobody",)), "leave_out", "nobody")
