"""Shards of WebDataset and img2dataset as a corpus."""

import io
import json
import tarfile

import pandas as pd
import pytest
from raw_layouts import jpeg

from vsepp.data.containers import Container
from vsepp.data.corpora import read_corpus
from vsepp.errors import VseppError
from vsepp.spec import Component, CorpusSpec


def write_tar(path, members, mode="w"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def sample(number, caption=None, split=None):
    """Files of a sample as img2dataset writes them."""
    key = f"{number:09d}"
    given = {"key": key, "url": f"u{number}"} | ({} if split is None else {"split": split})
    files = [(f"{key}.jpg", jpeg(number, (40, 32))), (f"{key}.json", json.dumps(given).encode())]
    return files if caption is None else [*files, (f"{key}.txt", caption.encode())]


def shards(folder, count=6, captions=True):
    for shard in range(2):
        numbers = range(shard * 10_000, shard * 10_000 + count // 2)
        members = [
            file for number in numbers for file in sample(number, f"a picture {number}" if captions else None)
        ]
        write_tar(folder / f"{shard:05d}.tar", members)
        table = {
            "key": [*(f"{number:09d}" for number in numbers), "000009999"],
            "caption": [*(f"of the table {number}" for number in numbers), "not fetched"],
            "status": ["success"] * len(numbers) + ["failed_to_download"],
        }
        pd.DataFrame(table).to_parquet(folder / f"{shard:05d}.parquet")
    return folder


def spec(folder, **options):
    return CorpusSpec(name="web", reader=Component("webdataset", options), files={"shards": str(folder)})


def test_samples_are_images_with_captions_in_the_order_of_the_archives(tmp_path):
    images, captions = read_corpus(spec(shards(tmp_path / "s")))
    keys = ["000000000", "000000001", "000000002", "000010000", "000010001", "000010002"]
    assert images["image_id"].tolist() == keys
    assert captions["text"].tolist() == [f"a picture {int(key)}" for key in keys]
    assert captions["caption_id"].tolist() == [1, 2, 3, 4, 5, 6]
    container = Container(tmp_path / "s")
    for row in images.itertuples():
        assert container.read(row.member) == jpeg(int(row.image_id), (40, 32))


def test_captions_of_img2datasets_table(tmp_path):
    _, captions = read_corpus(spec(shards(tmp_path / "s", captions=False), captions="parquet"))
    assert captions["text"].tolist()[3] == "of the table 10000" and len(captions) == 6


def test_a_sample_may_have_several_captions_and_say_its_split(tmp_path):
    members = [
        file for number in range(3) for file in sample(number, "one\ntwo\n", ("train", "val", "test")[number])
    ]
    write_tar(tmp_path / "s/a.tar", members)
    images, captions = read_corpus(spec(tmp_path / "s"))
    assert images["split"].tolist() == ["train", "val", "test"]
    assert captions["image_index"].tolist() == [0, 0, 1, 1, 2, 2]
    write_tar(tmp_path / "s/a.tar", sample(0, "one", "training"))
    with pytest.raises(VseppError, match=r"a\.tar/000000000\.json: split 'training'; expected one of train"):
        read_corpus(spec(tmp_path / "s"))


def test_a_share_is_held_out_and_an_image_keeps_its_split(tmp_path):
    before = {}
    for shard, count in enumerate((300, 100)):
        members = [file for number in range(count) for file in sample(1000 * shard + number, "a caption")]
        write_tar(tmp_path / f"s/{shard}.tar", members)
        images, _ = read_corpus(spec(tmp_path / "s", held_out=0.2))
        splits = dict(zip(images["image_id"], images["split"], strict=True))
        assert splits.items() >= before.items()
        before = splits
    sizes = images["split"].value_counts()
    assert all(50 < sizes[split] < 110 for split in ("val", "test"))


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([], r"expected a folder of tar archives with samples, found none"),
        ([*sample(0, "a"), ("b/000000000.jpg", b"x"), ("b/000000000.txt", b"x")], "has the same key"),
        ([*sample(0, "a"), ("000000000.png", b"x")], "000000000: 2 photographs"),
        (sample(0), "000000000: no caption"),
        ([*sample(0, "a"), *sample(0, "a")], r"a\.tar: members that have the name of another one"),
    ],
)
def test_samples_that_cannot_be_used_are_named(tmp_path, members, said):
    write_tar(tmp_path / "s/a.tar", members)
    with pytest.raises(VseppError, match=said):
        read_corpus(spec(tmp_path / "s"))


def test_damaged_and_compressed_archives_are_named(tmp_path):
    folder = shards(tmp_path / "s")
    whole = (folder / "00001.tar").read_bytes()
    (folder / "00001.tar").write_bytes(whole[: len(whole) // 2 + 100])
    with pytest.raises(VseppError, match=r"00001\.tar: .* expected a whole tar archive"):
        read_corpus(spec(folder))
    write_tar(folder / "00001.tar", sample(10_000, "a"), "w:gz")
    with pytest.raises(VseppError, match=r"00001\.tar: .* that is not compressed"):
        read_corpus(spec(folder))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (None, r"expected a table \*\.parquet beside each tar archive"),
        (
            {"key": ["000000000"], "text": ["a"]},
            r"00000\.parquet: no column caption; there are key, text",
        ),
        ({"key": ["000000000"], "caption": ["a"], "status": ["failed"]}, "found no row"),
        (b"PAR1", r"00000\.parquet: .* expected a table with the columns key and caption"),
    ],
)
def test_tables_that_cannot_be_used_are_named(tmp_path, table, said):
    write_tar(tmp_path / "s/00000.tar", sample(0))
    path = tmp_path / "s/00000.parquet"
    if isinstance(table, bytes):
        path.write_bytes(table)
    elif table is not None:
        pd.DataFrame(table).to_parquet(path)
    with pytest.raises(VseppError, match=said):
        read_corpus(spec(tmp_path / "s", captions="parquet"))
