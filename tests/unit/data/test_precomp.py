"""The reader of published features."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from raw_layouts import read, refused, write_precomp, zipped


def folder_of(spec) -> Path:
    return Path(spec.files["folder"])


def test_rows_and_lines_become_images_and_captions(tmp_path):
    images, captions = read(write_precomp(tmp_path))
    assert images["split"].tolist() == ["train"] * 7 + ["val"] * 2 + ["test"] * 3
    assert images["image_id"].tolist()[6:10] == ["train-6", "dev-0", "dev-1", "test-0"]
    assert images["member"].tolist()[6:9] == ["train_ims.npy#6", "dev_ims.npy#0", "dev_ims.npy#1"]
    assert (images["container"] == "").all()
    assert captions["caption_id"].tolist() == list(range(60))
    assert captions["image_index"].tolist() == [row for row in range(12) for _ in range(5)]
    assert captions["text"].iloc[36] == "dev café 0 caption 1"
    assert images.attrs["facts"]["captions"] == {"train": 35, "val": 10, "test": 15}


def test_repeated_rows_give_the_same_captions_and_name_the_first_of_five(tmp_path):
    images, captions = read(write_precomp(tmp_path / "once"))
    repeated, same_captions = read(write_precomp(tmp_path / "five", repeated=("train", "test")))
    pd.testing.assert_frame_equal(same_captions, captions)
    assert repeated["image_id"].tolist() == images["image_id"].tolist()
    members = ["train_ims.npy#25", "train_ims.npy#30", "dev_ims.npy#0", "dev_ims.npy#1", "test_ims.npy#0"]
    assert repeated["member"].tolist()[5:11] == [*members, "test_ims.npy#5"]


def test_a_zip_and_sets_of_vectors_give_the_same_tables(tmp_path):
    spec = write_precomp(tmp_path / "single", repeated=("dev",))
    tables = read(spec)
    for other in (zipped(spec, prefix="data/"), write_precomp(tmp_path / "sets", ("dev",), shape=(4, 6))):
        for frame, expected in zip(read(other), tables, strict=True):
            pd.testing.assert_frame_equal(frame, expected)


# Text of captions → what the message names.
CAPTIONS = {
    "too many": ("dev", "a caption\n" * 11, "dev_ims.npy has 2 rows … dev_caps.txt 11 captions"),
    "as many as rows, but not five of each image": (
        "test",
        "a\nb\nc\n",
        "test_ims.npy has 3 rows … 3 captions",
    ),
    "a blank line": ("dev", "a\n" * 4 + " \n" + "a\n" * 5, "dev_caps.txt … 5"),
}


@pytest.mark.parametrize("case", CAPTIONS)
def test_captions_that_do_not_fit_their_rows_are_refused(tmp_path, case):
    prefix, text, message = CAPTIONS[case]
    spec = write_precomp(tmp_path)
    (folder_of(spec) / f"{prefix}_caps.txt").write_text(text)
    refused(spec, message)


class Hostile:
    def __reduce__(self):
        return (Path.touch, (Path("unpickled"),))


CURE = "numpy.ascontiguousarray(rows, 'float32')"
ARRAYS = {
    "float64": (np.ones((7, 6)), f"float64 (7, 6) … {CURE}"),
    "by columns": (np.asfortranarray(np.ones((7, 6), np.float32)), CURE),
    "one dimension": (np.ones(7, np.float32), "float32 (7,)"),
    "no vectors": (np.ones((7, 0, 6), np.float32), "float32 (7, 0, 6)"),
    "objects": (np.array([[Hostile()]], object), "object"),
    "another dimension": (np.ones((7, 9), np.float32), "train_ims.npy has 9 … dev_ims.npy has 6"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_of_another_form_are_refused_and_never_unpickled(tmp_path, case, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array, message = ARRAYS[case]
    spec = write_precomp(tmp_path)
    np.save(folder_of(spec) / "train_ims.npy", array, allow_pickle=True)
    refused(spec, "train_ims.npy", message)
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"\x80\x04]\x94.", "a pickle"),
        (lambda data: data[:-1], "expected 176 bytes for float32 (2, 6), found 175"),
        (lambda data: data + b"x", "found 177"),
    ],
)
def test_a_damaged_file_of_features_is_named(tmp_path, damage, message):
    spec = write_precomp(tmp_path)
    path = folder_of(spec) / "dev_ims.npy"
    path.write_bytes(damage(path.read_bytes()))
    refused(spec, f"{path}: ", message)


def test_testall_is_the_test_split_where_it_is_there(tmp_path):
    spec = write_precomp(tmp_path, testall=4)
    images, captions = read(spec)
    assert images["member"].tolist()[9:] == [f"testall_ims.npy#{row}" for row in range(4)]
    assert images["image_id"].tolist()[9] == "testall-0" and images["split"].tolist()[9:] == ["test"] * 4
    assert captions["text"].iloc[45] == "testall café 0 caption 0"
    # The files of `test`, its first images, need not be there.
    for kind in ("ims.npy", "caps.txt"):
        (folder_of(spec) / f"test_{kind}").unlink()
    pd.testing.assert_frame_equal(read(spec)[1], captions)


IDS = {"train": range(100, 107), "dev": (7, 5), "test": (391, 9, 12)}


def with_ids(root, per_caption=(), **changes):
    spec = write_precomp(root, repeated=("test",))
    for prefix, ids in {**IDS, **changes}.items():
        lines = np.repeat(ids, 5 if prefix in per_caption else 1)
        (folder_of(spec) / f"{prefix}_ids.txt").write_text("".join(f"{line}\n" for line in lines))
    return spec


@pytest.mark.parametrize("per_caption", [(), ("train", "test"), ("dev",)])
def test_a_file_of_ids_names_the_images_once_an_image_or_once_a_caption(tmp_path, per_caption):
    images, captions = read(with_ids(tmp_path, per_caption))
    assert images["image_id"].tolist() == [str(number) for ids in IDS.values() for number in ids]
    without, same_captions = read(write_precomp(tmp_path / "without", repeated=("test",)))
    pd.testing.assert_frame_equal(
        images.drop(columns="image_id"), without.drop(columns="image_id"), check_names=False
    )
    pd.testing.assert_frame_equal(captions, same_captions)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": range(6)}, "train_ids.txt has 6 ids"),
        ({"dev": [1, 1, 1, 1, 1, 2, 2, 2, 3, 2]}, "dev_ids.txt: line 9: … '3' … '2'"),
        ({"dev": ["", 3]}, "dev_ids.txt: line 1: "),
        ({"test": [391, 9, 105]}, "test_ids.txt: line 3: … '105' … train_ids.txt: line 6"),
    ],
)
def test_ids_that_do_not_fit_are_refused(tmp_path, changes, message):
    refused(with_ids(tmp_path, **changes), message)
