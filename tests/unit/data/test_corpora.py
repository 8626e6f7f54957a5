"""What reading a corpus does whatever the layout of its raw files; see `test_readers` for each layout."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_layouts import corpus, read, refused, write_coco, write_flickr8k, write_karpathy, zipped

from vsepp.data.raw import Container

LAYOUTS = {"coco": write_coco, "karpathy": write_karpathy, "flickr8k": write_flickr8k}


@pytest.fixture(params=sorted(LAYOUTS))
def spec(request, tmp_path):
    return LAYOUTS[request.param](tmp_path)


def test_a_zip_gives_the_tables_of_its_folder_at_whichever_depth(spec, capsys):
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
    assert facts["images"] == images["split"].value_counts(sort=False).to_dict()
    assert facts["captions"] == {split: n * spec.captions_per_image for split, n in facts["images"].items()}


def test_photographs_that_the_container_lacks_are_named_and_counted(spec):
    images, _ = read(spec)
    lost = images.iloc[[0, 1]]
    for row in lost.itertuples():
        (Path(spec.files[row.container]) / row.member).unlink()
    first = images.iloc[0]
    of_container = (images["container"] == first["container"]).sum()
    for broken in (spec, zipped(spec)):
        named = str(broken.files[first["container"]]), first["file_name"], first["split"]
        refused(broken, *named, f"2 of {of_container}")


def test_files_that_are_missing_or_not_declared_are_named(spec, tmp_path):
    for role in spec.files:
        refused(replace(spec, files={**spec.files, role: str(tmp_path / "gone" / role)}), f"gone/{role}")


def test_a_split_of_the_wrong_size_is_named_with_what_is_beyond_it(spec):
    images, _ = read(spec)
    sizes = images["split"].value_counts().to_dict()
    read(replace(spec, expected_images=sizes))
    last = images[images["split"] == "train"].iloc[-1]
    refused(
        replace(spec, expected_images={"train": sizes["train"] - 1, "test": sizes["test"] + 4}),
        f"train has {sizes['train']} images, expected {sizes['train'] - 1}; beyond it are {last['image_id']} (",
        last["file_name"],
        f"test has {sizes['test']} images, expected {sizes['test'] + 4}",
    )


def test_the_first_images_of_a_split_are_kept_with_their_captions(spec):
    images, captions = read(spec)
    cut_images, cut_captions = read(replace(spec, first_images={"train": 1, "test": 99}))
    of_train = images.index[images["split"] == "train"].tolist()
    kept = [row for row in images.index if row not in of_train[1:]]
    pd.testing.assert_frame_equal(cut_images, images.loc[kept].reset_index(drop=True))
    expected = captions[captions["image_index"].isin(kept)].reset_index(drop=True)
    same = ["caption_id", "text", "split"]
    pd.testing.assert_frame_equal(cut_captions[same], expected[same])
    assert [kept[row] for row in cut_captions["image_index"]] == expected["image_index"].tolist()
    tests = int((images["split"] == "test").sum())
    facts = cut_images.attrs["facts"]
    assert facts["first_images"] == {
        "train": {"kept": 1, "of": len(of_train)},
        "test": {"kept": tests, "of": tests},
    }
    assert facts["images"]["train"] == 1 and "first_images" not in images.attrs["facts"]


def test_the_first_images_are_taken_after_everything_was_checked(spec):
    images, _ = read(spec)
    sizes = images["split"].value_counts().to_dict()
    cut = replace(spec, first_images={"train": 1}, expected_images=sizes)
    assert len(read(cut)[0]) == len(images) - sizes["train"] + 1
    lost = images[images["split"] == "train"].iloc[-1]
    (Path(spec.files[lost["container"]]) / lost["member"]).unlink()
    refused(cut, lost["file_name"], "1 of")


def test_too_few_captions_are_named_with_the_first_image(spec):
    images, _ = read(spec)
    refused(replace(spec, captions_per_image=7), images["file_name"].iloc[0], "expected 7")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["train", "restval", "val", "test"]),
            st.lists(
                st.text(min_size=1)
                .filter(str.strip)
                .filter(lambda text: "\0" not in text and not set("\r\n") & set(text)),
                min_size=1,
                max_size=4,
            ),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_splits_are_disjoint_and_captions_survive(tmp_path_factory, listed):
    root = tmp_path_factory.mktemp("corpus")
    sentid = iter(range(1000))
    images = []
    for row, (split, texts) in enumerate(listed):
        (root / f"{row}.jpg").write_bytes(b"")
        said = [{"raw": text, "sentid": next(sentid)} for text in texts]
        images.append({"filename": f"{row}.jpg", "split": split, "sentences": said})
    (root / "splits.json").write_text(json.dumps({"images": images}))
    files = {"images": root, "splits": root / "splits.json"}
    images, captions = read(corpus("any", "karpathy", files, captions_per_image=None))
    by_split = [set(part["image_id"]) for _, part in images.groupby("split")]
    assert sum(map(len, by_split)) == len(set().union(*by_split)) == len(listed)
    assert images["split"].tolist() == [split for split, _ in listed]
    assert captions["text"].tolist() == [text for _, texts in listed for text in texts]
    assert captions["image_index"].tolist() == [row for row, (_, texts) in enumerate(listed) for _ in texts]
