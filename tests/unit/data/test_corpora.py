import hashlib
import json
import logging
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_layouts import (
    COCO_IMAGES,
    COCO_SIZES,
    coco_name,
    edit_json,
    write_coco,
    write_flickr8k,
    write_json,
    write_karpathy,
    zipped,
)

from vsepp.data.containers import Container
from vsepp.data.corpora import read_corpus
from vsepp.errors import VseppError
from vsepp.spec import CorpusSpec

LAYOUTS = {"coco": write_coco, "karpathy": write_karpathy, "flickr8k": write_flickr8k}


@pytest.fixture(params=sorted(LAYOUTS))
def spec(request, tmp_path):
    return LAYOUTS[request.param](tmp_path)


def refused(spec, *parts):
    """The message with which a corpus is refused, which must hold all the parts."""
    with pytest.raises(VseppError) as caught:
        read_corpus(spec)
    message = str(caught.value)
    for part in parts:
        assert part in message
    return message


# What every layout shares


def test_a_folder_and_a_zip_give_the_same_tables(spec):
    images, captions = read_corpus(spec)
    zipped_images, zipped_captions = read_corpus(zipped(spec))
    pd.testing.assert_frame_equal(zipped_images, images)
    pd.testing.assert_frame_equal(zipped_captions, captions)


def test_a_zip_may_hold_its_files_below_a_folder(spec):
    images, captions = read_corpus(spec)
    below_images, below_captions = read_corpus(zipped(spec, prefix="release/"))
    pd.testing.assert_frame_equal(below_captions, captions)
    assert below_images["member"].tolist() == ["release/" + member for member in images["member"]]
    pd.testing.assert_frame_equal(below_images.drop(columns="member"), images.drop(columns="member"))


def test_the_member_of_each_row_is_its_photograph(spec):
    images, _ = read_corpus(spec)
    for row in images.itertuples():
        data = Container(spec.files[row.container]).read(row.member)
        (path,) = Path(spec.files[row.container]).rglob(row.file_name)
        assert data == path.read_bytes()


def test_types_and_captions_point_at_their_image(spec):
    images, captions = read_corpus(spec)
    assert captions["caption_id"].dtype == np.int64
    assert captions["image_index"].dtype == np.int32
    assert captions["caption_id"].is_unique
    assert images["image_id"].is_unique
    assert captions["split"].tolist() == images["split"].iloc[captions["image_index"]].tolist()
    assert set(captions["image_index"]) == set(range(len(images)))


def test_a_photograph_that_the_container_lacks_is_named_and_counted(spec):
    images, _ = read_corpus(spec)
    lost = images.iloc[[0, 1]]
    container = spec.files[lost["container"].iloc[0]]
    for row in lost.itertuples():
        (Path(spec.files[row.container]) / row.member).unlink()
    of_container = (images["container"] == images["container"].iloc[0]).sum()
    for broken in (spec, zipped(spec)):
        refused(
            broken,
            str(broken.files[lost["container"].iloc[0]]),
            lost["file_name"].iloc[0],
            lost["split"].iloc[0],
            f"2 of {of_container}",
        )
    assert Path(container).is_dir()


def test_a_truncated_archive_is_refused(spec):
    images, _ = read_corpus(spec)
    packed = zipped(spec)
    path = Path(packed.files[images["container"].iloc[0]])
    path.write_bytes(path.read_bytes()[:-50])
    refused(packed, str(path), "truncated")


def test_a_role_without_a_path_is_named(spec):
    role = sorted(spec.files)[-1]
    refused(replace(spec, files={k: v for k, v in spec.files.items() if k != role}), repr(role), spec.name)


def test_missing_files_are_named(spec, tmp_path):
    for role in spec.files:
        gone = str(tmp_path / "gone" / role)
        refused(replace(spec, files={**spec.files, role: gone}), gone)


