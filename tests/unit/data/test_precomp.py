"""The reader of published features."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from raw_layouts import paths, read, refused, write_precomp, zipped

from vsepp.base.errors import VseppError
from vsepp.base.spec import StoreSpec
from vsepp.data.decode import build_store


def folder_of(spec) -> Path:
    return Path(spec.files["folder"])


def test_rows_and_lines_become_images_and_captions(tmp_path):
    images, captions = read(write_precomp(tmp_path))
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
    images, captions = read(write_precomp(tmp_path / "once"))
    again, captions_again = read(write_precomp(tmp_path / "five", repeated=("train", "test")))
    pd.testing.assert_frame_equal(captions_again, captions)
    assert again["image_id"].tolist() == images["image_id"].tolist()
    first = ["train_ims.npy#25", "train_ims.npy#30", "dev_ims.npy#0", "dev_ims.npy#1", "test_ims.npy#0"]
    assert again["member"].tolist()[5:11] == [*first, "test_ims.npy#5"]


def test_a_zip_of_the_folder_gives_the_same_tables(tmp_path):
    spec = write_precomp(tmp_path, repeated=("dev",))
    for one, other in zip(read(zipped(spec, prefix="data/")), read(spec), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_a_missing_file_is_named(tmp_path):
    spec = write_precomp(tmp_path)
    (folder_of(spec) / "dev_caps.txt").unlink()
    refused(spec, spec.files["folder"], "dev_caps.txt")
    refused(zipped(spec), "dev_caps.txt")


@pytest.mark.parametrize(
    ("prefix", "text", "said"),
    [
        ("dev", "a caption\n" * 11, ["dev_ims.npy has 2 rows", "dev_caps.txt 11 captions"]),
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
    "float64": (np.ones((7, 6)), "float64 (7, 6)"),
    "one dimension": (np.ones(7, np.float32), "float32 (7,)"),
    "no vectors": (np.ones((7, 0, 6), np.float32), "float32 (7, 0, 6)"),
    "by columns": (np.asfortranarray(np.ones((7, 6), np.float32)), ""),
    "objects": (np.array([[Hostile()]], object), "object"),
}


@pytest.mark.parametrize("case", OTHER_ARRAYS)
def test_arrays_of_another_form_are_refused_and_never_unpickled(tmp_path, case, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array, part = OTHER_ARRAYS[case]
    spec = write_precomp(tmp_path)
    path = folder_of(spec) / "train_ims.npy"
    np.save(path, array, allow_pickle=True)
    refused(spec, f"{path}: ", part)
    path.write_bytes(pickle.dumps(array))
    refused(spec, f"{path}: ")
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"", "empty"), (b"\x80\x04]\x94.", "a pickle"), (b"PK\x03\x04" + bytes(60), "a zip archive")],
)
def test_a_file_of_features_that_is_another_one_is_named(tmp_path, data, said):
    spec = write_precomp(tmp_path)
    (folder_of(spec) / "dev_ims.npy").write_bytes(data)
    refused(spec, f"dev_ims.npy: is {said}")


def test_the_cure_for_features_is_one_that_cures(tmp_path):
    spec = write_precomp(tmp_path)
    path = folder_of(spec) / "dev_ims.npy"
    rows, cure = np.load(path), "numpy.ascontiguousarray(rows, 'float32')"
    for other in (np.asfortranarray(rows), rows.astype(">f8")):
        np.save(path, other)
        refused(spec, "dev_ims.npy", cure)
        np.save(path, np.ascontiguousarray(np.load(path), "float32"))
        assert len(read(spec)[0]) == 12
    np.save(path, rows.ravel())
    assert cure not in refused(spec, "dev_ims.npy")


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
    np.save(folder_of(spec) / "dev_ims.npy", np.ones((2, 3, 6), np.float32))
    refused(spec, "must have one shape … train_ims.npy has 6, … dev_ims.npy has 3 × 6, … test_ims.npy has 6;")


def test_sets_of_vectors_give_the_tables_of_single_vectors(tmp_path):
    alone = read(write_precomp(tmp_path / "alone", repeated=("dev",)))
    sets = read(write_precomp(tmp_path / "sets", repeated=("dev",), shape=(4, 6)))
    for one, other in zip(sets, alone, strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_testall_is_the_test_split_where_it_is_there(tmp_path):
    spec = write_precomp(tmp_path, testall=4)
    images, captions = read(spec)
    assert images["member"].tolist()[9:] == [f"testall_ims.npy#{row}" for row in range(4)]
    assert images["image_id"].tolist()[9] == "testall-0"
    assert images["split"].tolist()[9:] == ["test"] * 4
    assert captions["text"].iloc[45] == "testall café 0 caption 0"
    # The first ones of it, which some folders have beside it, need not be there.
    for kind in ("ims.npy", "caps.txt"):
        (folder_of(spec) / f"test_{kind}").unlink()
    pd.testing.assert_frame_equal(read(spec)[1], captions)
    (folder_of(spec) / "testall_caps.txt").unlink()
    refused(spec, "testall_caps.txt")


IDS = {"train": range(100, 107), "dev": (7, 5), "test": (391, 9, 12)}


def with_ids(root, per_caption=(), **changed):
    spec = write_precomp(root, repeated=("test",))
    for prefix, ids in {**IDS, **changed}.items():
        lines = np.repeat(ids, 5 if prefix in per_caption else 1)
        (folder_of(spec) / f"{prefix}_ids.txt").write_text("".join(f"{one}\n" for one in lines))
    return spec


@pytest.mark.parametrize("per_caption", [(), ("train", "test"), ("dev",)])
def test_ids_of_a_file_are_the_images_ids_whether_one_an_image_or_one_a_caption(tmp_path, per_caption):
    images, captions = read(with_ids(tmp_path, per_caption))
    assert images["image_id"].tolist() == [str(one) for ids in IDS.values() for one in ids]
    without, same_captions = read(write_precomp(tmp_path / "without", repeated=("test",)))
    pd.testing.assert_frame_equal(
        images.drop(columns="image_id"), without.drop(columns="image_id"), check_names=False
    )
    pd.testing.assert_frame_equal(captions, same_captions)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"train": range(6)}, "train_ids.txt has 6 ids"),
        ({"dev": [1, 1, 1, 1, 1, 2, 2, 2, 3, 2]}, "dev_ids.txt: line 9: … '3' … '2'"),
        ({"dev": ["", 3]}, "dev_ids.txt: line 1: "),
        ({"test": [391, 9, 391]}, "test_ids.txt: line 3: … '391' … test_ids.txt: line 1"),
        ({"test": [391, 9, 105]}, "test_ids.txt: line 3: … '105' … train_ids.txt: line 6"),
    ],
)
def test_ids_that_do_not_match_are_refused(tmp_path, changed, said):
    refused(with_ids(tmp_path, **changed), said)


def test_there_is_nothing_to_decode(tmp_path):
    spec = write_precomp(tmp_path)
    images, _ = read(spec)
    with pytest.raises(VseppError, match=r"f30k_precomp: has features but no photographs.*precomputed"):
        build_store(
            images, spec, paths(spec), StoreSpec("squash", 16), tmp_path / "out", tmp_path / "state", 1
        )


def test_a_blank_line_among_captions_is_named(tmp_path):
    spec = write_precomp(tmp_path)
    path = Path(spec.files["folder"]) / "dev_caps.txt"
    lines = path.read_text(encoding="utf-8").split("\n")
    for place in (4, len(lines) - 1):
        path.write_text("\n".join([*lines[:place], " ", *lines[place:]]), encoding="utf-8")
        refused(spec, f"dev_caps.txt: blank lines: {place + 1}")
