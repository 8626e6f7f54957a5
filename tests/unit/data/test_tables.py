"""Tables of images and captions as files."""

import pandas as pd
import pyarrow.parquet as pq
import pytest
from raw_layouts import read, write_coco

from vsepp.base.errors import VseppError
from vsepp.base.manifest import recorded
from vsepp.data.tables import read_tables, write_tables


@pytest.fixture
def tables(tmp_path):
    return read(write_coco(tmp_path / "raw"))


def test_tables_come_back_as_they_went_in_any_groups_of_rows(tables, tmp_path):
    write_tables(tmp_path, *tables)
    path = tmp_path / "captions.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=4)
    for frame, original in zip(read_tables(tmp_path), tables, strict=True):
        assert {name: frame[name].tolist() for name in original} == original.to_dict("list")
        assert len(frame) == len(original)


def test_equal_tables_give_equal_bytes(tables, tmp_path):
    for name in ("first", "second"):
        write_tables(tmp_path / name, *tables)
    for file in ("images.parquet", "captions.parquet"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: pd.read_parquet(path).astype({"image_index": "int64"}).to_parquet(path, index=False),
    ],
    ids=["cut", "another type"],
)
def test_a_damaged_table_is_named(tables, tmp_path, damage):
    write_tables(tmp_path, *tables)
    damage(tmp_path / "captions.parquet")
    with pytest.raises(VseppError, match=r"captions\.parquet"):
        read_tables(tmp_path)


def test_a_table_with_other_texts_than_its_step_wrote_is_refused(tables, tmp_path):
    images, captions = tables
    with recorded(tmp_path, "corpus", spec={}, inputs={}):
        write_tables(tmp_path, images, captions)
    # A valid table: only the manifest knows.
    write_tables(tmp_path / "other", images, captions.assign(text="a"))
    (tmp_path / "captions.parquet").write_bytes((tmp_path / "other/captions.parquet").read_bytes())
    with pytest.raises(VseppError, match=r"captions\.parquet"):
        read_tables(tmp_path)