def test_split_sizes_are_asserted(spec):
    images, _ = read_corpus(spec)
    sizes = images["split"].value_counts().to_dict()
    read_corpus(replace(spec, expected_images=sizes))
    last = [row for row in images.itertuples() if row.split == "train"][-1]
    each, wanted = spec.captions_per_image, sizes["train"] - 1
    message = refused(
        replace(spec, expected_images={**sizes, "train": wanted}),
        f"train has {wanted + 1} images and {(wanted + 1) * each} captions, 1 more than {wanted}; "
        f"beyond it are {last.image_id} (",
        last.file_name,
        f"(expected {wanted * each} captions)",
    )
    assert "that no split lists" not in message


def test_an_absent_split_and_the_photographs_in_no_split_are_reported(spec):
    images, _ = read_corpus(spec)
    folder = Path(spec.files[images["container"].iloc[0]])
    (folder / "unlisted.jpg").write_bytes(b"")
    sizes = images["split"].value_counts().to_dict()
    of_test = images["image_id"][images["split"] == "test"].tolist()
    refused(
        replace(spec, expected_images={**sizes, "test": sizes["test"] + 4}),
        f"test has {sizes['test']} images and {sizes['test'] * spec.captions_per_image} captions, "
        f"4 fewer than {sizes['test'] + 4}; it lists {of_test[0]} to {of_test[-1]}",
        "Photographs that no split lists: 1 (unlisted.jpg)",
    )


def test_a_split_that_is_not_there_at_all_is_named(spec):
    sizes = read_corpus(spec)[0]["split"].value_counts().to_dict()
    missing = "restval" if "restval" not in sizes else "val"
    if missing in sizes:
        edit_json(spec.files["splits"], lambda d: [i.update(split="train") for i in d["images"]])
    refused(
        replace(spec, expected_images={missing: 2}), f"{missing} has 0 images and 0 captions, 2 fewer than 2"
    )


def test_captions_of_a_split_are_its_images_times_the_captions_an_image(spec):
    images, captions = read_corpus(spec)
    facts = images.attrs["facts"]
    assert facts["captions"] == {split: n * spec.captions_per_image for split, n in facts["images"].items()}
    assert (captions["image_index"].value_counts() == spec.captions_per_image).all()


def test_the_first_images_of_a_split_are_kept_with_their_captions(spec):
    images, captions = read_corpus(spec)
    cut_images, cut_captions = read_corpus(replace(spec, first_images={"train": 1, "test": 99}))
    of_train = images.index[images["split"] == "train"].tolist()
    kept = [row for row in images.index if row not in of_train[1:]]
    pd.testing.assert_frame_equal(cut_images, images.loc[kept].reset_index(drop=True))
    texts = captions[captions["image_index"].isin(kept)]
    assert cut_captions["text"].tolist() == texts["text"].tolist()
    assert cut_captions["caption_id"].tolist() == texts["caption_id"].tolist()
    assert [kept[row] for row in cut_captions["image_index"]] == texts["image_index"].tolist()
    tests = int((images["split"] == "test").sum())
    assert cut_images.attrs["facts"]["first_images"] == {
        "train": {"kept": 1, "of": len(of_train)},
        "test": {"kept": tests, "of": tests},
    }
    assert cut_images.attrs["facts"]["images"]["train"] == 1
    assert "first_images" not in images.attrs["facts"]


def test_the_first_images_are_taken_after_everything_was_checked(spec):
    images, _ = read_corpus(spec)
    sizes = images["split"].value_counts().to_dict()
    cut = replace(spec, first_images={"train": 1}, expected_images=sizes)
    assert len(read_corpus(cut)[0]) == len(images) - sizes["train"] + 1
    lost = images[images["split"] == "train"].iloc[-1]
    (Path(spec.files[lost["container"]]) / lost["member"]).unlink()
    refused(cut, lost["file_name"], "lacks photographs")


@pytest.mark.parametrize("first", [{"train": 0}, {"dev": 3}])
def test_first_images_that_mean_nothing_are_refused(spec, first):
    refused(replace(spec, first_images=first), "first_images (1 in all)", str(first)[2:5])


