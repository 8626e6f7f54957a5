import pandas as pd
import pytest
from raw_layouts import write_coco

from vsepp.data.corpora import read_corpus
from vsepp.data.tables import read_tables, write_tables
from vsepp.errors import VseppError


@pytest.fixture
def tables(tmp_path):
    return read_corpus(write_coco(tmp_path / "raw"))


def test_tables_come_back_as_they_went(tables, tmp_path):
    write_tables(tmp_path / "corpus", *tables)
    for back, frame in zip(read_tables(tmp_path / "corpus"), tables, strict=True):
        pd.testing.assert_frame_equal(back, frame)
    assert sorted(p.name for p in (tmp_path / "corpus").iterdir()) == ["captions.parquet", "images.parquet"]


def test_equal_tables_give_equal_bytes(tables, tmp_path):
    for name in ("one", "two"):
        write_tables(tmp_path / name, *tables)
    for file in ("images.parquet", "captions.parquet"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_a_missing_table_is_named(tables, tmp_path):
    write_tables(tmp_path, *tables)
    (tmp_path / "captions.parquet").unlink()
    with pytest.raises(VseppError, match=r"captions\.parquet: missing"):
        read_tables(tmp_path)


def test_a_damaged_table_is_named(tables, tmp_path):
    write_tables(tmp_path, *tables)
    path = tmp_path / "images.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(VseppError, match=r"images\.parquet: not a readable"):
        read_tables(tmp_path)


def test_other_columns_are_named(tables, tmp_path):
    write_tables(tmp_path, *tables)
    tables[1].astype({"image_index": "int64"}).to_parquet(tmp_path / "captions.parquet", index=False)
    with pytest.raises(
        VseppError, match=r"captions\.parquet: expected .*image_index int32.*image_index int64"
    ):
        read_tables(tmp_path)


def test_captions_that_point_nowhere_are_refused(tables, tmp_path):
    images, captions = tables
    with pytest.raises(VseppError, match="images 0 to 8, but there are 4"):
        write_tables(tmp_path, images[:4], captions)


def test_repeated_caption_ids_are_refused(tables, tmp_path):
    images, captions = tables
    captions.loc[1, "caption_id"] = captions.loc[0, "caption_id"]
    with pytest.raises(VseppError, match=r"twice: \[57004\] \(1 in all\)"):
        write_tables(tmp_path, images, captions)


def test_a_caption_of_another_split_than_its_image_is_refused(tables, tmp_path):
    images, captions = tables
    captions.loc[0, "split"] = "train"
    with pytest.raises(VseppError, match="split is not their image's"):
        write_tables(tmp_path, images, captions)
