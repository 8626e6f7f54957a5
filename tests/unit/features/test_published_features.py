"""Published features in place of computed ones."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import no_room
from raw_layouts import PRECOMP_SIZES, paths, precomp_features, read, write_precomp, zipped

from vsepp.base.errors import VseppError
from vsepp.features import published
from vsepp.features.published import import_precomputed, raw_features

SPLITS = {"train": "train", "dev": "val", "test": "test"}
COUNT = sum(PRECOMP_SIZES.values())
EXPECTED = np.concatenate([precomp_features(prefix) for prefix in PRECOMP_SIZES])


@pytest.fixture
def spec(tmp_path):
    return write_precomp(tmp_path, repeated=("train",))


def imported(spec, tmp_path, images=None):
    images = read(spec)[0] if images is None else images
    return import_precomputed(spec, images, paths(spec), tmp_path / "out")


def features_in(folder):
    return np.load(folder / "out/features.npy")[:, 0]


def edit(spec, prefix, change):
    """Change the array of a split in place."""
    path = Path(spec.files["folder"]) / f"{prefix}_ims.npy"
    rows = np.load(path)
    change(rows)
    np.save(path, rows)


def test_features_are_the_published_rows_in_the_order_of_the_images_table(spec, tmp_path):
    facts = imported(spec, tmp_path)
    np.testing.assert_array_equal(features_in(tmp_path), EXPECTED)
    rows = {"train": 5, "val": 1, "test": 1}
    assert facts == {"images": COUNT, "vectors": 1, "dim": 6, "rows_per_image": rows, "unit_length": 0.0}
    assert set(raw_features(spec.files)) == {"train", "dev", "test"}
    imported(zipped(spec), tmp_path / "zip")
    np.testing.assert_array_equal(features_in(tmp_path / "zip"), EXPECTED)
    assert set(raw_features(zipped(spec).files)) == {"folder"}


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
        features = np.load(Path(folder) / "out/features.npy")
    assert len(captions) == 5 * len(images) == 5 * sum(counts)
    by_prefix = {prefix: precomp_features(prefix, count, shape) for prefix, count in sizes.items()}
    for text, row in zip(captions["text"], captions["image_index"], strict=True):
        prefix, _, number, *_ = text.split()
        expected = by_prefix[prefix][int(number)]
        np.testing.assert_array_equal(features[row], expected.reshape(-1, shape[-1]))


def test_an_image_without_regions_is_named_with_file_and_row(tmp_path):
    spec = write_precomp(tmp_path, repeated=("test",), shape=(3, 6))
    edit(spec, "train", lambda rows: rows[2, 1:].fill(0))  # one vector is a region
    imported(spec, tmp_path)
    edit(spec, "test", lambda rows: rows[5:10].fill(0))
    with pytest.raises(VseppError, match=r"test_ims\.npy: row 5 .* 3 "):
        imported(spec, tmp_path)


def test_rows_of_unit_length_are_counted_and_others_told(spec, tmp_path, caplog):
    edit(spec, "test", lambda rows: np.divide(rows, np.linalg.norm(rows, axis=1, keepdims=True), out=rows))
    assert imported(spec, tmp_path)["unit_length"] == 3 / COUNT
    assert "25.0 %" in caplog.text


@pytest.mark.parametrize(
    ("value", "prefix", "rows", "shape"),
    [(np.nan, "dev", slice(1, 2), (6,)), (-np.inf, "train", slice(15, 20), (3, 6))],
)
def test_values_that_are_not_finite_are_named_with_file_and_row(tmp_path, value, prefix, rows, shape):
    spec = write_precomp(tmp_path, repeated=("train",), shape=shape)
    edit(spec, prefix, lambda array: array[rows, ..., 2].fill(value))
    with pytest.raises(VseppError, match=rf"{prefix}_ims\.npy: row {rows.start} "):
        imported(spec, tmp_path)
    assert not list((tmp_path / "out").iterdir())


def test_five_rows_that_differ_are_named_with_their_file(tmp_path):
    spec = write_precomp(tmp_path, repeated=("train", "test"))
    edit(spec, "test", lambda rows: rows.put(7 * 6 + 2, np.nextafter(rows[7, 2], np.float32(2))))
    with pytest.raises(VseppError, match=r"test_ims\.npy: row 5 "):
        imported(spec, tmp_path)


TABLES = {
    "fewer images": lambda images: images.iloc[:-1],
    "another row": lambda images: images.replace({"member": {"dev_ims.npy#1": "dev_ims.npy#2"}}),
    "a photograph": lambda images: images.replace({"member": {"dev_ims.npy#1": "1000268201.jpg"}}),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_whose_rows_are_not_the_files_rows_is_refused(spec, tmp_path, case):
    with pytest.raises(VseppError, match="images table"):
        imported(spec, tmp_path, TABLES[case](read(spec)[0]))


def test_a_full_disk_leaves_nothing(spec, tmp_path):
    images, _ = read(spec)
    with no_room(128 + 5 * 24), pytest.raises(OSError, match="File too large"):
        imported(spec, tmp_path, images)
    assert not list((tmp_path / "out").iterdir())
