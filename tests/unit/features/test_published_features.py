"""Published features in place of computed ones."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import no_room
from raw_layouts import PRECOMP_SIZES, paths, precomp_features, read, write_karpathy, write_precomp, zipped

from vsepp.base.errors import VseppError
from vsepp.data.arrays import open_rows
from vsepp.features import published
from vsepp.features.images import Features
from vsepp.features.published import import_precomputed, raw_features

SPLITS = {"train": "train", "dev": "val", "test": "test"}
COUNT = sum(PRECOMP_SIZES.values())


@pytest.fixture
def spec(tmp_path):
    return write_precomp(tmp_path, repeated=("train",))


def imported(spec, tmp_path, images=None):
    images = read(spec)[0] if images is None else images
    return import_precomputed(spec, images, paths(spec), tmp_path / "out")


def features_in(folder):
    return np.load(folder / "out/features.npy")[:, 0]


EXPECTED = np.concatenate([precomp_features(prefix) for prefix in PRECOMP_SIZES])


def test_features_are_the_published_rows_in_the_order_of_the_images_table(spec, tmp_path):
    facts = imported(spec, tmp_path)
    features = Features(open_rows(tmp_path / "out/features.npy", np.float32, (1, 6), COUNT), sets=False)
    np.testing.assert_array_equal(features.eval(np.arange(COUNT)).values, EXPECTED)
    assert np.load(tmp_path / "out/features.npy").shape == (COUNT, 1, 6)
    rows = {"train": 5, "val": 1, "test": 1}
    assert facts == {
        "images": COUNT,
        "vectors": 1,
        "dim": 6,
        "rows_per_image": rows,
        "unit_length": 0.0,
    }
    assert set(raw_features(spec, spec.files)) == {"train", "dev", "test"}
    imported(zipped(spec), tmp_path / "zip")
    np.testing.assert_array_equal(features_in(tmp_path / "zip"), EXPECTED)
    assert set(raw_features(zipped(spec), zipped(spec).files)) == {"folder"}


@pytest.mark.parametrize("repeated", [(), ("dev",), ("train", "dev", "test")])
@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("block", [1, 5 * 4 * 3 * 6 * 2, published.BLOCK_BYTES])
def test_sets_are_the_published_rows_whatever_is_read_at_a_time(
    tmp_path, repeated, archive, block, monkeypatch, caplog
):
    monkeypatch.setattr(published, "BLOCK_BYTES", block)
    spec = write_precomp(tmp_path, repeated, shape=(3, 6))
    facts = imported(zipped(spec) if archive else spec, tmp_path)
    rows = {split: 5 if prefix in repeated else 1 for prefix, split in SPLITS.items()}
    assert facts == {"images": COUNT, "vectors": 3, "dim": 6, "rows_per_image": rows}
    features = Features(open_rows(tmp_path / "out/features.npy", np.float32, (3, 6), COUNT), sets=True)
    expected = np.concatenate([precomp_features(prefix, shape=(3, 6)) for prefix in SPLITS])
    found = features.eval(np.arange(COUNT))
    np.testing.assert_array_equal(found.values, expected)
    assert found.lengths.tolist() == [3] * COUNT
    assert isinstance(features.values, np.memmap) and not caplog.records


@settings(max_examples=40, deadline=None)
@given(
    counts=st.tuples(*[st.integers(1, 6)] * 3),
    repeated=st.sets(st.sampled_from(("train", "dev", "testall"))),
    shape=st.one_of(st.tuples(st.integers(1, 4)), st.tuples(st.integers(1, 4), st.integers(1, 4))),
    block=st.integers(1, 2000),
)
def test_every_caption_keeps_the_features_that_were_published_with_it(counts, repeated, shape, block):
    sizes = dict(zip(("train", "dev", "testall"), counts, strict=True))
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "BLOCK_BYTES", block)
        spec = write_precomp(Path(folder), tuple(repeated), shape, **sizes)
        images, captions = read(spec)
        import_precomputed(spec, images, paths(spec), Path(folder) / "out")
        found = np.load(Path(folder) / "out/features.npy")
    assert len(captions) == 5 * len(images) == 5 * sum(counts)
    by_prefix = {prefix: precomp_features(prefix, count, shape) for prefix, count in sizes.items()}
    for text, row in zip(captions["text"], captions["image_index"], strict=True):
        prefix, _, number, *_ = text.split()
        expected = by_prefix[prefix][int(number)]
        np.testing.assert_array_equal(found[row], expected.reshape(-1, shape[-1]))


def test_an_image_without_regions_is_named_with_file_and_row(tmp_path):
    spec = write_precomp(tmp_path, repeated=("test",), shape=(3, 6))
    for name, row in (("train", 2), ("train", 6), ("test", slice(5, 10))):
        path = Path(spec.files["folder"]) / f"{name}_ims.npy"
        rows = np.load(path)
        rows[row] = 0
        np.save(path, rows)
    with pytest.raises(VseppError, match=r"train_ims\.npy: row 2 .* 3 vectors"):
        imported(spec, tmp_path)
    rows = precomp_features("train", shape=(3, 6))
    rows[2, 1:] = 0  # one vector is a region
    np.save(path.with_name("train_ims.npy"), rows)
    with pytest.raises(VseppError, match=r"test_ims\.npy: row 5 "):
        imported(spec, tmp_path)


def test_testall_is_taken_in_place_of_test(tmp_path):
    spec = write_precomp(tmp_path, shape=(3, 6), testall=4)
    imported(spec, tmp_path)
    found = np.load(tmp_path / "out/features.npy")[-4:]
    np.testing.assert_array_equal(found, precomp_features("testall", 4, (3, 6)))
    assert set(raw_features(spec, spec.files)) == {"train", "dev", "testall"}


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
@pytest.mark.parametrize("shape", [(6,), (3, 6)])
def test_values_that_are_not_finite_are_named_with_file_and_row(tmp_path, value, prefix, row, shape):
    spec = write_precomp(tmp_path, repeated=("train",), shape=shape)
    path = Path(spec.files["folder"]) / f"{prefix}_ims.npy"
    rows = np.load(path)
    rows[row : row + (5 if prefix == "train" else 1), ..., 2] = value
    np.save(path, rows)
    with pytest.raises(VseppError, match=rf"{path}: row {row} "):
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
    images, _ = read(spec)
    with pytest.raises(VseppError, match=said):
        imported(write_precomp(tmp_path / "other", repeated, **sizes), tmp_path, images)


@pytest.mark.parametrize("change", ["order", "split", "shifted", "photograph"])
def test_rows_of_the_table_that_are_not_the_files_rows_are_refused(spec, tmp_path, change):
    images, _ = read(spec)
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
    with pytest.raises(VseppError, match="expected the reader precomp, got karpathy"):
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
    with pytest.raises(VseppError, match=rf"{path}: row 5 and those after it"):
        imported(spec, tmp_path)


def test_a_full_disk_leaves_nothing(spec, tmp_path):
    images, _ = read(spec)
    with no_room(128 + 5 * 24), pytest.raises(OSError, match="File too large"):
        imported(spec, tmp_path, images)
    assert not list((tmp_path / "out").iterdir())
