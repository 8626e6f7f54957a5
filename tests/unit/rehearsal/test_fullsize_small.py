"""The generator of full-size raw data, on a small corpus: formats, names, statistics."""

import io
import json
import zipfile
from collections import Counter
from dataclasses import replace

import made_captions
import numpy as np
import pytest
from fullsize import ANNOTATIONS, FULL, SPLITS, Sizes, corpus_spec, write_archives, write_raw
from made_photographs import draw, draw_all, encoded, is_grey, size_of
from PIL import Image

from vsepp.data.corpora import read_corpus
from vsepp.data.store import build_store, open_store
from vsepp.errors import VseppError
from vsepp.spec import StoreSpec

SMALL = Sizes(
    coco={"train": 60, "restval": 20, "val": 12, "test": 10},
    coco_surplus={"train2014": 7, "val2014": 3},
    flickr30k={"train": 30, "val": 6, "test": 5},
    flickr30k_unlisted=4,
    flickr8k={"train": 6, "val": 2, "test": 2},
    photographs=9,
)


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    write_raw(folder, SMALL, seed=3)
    return folder


def document(folder, archive, member):
    with zipfile.ZipFile(folder / archive) as opened:
        return json.loads(opened.read(member))


def test_the_full_size_is_the_real_releases():
    assert sum(FULL.coco.values()) == 123_287
    assert FULL.coco["train"] * 5 + FULL.coco_surplus["train2014"] == 414_113
    assert sum(FULL.coco.values()) * 5 + sum(FULL.coco_surplus.values()) == 616_767
    assert sum(FULL.flickr30k.values()) == 31_014
    assert sum(FULL.flickr30k.values()) + FULL.flickr30k_unlisted == 31_783
    assert sum(FULL.flickr8k.values()) == 8_000


@pytest.mark.parametrize(
    ("dataset", "captions"),
    [
        ("coco", {"train": 300, "restval": 100, "val": 60, "test": 50}),
        ("flickr30k", {"train": 150, "val": 30, "test": 25}),
    ],
)
def test_the_reader_takes_it_with_every_split_at_its_size(raw, dataset, captions):
    images, texts = read_corpus(corpus_spec(dataset, raw, SMALL))
    facts = images.attrs["facts"]
    assert facts["images"] == getattr(SMALL, dataset)
    assert facts["captions"] == captions
    assert facts["ignored"]["surplus captions"] == (10 if dataset == "coco" else 0)
    assert texts["caption_id"].is_unique


def test_a_few_images_have_six_or_seven_captions(raw):
    entries = document(raw, SPLITS, "dataset_coco.json")["images"]
    assert Counter(len(entry["sentids"]) for entry in entries) == {5: 94, 6: 6, 7: 2}
    strict = replace(corpus_spec("coco", raw, SMALL), surplus_captions="error")
    with pytest.raises(VseppError, match="more than 5 captions"):
        read_corpus(strict)


def test_coco_is_listed_as_karpathy_lists_it(raw):
    listed = document(raw, SPLITS, "dataset_coco.json")
    assert listed["dataset"] == "coco"
    entries = listed["images"]
    assert set(entries[0]) == {"filepath", "sentids", "filename", "imgid", "split", "sentences", "cocoid"}
    assert [entry["imgid"] for entry in entries] == list(range(102))
    assert [entry["filepath"] for entry in entries] == ["val2014"] * 42 + ["train2014"] * 60
    # The splits of val2014 are mixed, and no number is in the order of the file.
    assert len({entry["split"] for entry in entries[:12]}) == 3
    cocoids = [entry["cocoid"] for entry in entries]
    assert max(cocoids) == 581_929
    assert cocoids != sorted(cocoids)
    assert len(set(cocoids)) == len(cocoids)
    assert entries[0]["filename"] == "COCO_val2014_000000581929.jpg"
    for entry in entries:
        assert [sentence["sentid"] for sentence in entry["sentences"]] == entry["sentids"]
        for sentence in entry["sentences"]:
            assert sentence["imgid"] == entry["imgid"]
            assert sentence["tokens"] == made_captions.karpathy_tokens(sentence["raw"])
    assert any(entry["sentids"] != sorted(entry["sentids"]) for entry in entries)