def raw_texts(spec) -> dict[str, bytes]:
    """Content of the raw text files by the name that their release gives them."""
    texts = {}
    for role, name in spec.files.items():
        path = Path(name)
        if path.is_file():
            texts[path.name] = path.read_bytes()
        elif role == "text":
            texts |= {file.name: file.read_bytes() for file in path.iterdir()}
    return texts


@pytest.mark.parametrize("packed", [False, True])
def test_a_reported_sum_that_agrees_is_recorded(spec, packed, caplog):
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in raw_texts(spec).items()}
    assert len(sums) in (1, 3, 4)
    spec = replace(
        zipped(spec) if packed else spec, reported_sha256={n: ("0" * 64, s) for n, s in sums.items()}
    )
    images, _ = read_corpus(spec)
    found = images.attrs["facts"]["reported_sha256"]
    assert found == {name: {"reported": ["0" * 64, s], "found": s} for name, s in sums.items()}
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_reported_sum_that_differs_is_said_loudly_and_is_no_error(spec, caplog):
    (name, data), *_ = raw_texts(spec).items()
    images, _ = read_corpus(replace(spec, reported_sha256={name: ("ab" * 32,)}))
    found = hashlib.sha256(data).hexdigest()
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    for part in (name, found, "ab" * 32, "only a report"):
        assert part in record.getMessage()
    assert images.attrs["facts"]["reported_sha256"] == {name: {"reported": ["ab" * 32], "found": found}}


def test_a_reported_sum_of_a_file_that_is_not_read_is_said(spec, caplog):
    images, _ = read_corpus(replace(spec, reported_sha256={"dataset_x.json": ("0" * 64,)}))
    assert "names dataset_x.json, which reader" in caplog.text
    assert images.attrs["facts"]["reported_sha256"]["dataset_x.json"]["found"] is None


def test_a_file_given_under_another_name_has_the_sum_of_its_release(tmp_path):
    spec = write_karpathy(tmp_path)
    mine = Path(spec.files["splits"]).rename(tmp_path / "mine.json")
    spec = replace(spec, files={**spec.files, "splits": str(mine)})
    images, _ = read_corpus(replace(spec, reported_sha256={"dataset_flickr30k.json": ("0" * 64,)}))
    found = images.attrs["facts"]["reported_sha256"]["dataset_flickr30k.json"]["found"]
    assert found == hashlib.sha256(mine.read_bytes()).hexdigest()


def test_too_few_captions(spec):
    images, _ = read_corpus(spec)
    message = refused(replace(spec, captions_per_image=7), "fewer than 7", images["file_name"].iloc[0])
    assert f"({len(images)} in all)" in message
    assert message.count("has ") == min(5, len(images))


def test_an_unknown_reader_names_those_there_are(spec):
    refused(replace(spec, reader="msrvtt"), "msrvtt", "coco", "flickr8k", "karpathy")


def test_reading_prints_nothing(spec, capsys):
    read_corpus(spec)
    assert capsys.readouterr().out == ""


# COCO


def test_coco_order_split_and_text_come_from_their_files(tmp_path):
    images, captions = read_corpus(write_coco(tmp_path))
    assert images["image_id"].tolist() == [str(i) for i, _, _ in COCO_IMAGES]
    assert images["split"].tolist() == [split for _, _, split in COCO_IMAGES]
    assert images["file_name"].tolist() == [coco_name(i, folder) for i, folder, _ in COCO_IMAGES]
    assert images["container"].tolist() == [f"{folder[:-4]}_images" for _, folder, _ in COCO_IMAGES]
    # The order of `sentids`, the first five, and COCO's own text rather than Karpathy's.
    of_12 = captions[captions["image_index"] == 1]
    assert of_12["caption_id"].tolist() == [12005, 12004, 12003, 12002, 12001]
    assert of_12["text"].iloc[0] == "Caption 12005 of café."
    assert images.attrs["facts"]["ignored"] == {"captioned images in no split": 0, "surplus captions": 1}


def test_coco_reads_from_one_folder_that_holds_both_parts(tmp_path):
    spec = write_coco(tmp_path)
    together = {**spec.files, "train_images": str(tmp_path), "val_images": str(tmp_path)}
    images, _ = read_corpus(replace(spec, files=together))
    assert images["member"].iloc[0] == f"val2014/{coco_name(57, 'val2014')}"


