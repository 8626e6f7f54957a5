import pandas as pd
import pyarrow.parquet as pq
import pytest
from raw_layouts import read, write_coco

from vsepp.base.errors import VseppError
from vsepp.data.tables import read_tables, write_tables


@pytest.fixture
def tables(tmp_path):
    return read(write_coco(tmp_path / "raw"))


def test_tables_come_back_as_they_went(tables, tmp_path):
    write_tables(tmp_path / "corpus", *tables)
    for back, frame in zip(read_tables(tmp_path / "corpus"), tables, strict=True):
        assert {name: back[name].tolist() for name in frame} == frame.to_dict("list")
        assert len(back) == len(frame)
    assert sorted(p.name for p in (tmp_path / "corpus").iterdir()) == ["captions.parquet", "images.parquet"]


def test_all_groups_of_rows_are_read(tables, tmp_path):
    write_tables(tmp_path, *tables)
    path = tmp_path / "captions.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=4)
    assert read_tables(tmp_path)[1]["text"].tolist() == tables[1]["text"].tolist()


def test_equal_tables_give_equal_bytes(tables, tmp_path):
    for name in ("one", "two"):
        write_tables(tmp_path / name, *tables)
    for file in ("images.parquet", "captions.parquet"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "no such file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "it is damaged"),
        (
            lambda path: pd.read_parquet(path).astype({"image_index": "int64"}).to_parquet(path, index=False),
            ".*image_index int64.*image_index int32",
        ),
    ],
)
def test_a_table_that_is_missing_damaged_or_of_another_form_is_named(tables, tmp_path, damage, said):
    write_tables(tmp_path, *tables)
    damage(tmp_path / "captions.parquet")
    with pytest.raises(VseppError, match=rf"captions\.parquet: {said}"):
        read_tables(tmp_path)