def test_cocos_annotations_hold_the_same_captions_and_the_photographs_sizes(raw):
    said = {
        sentence["sentid"]: (entry["cocoid"], sentence["raw"])
        for entry in document(raw, SPLITS, "dataset_coco.json")["images"]
        for sentence in entry["sentences"]
    }
    annotated = {}
    for part, images, annotations in (("train2014", 60, 307), ("val2014", 42, 213)):
        coco = document(raw, ANNOTATIONS, f"annotations/captions_{part}.json")
        assert set(coco) == {"info", "images", "licenses", "annotations"}
        assert (len(coco["images"]), len(coco["annotations"])) == (images, annotations)
        annotated |= {row["id"]: (row["image_id"], row["caption"]) for row in coco["annotations"]}
        with zipfile.ZipFile(raw / f"{part}.zip") as archive:
            names = {name for name in archive.namelist() if not name.endswith("/")}
            assert names == {f"{part}/{image['file_name']}" for image in coco["images"]}
            for image in coco["images"]:
                data = archive.read(f"{part}/{image['file_name']}")
                assert Image.open(io.BytesIO(data)).size == (image["width"], image["height"])
    assert annotated == said


def test_flickrs_files_have_no_coco_keys(raw):
    for dataset, images in (("flickr30k", 41), ("flickr8k", 10)):
        entries = document(raw, SPLITS, f"dataset_{dataset}.json")["images"]
        assert len(entries) == images
        assert set(entries[0]) == {"sentids", "filename", "imgid", "split", "sentences"}
        assert [number for entry in entries for number in entry["sentids"]] == list(range(5 * images))
    with zipfile.ZipFile(raw / "flickr30k-images.zip") as archive:
        assert len(archive.namelist()) == 1 + 41 + 4
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


def test_equal_seeds_give_equal_bytes_and_others_do_not(tmp_path, raw):
    again, other = write_raw(tmp_path / "again", SMALL, seed=3), write_raw(tmp_path / "other", SMALL, seed=4)
    assert set(again) == {path.name for path in raw.iterdir()}
    for name, path in again.items():
        assert path.read_bytes() == (raw / name).read_bytes(), name
        assert path.read_bytes() != other[name].read_bytes(), name


def test_a_slice_holds_the_first_photographs_of_every_split(tmp_path, raw):
    write_archives(tmp_path, SMALL, 3, images=2, jpegs=[b"jpeg"])
    entries = document(raw, SPLITS, "dataset_coco.json")["images"]
    seen = Counter()
    wanted = set()
    for entry in entries:
        seen[entry["split"]] += 1
        if seen[entry["split"]] <= 2:
            wanted.add(entry["filename"])
    held = set()
    for part in ("train2014", "val2014"):
        with zipfile.ZipFile(tmp_path / f"{part}.zip") as archive:
            held |= {name.partition("/")[2] for name in archive.namelist() if not name.endswith("/")}
    assert held == wanted
    assert len(held) == 8


def test_a_corpus_of_the_first_images_is_read_from_a_slice_and_stored(tmp_path):
    write_raw(tmp_path, SMALL, images=3, empty_rest=True)
    first = dict.fromkeys(SMALL.coco, 3)
    spec = replace(corpus_spec("coco", tmp_path, SMALL), first_images=first)
    images, captions = read_corpus(spec)
    assert images["split"].value_counts().to_dict() == first
    assert len(captions) == 60
    build_store(images, spec, StoreSpec("squash", 16), tmp_path / "out", tmp_path / "state", 1)
    assert (open_store(tmp_path / "out").reshape(12, -1).std(axis=1) > 1).all()