def test_coco_json_may_lie_in_an_archive(tmp_path):
    spec = write_coco(tmp_path)
    folders = {role: str(Path(spec.files[role]).parent) for role in ("train_captions", "val_captions")}
    packed = zipped(replace(spec, files={**spec.files, **folders}), prefix="annotations/")
    assert packed.files["train_captions"].endswith("annotations.zip")
    pd.testing.assert_frame_equal(read_corpus(packed)[1], read_corpus(spec)[1])


def test_coco_surplus_captions_can_be_an_error(tmp_path):
    spec = replace(write_coco(tmp_path), surplus_captions="error")
    refused(spec, "more than 5 captions (1 in all)", coco_name(12, "val2014"), "has 6", "dataset_coco.json")


def with_captions(spec, counts):
    """Give COCO images (id → captions) more captions, in both files."""
    sentid = {image_id: [90_000 + 100 * image_id + k for k in range(n)] for image_id, n in counts.items()}

    def listed(document):
        for image in document["images"]:
            if image["cocoid"] in sentid:
                ids = sentid[image["cocoid"]]
                image.update(sentids=ids, sentences=[{"raw": "x", "sentid": i} for i in ids])

    def annotated(document):
        of_folder = {image["id"] for image in document["images"]}
        document["annotations"] += [
            {"id": i, "image_id": image_id, "caption": f"Caption {i}."}
            for image_id in of_folder & set(sentid)
            for i in sentid[image_id]
        ]

    edit_json(spec.files["splits"], listed)
    for part in ("train", "val"):
        edit_json(spec.files[f"{part}_captions"], annotated)
    return sentid


def test_coco_images_with_five_six_and_seven_captions_give_their_first_five(tmp_path):
    spec = write_coco(tmp_path)
    sentids = with_captions(spec, {57: 5, 31: 6, 9: 7})
    images, captions = read_corpus(spec)
    for image_id, ids in sentids.items():
        (row,) = images.index[images["image_id"] == str(image_id)]
        assert captions["caption_id"][captions["image_index"] == row].tolist() == ids[:5]
    assert (captions["image_index"].value_counts() == 5).all()
    # One of 31, two of 9, and one of 12, which has six to begin with.
    assert images.attrs["facts"]["ignored"]["surplus captions"] == 4
    refused(
        replace(spec, surplus_captions="error"),
        "more than 5 captions (3 in all)",
        f"{coco_name(31, 'train2014')} has 6",
        f"{coco_name(9, 'val2014')} has 7",
    )


def test_coco_images_that_no_split_lists_are_named_when_a_split_is_short(tmp_path):
    spec = write_coco(tmp_path)
    edit_json(spec.files["splits"], lambda d: d["images"].pop(8))
    images, _ = read_corpus(replace(spec, expected_images={}))
    assert images.attrs["facts"]["ignored"]["captioned images in no split"] == 1
    message = refused(
        spec,
        "train has 2 images and 10 captions, 1 fewer than 3; it lists 31 to 5 (expected 15 captions)",
        "Captioned images that no split lists: 1 (3)",
        f"Photographs that no split lists: 1 ({coco_name(3, 'train2014')})",
    )
    assert "val has" not in message


def test_coco_an_image_in_the_wrong_split_makes_one_short_and_one_long(tmp_path):
    spec = write_coco(tmp_path)
    edit_json(spec.files["splits"], lambda d: d["images"][2].update(split="test"))
    refused(
        spec,
        "val has 1 images and 5 captions, 1 fewer than 2",
        "test has 3 images and 15 captions, 1 more than 2; beyond it are 8 (val2014/",
        "images[4]",
        "Captioned images that no split lists: 0.",
    )


def test_coco_unknown_split_is_named(tmp_path):
    spec = write_coco(tmp_path)
    edit_json(spec.files["splits"], lambda d: d["images"][2].update(split="valid"))
    refused(spec, "unknown splits (1 in all)", "images[2]", coco_name(9, "val2014"), "'valid'")


