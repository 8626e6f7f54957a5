"""Published features in place of computed ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from processes import no_room
from raw_layouts import PRECOMP_SIZES, precomp_features, write_karpathy, write_precomp, zipped

from vsepp.data.corpora import read_corpus
from vsepp.errors import VseppError
from vsepp.features.extract import CachedFeatures
from vsepp.features.precomputed import import_precomputed, raw_features

COUNT = sum(PRECOMP_SIZES.values())


@pytest.fixture
def spec(tmp_path):
    return write_precomp(tmp_path, repeated=("train",))


def imported(spec, tmp_path, images=None):
    images = read_corpus(spec)[0] if images is None else images
    return import_precomputed(spec, images, tmp_path / "out")


def features_in(folder):
    return np.load(folder / "out/features.npy")[:, 0]


EXPECTED = np.concatenate([precomp_features(prefix) for prefix in PRECOMP_SIZES])


def test_features_are_the_published_rows_in_the_order_of_the_images_table(spec, tmp_path):
    facts = imported(spec, tmp_path)
    features = CachedFeatures.open(tmp_path / "out")
    np.testing.assert_array_equal(features.rows(np.arange(COUNT)).values, EXPECTED)
    assert np.load(tmp_path / "out/features.npy").shape == (COUNT, 1, 6)
    rows = {"train": 5, "val": 1, "test": 1}
    assert facts == {"images": COUNT, "dim": 6, "rows_per_image": rows, "unit_length": 0.0}
    assert set(raw_features(spec)) == {"train", "dev", "test"}
    imported(zipped(spec), tmp_path / "zip")
    np.testing.assert_array_equal(features_in(tmp_path / "zip"), EXPECTED)
    assert set(raw_features(zipped(spec))) == {"folder"}


def test_rows_of_unit_length_are_counted_and_others_told(spec, tmp_path, caplog):
    path = Path(spec.files["folder"]) / "test_ims.npy"
    rows = np.load(path)
    np.save(path, rows / np.linalg.norm(rows, axis=1, keepdims=True))
    assert imported(spec, tmp_path)["unit_length"] == 3 / COUNT
    assert "25.0 % of the published features have unit length" in caplog.text


def test_a_rehearsal_takes_the_first_rows(spec, tmp_path):
    imported(replace(spec, first_images={"train": 3, "test": 1}), tmp_path)
    np.testing.assert_array_equal(features_in(tmp_path), EXPECTED[[0, 1, 2, 7, 8, 9]])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("prefix", "row"), [("dev", 1), ("train", 15)])
def test_values_that_are_not_finite_are_named_with_file_and_row(spec, tmp_path, value, prefix, row):
    path = Path(spec.files["folder"]) / f"{prefix}_ims.npy"
    rows = np.load(path)
    rows[row : row + (5 if prefix == "train" else 1), 2] = value
    np.save(path, rows)
    with pytest.raises(VseppError, match=rf"{path}: rows that hold NaN .*\(1 in all\): row {row}\."):
        imported(spec, tmp_path)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("repeated", "sizes", "said"),
    [
        (("train",), {"dev": 4}, r"dev_ims\.npy: has 4 rows, but .* needs 2 for its 2 images of val"),
        ((), {}, r"train_ims\.npy: has 7 rows, but .* needs 35"),
        (("train", "dev"), {}, r"dev_ims\.npy: has 10 rows, but .* needs 2 for"),
    ],
)
def test_a_table_of_other_files_is_refused(spec, tmp_path, repeated, sizes, said):
    images, _ = read_corpus(spec)
    with pytest.raises(VseppError, match=said):
        imported(write_precomp(tmp_path / "other", repeated, **sizes), tmp_path, images)


@pytest.mark.parametrize("change", ["order", "split", "shifted", "photograph"])
def test_rows_of_the_table_that_are_not_the_files_rows_are_refused(spec, tmp_path, change):
    images, _ = read_corpus(spec)
    if change == "order":
        images = images.iloc[[0, 2, 1, *range(3, COUNT)]]
    elif change == "split":
        images.loc[0, "split"] = "restval"
    elif change == "shifted":
        images.loc[8, "member"] = "dev_ims.npy#2"
    else:
        images.loc[0, "member"] = "1000268201.jpg"
    with pytest.raises(VseppError, match="images table"):
        imported(spec, tmp_path, images)


def test_a_corpus_of_photographs_is_refused(tmp_path):
    with pytest.raises(VseppError, match="reader karpathy has no published features"):
        imported(write_karpathy(tmp_path / "raw"), tmp_path)


def test_one_image_a_split_is_read(tmp_path):
    spec = write_precomp(tmp_path, ("train",), **dict.fromkeys(PRECOMP_SIZES, 1))
    assert imported(spec, tmp_path)["rows_per_image"] == {"train": 5, "val": 1, "test": 1}
    expected = [precomp_features(prefix, 1)[0] for prefix in PRECOMP_SIZES]
    np.testing.assert_array_equal(features_in(tmp_path), expected)


def test_five_rows_that_differ_are_named_with_their_file(tmp_path):
    spec = write_precomp(tmp_path, repeated=("train", "test"))
    path = Path(spec.files["folder"]) / "test_ims.npy"
    rows = np.load(path)
    rows[7, 2] = np.nextafter(rows[7, 2], np.float32(2))
    rows[14] = 0
    np.save(path, rows)
    with pytest.raises(VseppError, match=rf"{path}: .*\(2 in all\): row 5 and those after it; row 10 and"):
        imported(spec, tmp_path)


def test_a_full_disk_is_said(spec, tmp_path):
    images, _ = read_corpus(spec)
    with no_room(128 + 5 * 24), pytest.raises(VseppError, match="no space for the published features of 12"):
        imported(spec, tmp_path, images)
    assert not list((tmp_path / "out").iterdir())
