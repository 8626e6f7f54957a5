"""Published features in place of computed ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from raw_layouts import PRECOMP_SIZES, precomp_features, write_karpathy, write_precomp

from vsepp.data.corpora import read_corpus
from vsepp.errors import VseppError
from vsepp.features.extract import CachedFeatures
from vsepp.features.precomputed import import_precomputed

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
    assert facts == {"images": COUNT, "dim": 6}


def test_a_rehearsal_takes_the_first_rows_and_none_of_images_that_are_left_out(spec, tmp_path):
    imported(replace(spec, first_images={"train": 3, "test": 1}, leave_out=("train-1",)), tmp_path)
    np.testing.assert_array_equal(features_in(tmp_path), EXPECTED[[0, 2, 3, 7, 8, 9]])


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


def test_a_table_of_other_files_is_refused(spec, tmp_path):
    images, _ = read_corpus(spec)
    with pytest.raises(VseppError, match=r"train_ims\.npy: has 7 rows, but the images table names row 34"):
        imported(write_precomp(tmp_path / "other"), tmp_path, images)


def test_a_corpus_of_photographs_is_refused(tmp_path):
    with pytest.raises(VseppError, match="reader karpathy has no published features"):
        imported(write_karpathy(tmp_path / "raw"), tmp_path)


def test_five_rows_that_differ_are_named_with_their_file(tmp_path):
    spec = write_precomp(tmp_path, repeated=("train", "test"))
    path = Path(spec.files["folder"]) / "test_ims.npy"
    rows = np.load(path)
    rows[7, 2] = np.nextafter(rows[7, 2], np.float32(2))
    rows[14] = 0
    np.save(path, rows)
    with pytest.raises(VseppError, match=rf"{path}: .*\(2 in all\): row 5 and those after it; row 10 and"):
        imported(spec, tmp_path)