def test_coco_sentence_ids_that_occur_twice_are_named_with_both_images(tmp_path):
    spec = write_coco(tmp_path)

    def repeat(document):
        image = document["images"][4]
        image["sentids"][0] = image["sentences"][-1]["sentid"] = 57000

    edit_json(spec.files["splits"], repeat)
    refused(
        spec,
        "sentence ids that occur twice (1 in all)",
        f"sentid 57000 (val2014/{coco_name(57, 'val2014')} and val2014/{coco_name(8, 'val2014')})",
    )


def test_coco_keeps_all_captions_when_no_number_is_given(tmp_path):
    _, captions = read_corpus(replace(write_coco(tmp_path), captions_per_image=None))
    assert captions["image_index"].value_counts().sort_index().tolist() == [5, 6] + [5] * 7


def test_coco_sentences_without_annotation_are_named(tmp_path):
    spec = write_coco(tmp_path)
    edit_json(spec.files["val_captions"], lambda d: d["annotations"].pop(0))
    refused(spec, "that COCO does not annotate (1 in all)", "sentid 70004", spec.files["val_captions"])


def test_coco_annotations_of_another_image_are_named(tmp_path):
    spec = write_coco(tmp_path)
    edit_json(spec.files["train_captions"], lambda d: d["annotations"][0].update(image_id=5))
    refused(spec, "another image", "sentid 3004: image 5", "3 in the split file")


def test_coco_annotation_ids_that_occur_twice_are_named(tmp_path):
    spec = write_coco(tmp_path)
    edit_json(spec.files["train_captions"], lambda d: d["annotations"].append(d["annotations"][2]))
    refused(spec, spec.files["train_captions"], "id 3002")


def test_coco_instances_file_is_no_captions_file(tmp_path):
    spec = write_coco(tmp_path)
    edit_json(spec.files["train_captions"], lambda d: [a.pop("caption") for a in d["annotations"]])
    refused(spec, spec.files["train_captions"], "annotations[0]", "(15 in all)")


def test_coco_of_another_year_is_refused(tmp_path):
    spec = write_coco(tmp_path)
    edit_json(spec.files["splits"], lambda d: d["images"][3].update(filepath="train2017", filename="x.jpg"))
    refused(spec, "images[3]", "train2017/x.jpg", "COCO 2014")


@pytest.mark.parametrize("text", ["", "  \n"])
def test_coco_empty_captions_are_named(tmp_path, text):
    spec = write_coco(tmp_path)
    edit_json(spec.files["train_captions"], lambda d: d["annotations"][0].update(caption=text))
    refused(spec, "Empty captions (1 in all)", f"{spec.files['train_captions']}: annotation 3004")


# Karpathy's files