def test_the_store_holds_the_photographs_that_were_drawn(tmp_path, raw):
    spec = corpus_spec("flickr30k", raw, SMALL)
    images, _ = read_corpus(spec)
    facts = build_store(images, spec, StoreSpec("squash", 32), tmp_path / "out", tmp_path / "state", 1)
    assert facts["images"] == 41
    assert facts["upscaled"] == 0
    with zipfile.ZipFile(raw / "flickr30k-images.zip") as archive:
        for row, member in enumerate(images["member"]):
            photograph = Image.open(io.BytesIO(archive.read(member))).convert("RGB")
            expected = photograph.resize((32, 32), Image.Resampling.BILINEAR)
            np.testing.assert_array_equal(open_store(tmp_path / "out")[row], np.asarray(expected))


def test_photographs_have_the_size_asked_for_and_differ():
    for jpeg_bytes in (10_000, 24_000, 160_000):
        jpegs = draw_all(0, 16, jpeg_bytes)
        assert np.mean([len(jpeg) for jpeg in jpegs]) == pytest.approx(jpeg_bytes, rel=0.1)
        assert len(set(jpegs)) == 16
    for number in (0, 3, 7):
        image = Image.open(io.BytesIO(encoded(draw(0, number), 50)))
        assert image.size == size_of(number)
        assert image.mode == ("L" if is_grey(number) else "RGB")


@pytest.mark.parametrize(
    ("style", "mean", "deviation"),
    [(made_captions.COCO, 10.5, 2.4), (made_captions.FLICKR30K, 12.3, 5.2)],
)
def test_caption_lengths_are_the_real_ones(style, mean, deviation):
    rng = np.random.default_rng(0)
    lengths = made_captions.draw_lengths(rng, 400_000, style)
    assert lengths.mean() == pytest.approx(mean, abs=0.1)
    assert lengths.std() == pytest.approx(deviation, abs=0.1)
    assert lengths.min() >= style.shortest
    assert style.longest * 0.9 <= lengths.max() <= style.longest
    captions = made_captions.draw_captions(rng, 5_000, style, made_captions.lexicon(rng))
    assert made_captions.length_statistics(captions)[0] == pytest.approx(mean, abs=0.3)


def test_word_frequencies_give_cocos_vocabulary():
    rng = np.random.default_rng(0)
    train, others = (
        np.bincount(
            made_captions.draw_words(
                rng, int(made_captions.draw_lengths(rng, captions, made_captions.COCO).sum())
            ),
            minlength=made_captions.LEXICON,
        )
        for captions in (414_113, 202_654)
    )
    assert 8_800 < (train >= 4).sum() < 11_500
    assert 24_000 < (train + others > 0).sum() < 27_000
    assert 0.1 < train[0] / train.sum() < 0.2


def test_captions_are_spelt_as_people_type_them():
    rng = np.random.default_rng(0)
    captions = made_captions.draw_captions(rng, 20_000, made_captions.COCO, made_captions.lexicon(rng))

    def share(test):
        return np.mean([test(caption) for caption in captions])

    assert share(lambda c: c[0].isupper()) == pytest.approx(0.89, abs=0.02)
    assert share(lambda c: c.rstrip().endswith(".")) == pytest.approx(0.83, abs=0.02)
    assert share(lambda c: c != c.rstrip()) == pytest.approx(0.105, abs=0.02)
    assert share(lambda c: "\n" in c) == pytest.approx(0.03, abs=0.01)
    assert share(lambda c: "," in c) == pytest.approx(0.1, abs=0.02)
    assert share(lambda c: "'s" in c.lower()) == pytest.approx(0.02, abs=0.01)
    assert 0.001 < share(lambda c: not c.isascii()) < 0.1
    assert 0 < share(str.isupper) < 0.01
    assert all(caption.strip() for caption in captions)
