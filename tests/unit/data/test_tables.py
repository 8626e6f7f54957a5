import pandas as pd
import pyarrow.parquet as pq
import pytest
from raw_layouts import write_coco

from vsepp.data.corpora import read_corpus
from vsepp.data.tables import read_tables, rows_in, write_tables
from vsepp.errors import VseppError
from vsepp.provenance.manifest import recorded


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


@pytest.fixture
def cut(tables, tmp_path):
    """Tables in shards of four rows."""
    folder = tmp_path / "cut"
    folder.mkdir()
    with recorded(folder, "corpus", spec={}, inputs={}):
        write_tables(folder, *tables, 4)
    return folder


def test_tables_in_shards_have_the_rows_of_one_file(tables, cut):
    for back, frame, name in zip(read_tables(cut), tables, ("images", "captions"), strict=True):
        assert len(back) == rows_in(cut / f"{name}.parquet") == len(frame)
        sizes = [pq.read_metadata(path).num_rows for path in sorted(cut.glob(f"*.{name}.parquet"))]
        assert sizes == [4] * (len(frame) // 4) + [len(frame) % 4] * (len(frame) % 4 > 0)
        for column in frame:
            assert back[column].tolist() == frame[column].tolist()
            for rows in (slice(2, 9), slice(4, 8), slice(5, 5), slice(7, None)):
                assert back.part(rows)[column].tolist() == frame[column][rows].tolist()


def test_only_the_shards_of_the_rows_that_are_asked_for_are_read(cut, tables):
    for path in cut.glob("*.captions.parquet"):
        if path.name != "00001.captions.parquet":
            path.unlink()
    _, captions = read_tables(cut)
    assert captions.part(slice(4, 8))["text"].tolist() == tables[1]["text"][4:8].tolist()
    with pytest.raises(VseppError, match=r"00002.captions.parquet: missing, a shard of .*captions.parquet"):
        captions.part(slice(7, 9))["text"]


def test_shards_that_were_written_before_a_kill_are_kept(tables, cut, tmp_path):
    state, again = tmp_path / "state", tmp_path / "again"
    state.mkdir()
    kept = state / "00001.images.parquet"
    kept.write_bytes((cut / kept.name).read_bytes())
    written = kept.stat()
    write_tables(again, *tables, 4, state)
    assert (again / kept.name).stat().st_ino == written.st_ino
    assert not list(state.iterdir())
    files = [path.name for path in cut.iterdir() if path.suffix == ".parquet"]
    assert {name: (again / name).read_bytes() for name in files} == {
        name: (cut / name).read_bytes() for name in files
    }


def _last_bits_of_a_page(path):
    ids = pq.read_metadata(path).row_group(0).column(0)
    data = bytearray(path.read_bytes())
    data[(ids.dictionary_page_offset or ids.data_page_offset) + ids.total_compressed_size - 1] ^= 255
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "missing, a shard of "),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "no whole shard "),
        (_last_bits_of_a_page, "no whole shard .*CRC"),
        (lambda path: pq.write_table(pq.read_table(path)[:3], path), "has 3 rows, .* expects 4"),
    ],
)
def test_a_damaged_shard_is_named_with_what_to_do(cut, damage, said):
    damage(cut / "00001.captions.parquet")
    _, captions = read_tables(cut)
    with pytest.raises(VseppError, match=rf"00001\.captions\.parquet: {said}.*make it again: delete .*cut"):
        captions["caption_id"]


def test_a_shard_that_was_written_anew_does_not_fit_the_list(cut, tables):
    listed = (cut / "captions.parquet").read_bytes()
    with recorded(cut, "corpus", spec={}, inputs={}):
        for path in cut.glob("*.parquet"):
            path.unlink()
        write_tables(cut, tables[0], tables[1].assign(text="other"), 4)
        (cut / "captions.parquet").write_bytes(listed)
    with pytest.raises(
        VseppError, match=r"00000\.captions\.parquet: has the digest \w{12}, .* expects \w{12}"
    ):
        read_tables(cut)[1]["text"]


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