def test_karpathy_order_and_text(tmp_path):
    images, captions = read_corpus(write_karpathy(tmp_path))
    assert images["image_id"].tolist() == ["b", "d", "a", "c", "e"]
    assert images["split"].tolist() == ["train", "test", "val", "train", "test"]
    assert captions["caption_id"].tolist() == list(range(10))
    assert captions["text"].iloc[3] == "d.jpg caption 1 ."
    assert captions["image_index"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_karpathy_file_is_found_in_an_archive_of_several(tmp_path):
    spec = write_karpathy(tmp_path / "a")
    (tmp_path / "all").mkdir()
    for name in ("dataset_coco.json", "dataset_flickr30k.json"):
        (tmp_path / "all" / name).write_bytes(Path(spec.files["splits"]).read_bytes())
    packed = zipped(replace(spec, files={**spec.files, "splits": str(tmp_path / "all")}))
    pd.testing.assert_frame_equal(read_corpus(packed)[1], read_corpus(spec)[1])
    refused(replace(packed, name="flickr8k"), "all.zip: holds no dataset_flickr8k.json")


BAD_KARPATHY = {
    "unknown split": (
        lambda images: images[1].update(split="dev"),
        ["unknown splits (1 in all)", "images[1] (d.jpg): 'dev'", "train, restval, val, test"],
    ),
    "sentence id twice": (
        lambda images: (images[3].update(sentids=[6, 1]), images[3]["sentences"][1].update(sentid=1)),
        ["twice (1 in all)", "sentid 1 (b.jpg and c.jpg)"],
    ),
    "no captions": (
        lambda images: images[2].update(sentids=[], sentences=[]),
        ["without captions (1 in all)", "images[2]: a.jpg"],
    ),
    "seven captions": (
        lambda images: images[2].update(
            sentids=list(range(50, 57)), sentences=[{"raw": "x", "sentid": i} for i in range(50, 57)]
        ),
        ["more than 2 captions (1 in all)", "a.jpg has 7", "surplus_captions"],
    ),
    "empty caption": (
        lambda images: images[4]["sentences"][0].update(raw=" \t"),
        ["Empty captions (1 in all)", "sentid 8 (e.jpg)"],
    ),
    "caption that is no text": (
        lambda images: images[4]["sentences"][1].update(raw=None),
        ["not UTF-8 text (1 in all)", "sentid 9 (e.jpg)", "NoneType"],
    ),
    "no file name": (lambda images: images[0].pop("filename"), ["images[0]", "'filename'"]),
    "image twice": (
        lambda images: images.append(
            {
                **images[0],
                "split": "test",
                "sentids": [90, 91],
                "sentences": [{"raw": "x", "sentid": i} for i in (90, 91)],
            }
        ),
        ["listed twice (1 in all)", "b (train", "test", "images[5]"],
    ),
    "sentences that disagree": (
        lambda images: images[0].update(sentids=[0, 77]),
        ["images[0]", "disagree about [1, 77]"],
    ),
    "sentence id as text": (
        lambda images: images[0].update(sentids=["0", "1"]),
        ["images[0]", "whole numbers"],
    ),
    "entry that is no object": (lambda images: images.insert(1, "d.jpg"), ["images[1]", "object"]),
    "sentences that are no objects": (
        lambda images: images[1].update(sentences=["x"]),
        ["images[1]", "'sentences'"],
    ),
    "nothing": (lambda images: images.clear(), ["no split lists an image"]),
}


@pytest.mark.parametrize("case", BAD_KARPATHY)
def test_karpathy_bad_entries_are_named_with_file_and_row(tmp_path, case):
    edit, parts = BAD_KARPATHY[case]
    spec = write_karpathy(tmp_path)
    edit_json(spec.files["splits"], lambda document: edit(document["images"]))
    refused(spec, "dataset_flickr30k.json", *parts)


def test_all_problems_of_a_kind_are_counted_and_five_are_named(tmp_path):
    spec = write_karpathy(tmp_path)

    def empty(document):
        for image in document["images"]:
            for sentence in image["sentences"]:
                sentence["raw"] = ""

    edit_json(spec.files["splits"], empty)
    message = refused(spec, "(10 in all)", "and 5 more")
    assert message.count("sentid") == 5


def test_half_a_surrogate_pair_is_no_text(tmp_path):
    spec = write_karpathy(tmp_path)
    path = Path(spec.files["splits"])
    path.write_text(path.read_text().replace("a.jpg caption 0", "a.jpg \\ud800 caption"))
    refused(spec, "not UTF-8 text (1 in all)", "sentid 4 (a.jpg)")


def test_malformed_json_names_line_and_column(tmp_path):
    spec = write_karpathy(tmp_path)
    path = Path(spec.files["splits"])
    path.write_text(path.read_text()[:-40])
    refused(spec, str(path), "not valid JSON", "line 1, column")


def test_json_that_is_not_utf8_names_the_place(tmp_path):
    spec = write_karpathy(tmp_path)
    path = Path(spec.files["splits"])
    path.write_bytes(path.read_bytes().replace(b"a.jpg caption 1", b"a.jpg caf\xe9 1"))
    refused(spec, str(path), "not UTF-8 (1 in all)", "line 1, byte", "0xe9 after", "a.jpg caf")


@pytest.mark.parametrize(("document", "part"), [([], "list"), ({"annotations": []}, "'images'")])
def test_json_of_another_form_is_refused(tmp_path, document, part):
    spec = write_karpathy(tmp_path)
    write_json(Path(spec.files["splits"]), document)
    refused(spec, spec.files["splits"], part)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["train", "restval", "val", "test"]),
            st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_splits_are_disjoint_and_captions_survive(tmp_path_factory, corpus):
    root = tmp_path_factory.mktemp("corpus")
    sentid = iter(range(1000))
    images = []
    for row, (split, texts) in enumerate(corpus):
        (root / f"{row}.jpg").write_bytes(b"")
        said = [{"raw": text, "sentid": next(sentid)} for text in texts]
        images.append({"filename": f"{row}.jpg", "split": split, "sentences": said})
    (root / "splits.json").write_text(json.dumps({"images": images}))
    spec = CorpusSpec("any", "karpathy", {"images": str(root), "splits": str(root / "splits.json")})
    images, captions = read_corpus(spec)
    by_split = [set(part["image_id"]) for _, part in images.groupby("split")]
    assert sum(map(len, by_split)) == len(set().union(*by_split)) == len(corpus)
    assert images["split"].tolist() == [split for split, _ in corpus]
    assert captions["text"].tolist() == [text for _, texts in corpus for text in texts]
    assert captions["image_index"].tolist() == [row for row, (_, texts) in enumerate(corpus) for _ in texts]


