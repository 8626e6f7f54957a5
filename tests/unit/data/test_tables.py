import pandas as pd
import pyarrow.parquet as pq
import pytest
from raw_layouts import write_coco

from vsepp.data.corpora import read_corpus
from vsepp.data.tables import read_tables, rows_in, write_tables
from vsepp.errors import VseppError


@pytest.fixture
def tables(tmp_path):
    return read_corpus(write_coco(tmp_path / "raw"))


def test_tables_come_back_as_they_went(tables, tmp_path):
    write_tables(tmp_path / "corpus", *tables)
    for back, frame in zip(read_tables(tmp_path / "corpus"), tables, strict=True):
        assert {name: back[name].tolist() for name in frame} == frame.to_dict("list")
        assert len(back) == len(frame)
    assert sorted(p.name for p in (tmp_path / "corpus").iterdir()) == ["captions.parquet", "images.parquet"]


def test_a_part_of_a_table_has_the_rows_of_a_range(tables, tmp_path):
    write_tables(tmp_path / "corpus", *tables)
    _, captions = read_tables(tmp_path / "corpus")
    assert rows_in(tmp_path / "corpus/captions.parquet") == len(captions)
    path = tmp_path / "corpus/captions.parquet"
    for group_rows in (len(captions), 4, 1):  # as large tables are written, in groups of rows
        pq.write_table(pq.read_table(path), path, row_group_size=group_rows)
        _, captions = read_tables(tmp_path / "corpus")
        for rows in (slice(2, 5), slice(3, None), slice(4, 4), slice(None)):
            part = captions.part(rows)
            assert len(part) == len(captions["text"][rows])
            for name in ("text", "caption_id"):
                assert part[name].tolist() == captions[name][rows].tolist()
            assert part.part(slice(1, 2))["text"].tolist() == captions["text"][rows][1:2].tolist()


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
            "expected .*image_index int32.*image_index int64",
        ),
    ],
)
def test_a_table_that_is_missing_damaged_or_of_another_form_is_named(tables, tmp_path, damage, said):
    write_tables(tmp_path, *tables)
    damage(tmp_path / "captions.parquet")
    with pytest.raises(VseppError, match=rf"captions\.parquet: {said}"):
        read_tables(tmp_path)


@pytest.mark.parametrize(
    ("column", "value", "images", "said"),
    [
        ("split", "test", 4, "images 0 to 8, but there are 4"),
        ("caption_id", 57003, 9, r"more than once \(1 in all\): 57003"),
        ("split", "train", 9, "in another split than their image"),
    ],
)
def test_tables_that_do_not_belong_together_are_refused(tables, tmp_path, column, value, images, said):
    tables[1].loc[0, column] = value
    with pytest.raises(VseppError, match=said):
        write_tables(tmp_path, tables[0][:images], tables[1])
