"""The reader of published features."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from raw_layouts import refused, write_precomp, zipped

from vsepp.data.corpora import read_corpus
from vsepp.data.store import build_store
from vsepp.errors import VseppError
from vsepp.spec import StoreSpec


def folder_of(spec) -> Path:
    return Path(spec.files["folder"])


def test_rows_and_lines_become_images_and_captions(tmp_path):
    images, captions = read_corpus(write_precomp(tmp_path))
    assert images["split"].tolist() == ["train"] * 7 + ["val"] * 2 + ["test"] * 3
    assert images["image_id"].tolist()[:2] == ["train-0", "train-1"]
    assert images["image_id"].tolist()[7:10] == ["dev-0", "dev-1", "test-0"]
    assert images["member"].tolist()[6:9] == ["train_ims.npy#6", "dev_ims.npy#0", "dev_ims.npy#1"]
    assert (images["container"] == "").all()
    assert captions["caption_id"].tolist() == list(range(60))
    assert captions["image_index"].tolist() == [row for row in range(12) for _ in range(5)]
    assert captions["text"].iloc[36] == "dev café 0 caption 1"
    assert images.attrs["facts"]["captions"] == {"train": 35, "val": 10, "test": 15}


def test_repeated_rows_give_the_same_captions_and_name_the_first_of_five(tmp_path):
    images, captions = read_corpus(write_precomp(tmp_path / "once"))
    again, captions_again = read_corpus(write_precomp(tmp_path / "five", repeated=("train", "test")))
    pd.testing.assert_frame_equal(captions_again, captions)
    assert again["image_id"].tolist() == images["image_id"].tolist()
    first = ["train_ims.npy#25", "train_ims.npy#30", "dev_ims.npy#0", "dev_ims.npy#1", "test_ims.npy#0"]
    assert again["member"].tolist()[5:11] == [*first, "test_ims.npy#5"]


def test_a_zip_of_the_folder_gives_the_same_tables(tmp_path):
    spec = write_precomp(tmp_path, repeated=("dev",))
    for one, other in zip(read_corpus(zipped(spec, prefix="data/")), read_corpus(spec), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_all_missing_files_are_listed(tmp_path):
    spec = write_precomp(tmp_path)
    for name in ("dev_ims.npy", "dev_caps.txt", "test_caps.txt"):
        (folder_of(spec) / name).unlink()
    refused(spec, "(3 in all): dev_ims.npy; dev_caps.txt; test_caps.txt", spec.files["folder"])
    refused(zipped(spec), "(3 in all): dev_ims.npy; dev_caps.txt; test_caps.txt")


@pytest.mark.parametrize(
    ("prefix", "text", "said"),
    [
        ("train", "a caption\n" * 34, ["train_ims.npy has 7 rows and ", "train_caps.txt 34 captions"]),
        ("train", "", ["train_ims.npy has 7 rows and ", "train_caps.txt 0 captions"]),
        # As many as rows, but not five of each image.
        ("test", "a\nb\nc\n", ["test_ims.npy has 3 rows", "3 captions"]),
    ],
)
def test_counts_that_do_not_fit_name_both_files_and_both_counts(tmp_path, prefix, text, said):
    spec = write_precomp(tmp_path)
    (folder_of(spec) / f"{prefix}_caps.txt").write_text(text)
    refused(spec, *said)


class Hostile:
    def __reduce__(self):
        return (Path.touch, (Path("unpickled"),))


OTHER_ARRAYS = {
    "float64": (np.ones((7, 6)), "found float64 (7, 6)"),
    "three dimensions": (np.ones((7, 1, 6), np.float32), "found float32 (7, 1, 6)"),
    "by columns": (np.asfortranarray(np.ones((7, 6), np.float32)), "column by column"),
    "big-endian": (np.ones((7, 6), ">f4"), "found >f4 (7, 6)"),
    "objects": (np.array([[Hostile()]], object), "no Python objects, found object"),
}


@pytest.mark.parametrize("case", OTHER_ARRAYS)
def test_arrays_of_another_form_are_refused_and_never_unpickled(tmp_path, case, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array, part = OTHER_ARRAYS[case]
    spec = write_precomp(tmp_path)
    path = folder_of(spec) / "train_ims.npy"
    np.save(path, array, allow_pickle=True)
    refused(spec, f"{path}: expected", part)
    path.write_bytes(pickle.dumps(array))
    refused(spec, f"{path}: it is damaged", "a .npy file")
    assert not (tmp_path / "unpickled").exists()


def test_arrays_of_another_dimension_or_size_than_they_should_have_are_refused(tmp_path):
    spec = write_precomp(tmp_path)
    path = folder_of(spec) / "train_ims.npy"
    data = path.read_bytes()
    for change, damaged in ((-1, data[:-1]), (1, data + b"x")):
        path.write_bytes(damaged)
        refused(spec, f"{path}: expected {len(data)} bytes for float32 (7, 6), found {len(data) + change}")
    path.write_bytes(data)
    np.save(folder_of(spec) / "dev_ims.npy", np.ones((2, 7), np.float32))
    refused(spec, "train_ims.npy has 6", "dev_ims.npy has 7", "test_ims.npy has 6")


def test_there_is_nothing_to_decode(tmp_path):
    spec = write_precomp(tmp_path)
    images, _ = read_corpus(spec)
    with pytest.raises(VseppError, match=r"f30k_precomp: has features but no photographs.*precomputed"):
        build_store(images, spec, StoreSpec("squash", 16), tmp_path / "out", tmp_path / "state", 1)