# Flickr8k's original release


def test_flickr8k_order_ids_and_what_is_ignored(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="vsepp"):
        images, captions = read_corpus(write_flickr8k(tmp_path))
    assert images["image_id"].tolist() == ["b", "c", "a", "d", "e"]
    assert images["split"].tolist() == ["train", "train", "val", "test", "test"]
    # Lines of the token file, from 1; the first two caption x.jpg.
    assert captions["caption_id"].tolist() == [3, 4, 9, 10, 7, 8, 5, 6, 11, 12]
    assert images.attrs["facts"]["ignored"]["captioned images in no split"] == 1
    assert "1 captioned photographs are in no split" in caplog.text


def test_flickr8k_gives_the_images_and_texts_that_karpathys_file_gives(tmp_path):
    one = read_corpus(write_flickr8k(tmp_path / "original"))
    other = read_corpus(write_karpathy(tmp_path / "karpathy"))
    texts = [
        sorted(
            zip(
                images["image_id"].iloc[captions["image_index"]],
                captions["text"],
                captions["split"],
                strict=True,
            )
        )
        for images, captions in (one, other)
    ]
    assert texts[0] == texts[1]


def test_flickr8k_with_dos_lines_a_mark_and_odd_white_space_reads_the_same(tmp_path):
    spec = write_flickr8k(tmp_path)
    expected = read_corpus(spec)[1]
    for path in Path(spec.files["text"]).iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    pd.testing.assert_frame_equal(read_corpus(spec)[1], expected)


def test_flickr8k_line_separators_inside_a_caption_do_not_break_it(tmp_path):
    spec = write_flickr8k(tmp_path)
    tokens = Path(spec.files["text"]) / "Flickr8k.token.txt"
    tokens.write_text(
        tokens.read_text().replace("b.jpg caption 0", "b.jpg\u2028caption\x85 0"), encoding="utf-8"
    )
    assert read_corpus(spec)[1]["text"].iloc[0] == "b.jpg\u2028caption\x85 0 ."


def test_flickr8k_unknown_images_of_a_list_are_named_with_file_and_line(tmp_path):
    spec = write_flickr8k(tmp_path)
    with (Path(spec.files["text"]) / "Flickr_8k.devImages.txt").open("a") as stream:
        stream.write("stranger.jpg\n")
    refused(spec, "Flickr_8k.devImages.txt: line 2: stranger.jpg", "(1 in all)", "Flickr8k.token.txt")


def test_flickr8k_an_image_in_two_lists_is_refused(tmp_path):
    spec = write_flickr8k(tmp_path)
    with (Path(spec.files["text"]) / "Flickr_8k.testImages.txt").open("a") as stream:
        stream.write("b.jpg\n")
    refused(spec, "listed twice", "Flickr_8k.trainImages.txt: line 1", "Flickr_8k.testImages.txt: line 3")


BAD_TOKENS = {
    "no tab": (b"a.jpg#0\ta", b"a.jpg#0 a", ["malformed lines (1 in all)", "line 7: 'a.jpg#0 a"]),
    "no number": (b"a.jpg#0\t", b"a.jpg\t", ["malformed lines (1 in all)", "line 7"]),
    "twice": (b"a.jpg#1\t", b"a.jpg#0\t", ["occur twice (1 in all)", "line 8: a.jpg#0"]),
    "empty": (
        b"a.jpg caption 1 .",
        b"  ",
        ["Empty captions (1 in all)", "Flickr8k.token.txt: line 8 (a.jpg)"],
    ),
    "not UTF-8": (b"a.jpg caption 1", b"a.jpg caf\xe9 1", ["not UTF-8 (1 in all)", "line 8, byte 18: 0xe9"]),
    "too few": (b"a.jpg#1\ta.jpg caption 1 .\n", b"", ["fewer than 2 captions (1 in all)", "a.jpg has 1"]),
    "seven": (
        b"a.jpg#1\t",
        b"".join(b"a.jpg#%d\tx\n" % k for k in range(2, 7)) + b"a.jpg#1\t",
        ["more than 2 captions (1 in all)", "a.jpg has 7"],
    ),
}


@pytest.mark.parametrize("case", BAD_TOKENS)
def test_flickr8k_bad_captions_are_named_with_file_and_line(tmp_path, case):
    old, new, parts = BAD_TOKENS[case]
    spec = write_flickr8k(tmp_path)
    path = Path(spec.files["text"]) / "Flickr8k.token.txt"
    row = path.read_bytes().replace(b"\ta.jpg caption 1 .", b"\ta.jpg caption 1 .")
    # The order in the file is b, d, a, c, e behind x: a's captions are lines 7 and 8.
    assert row.count(old) == 1
    path.write_bytes(row.replace(old, new))
    refused(spec, *parts)


def test_flickr8k_text_without_a_list_is_named(tmp_path):
    spec = write_flickr8k(tmp_path)
    (Path(spec.files["text"]) / "Flickr_8k.testImages.txt").unlink()
    refused(spec, f"{spec.files['text']}: holds no Flickr_8k.testImages.txt")


def test_flickr8k_the_real_release():
    beside = Path(__file__).resolve().parents[4] / "shared/data/flickr8k"
    archives = Path(os.environ.get("VSEPP_FLICKR8K_ARCHIVES", beside))
    if not (archives / "Flickr8k_text.zip").is_file():
        pytest.skip("Flickr8k's archives are not here; VSEPP_FLICKR8K_ARCHIVES names their folder")
    spec = CorpusSpec(
        "flickr8k",
        "flickr8k",
        {"images": str(archives / "Flickr8k_Dataset.zip"), "text": str(archives / "Flickr8k_text.zip")},
        captions_per_image=5,
        expected_images={"train": 6000, "val": 1000, "test": 1000},
    )
    images, captions = read_corpus(spec)
    facts = images.attrs["facts"]
    assert facts["images"] == {"train": 6000, "val": 1000, "test": 1000}
    assert facts["captions"] == {"train": 30000, "val": 5000, "test": 5000}
    assert facts["ignored"] == {"captioned images in no split": 92, "surplus captions": 0}
    assert (captions["image_index"].value_counts() == 5).all()
    first = captions[
        captions["image_index"] == images.index[images["image_id"] == "1000268201_693b08cb0e"][0]
    ]
    assert first["caption_id"].tolist() == [1, 2, 3, 4, 5]
    assert first["text"].iloc[1] == "A girl going into a wooden building ."


def test_sizes_of_the_generated_corpus_are_what_the_tests_assume():
    assert {split: sum(s == split for _, _, s in COCO_IMAGES) for split in COCO_SIZES} == COCO_SIZES
