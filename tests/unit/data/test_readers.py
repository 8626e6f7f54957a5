"""Each layout's own order, ids and texts, and what is told of raw files that are not as they should be."""

from dataclasses import replace
from pathlib import Path

import flickr8k
import pandas as pd
import pytest
from raw_layouts import (
    COCO_IMAGES,
    COCO_SIZES,
    coco_name,
    corpus,
    edit_json,
    read,
    refused,
    write_coco,
    write_flickr8k,
    write_karpathy,
    zipped,
)


def captions_of(spec):
    return read(spec)[1]


def replaced(path, old, new):
    """Replace bytes that occur once in a file."""
    data = Path(path).read_bytes()
    assert data.count(old) == 1
    Path(path).write_bytes(data.replace(old, new))


# COCO


def test_coco_order_split_and_text_come_from_their_files(tmp_path):
    assert {split: sum(s == split for _, _, s in COCO_IMAGES) for split in COCO_SIZES} == COCO_SIZES
    images, captions = read(write_coco(tmp_path))
    assert images["image_id"].tolist() == [str(i) for i, _, _ in COCO_IMAGES]
    assert images["split"].tolist() == [split for _, _, split in COCO_IMAGES]
    assert images["file_name"].tolist() == [coco_name(i, folder) for i, folder, _ in COCO_IMAGES]
    assert images["container"].tolist() == [f"{folder[:-4]}_images" for _, folder, _ in COCO_IMAGES]
    # The order of `sentids`, the first five, and COCO's own text rather than Karpathy's.
    of_12 = captions[captions["image_index"] == 1]
    assert of_12["caption_id"].tolist() == [12005, 12004, 12003, 12002, 12001]
    assert of_12["text"].iloc[0] == "Caption 12005 of café."
    assert images.attrs["facts"]["ignored"] == {"captioned images in no split": 0, "surplus captions": 1}


def test_coco_images_may_lie_in_one_folder_and_annotations_in_an_archive(tmp_path):
    spec = write_coco(tmp_path)
    together = {**spec.files, "train_images": str(tmp_path), "val_images": str(tmp_path)}
    images, _ = read(replace(spec, files=together))
    assert images["member"].iloc[0] == f"val2014/{coco_name(57, 'val2014')}"
    folders = {role: str(Path(spec.files[role]).parent) for role in ("train_captions", "val_captions")}
    packed = zipped(replace(spec, files={**spec.files, **folders}), prefix="annotations/")
    assert packed.files["train_captions"].endswith("annotations.zip")
    pd.testing.assert_frame_equal(captions_of(packed), captions_of(spec))


def test_coco_images_with_more_than_five_captions_are_refused_or_kept_whole_where_that_is_said(tmp_path):
    spec = write_coco(tmp_path)
    too_many = f"{coco_name(12, 'val2014')}' has 6"
    refused(
        replace(spec, surplus_captions="error"),
        "dataset_coco.json",
        too_many,
    )
    of_image = captions_of(replace(spec, captions_per_image=None))["image_index"].value_counts().sort_index()
    assert of_image.tolist() == [5, 6, 5, 5, 5, 5, 5, 5, 5]


def test_coco_images_that_no_split_lists_are_named_when_a_split_is_short(tmp_path):
    spec = write_coco(tmp_path)
    edit_json(spec.files["splits"], lambda d: d["images"].pop(8))
    images, _ = read(replace(spec, expected_images={}))
    assert images.attrs["facts"]["ignored"]["captioned images in no split"] == 1
    message = refused(
        spec,
        "train has 2 images, expected 3",
        "Captioned images that no split lists: 3.",
    )
    assert "val has" not in message


# File → edit → what is said of it.
BAD_COCO = {
    "another year": (
        "splits",
        lambda d: d["images"][3].update(filepath="train2017", filename="x.jpg"),
        "dataset_coco.json: images[3] … train2017/x.jpg",
    ),
    "sentence without annotation": (
        "val_captions",
        lambda d: d["annotations"].pop(0),
        "dataset_coco.json: images[ … sentid 70004 … captions_val2014.json",
    ),
    "annotation of another image": (
        "train_captions",
        lambda d: d["annotations"][0].update(image_id=5),
        "dataset_coco.json: images[ … sentid 3004 … 5 … captions_train2014.json … 3",
    ),
    "annotation id twice": (
        "train_captions",
        lambda d: d["annotations"].append(d["annotations"][2]),
        "captions_train2014.json: annotations[2] … id 3002",
    ),
    "instances": (
        "train_captions",
        lambda d: [a.pop("caption") for a in d["annotations"]],
        "captions_train2014.json: annotations[0] … caption",
    ),
}


@pytest.mark.parametrize("case", BAD_COCO)
def test_coco_what_is_wrong_is_named_with_file_and_row(tmp_path, case):
    role, edit, said = BAD_COCO[case]
    spec = write_coco(tmp_path)
    edit_json(spec.files[role], edit)
    refused(spec, said)


# Karpathy's files


def test_karpathy_order_and_text(tmp_path):
    images, captions = read(write_karpathy(tmp_path))
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
    pd.testing.assert_frame_equal(captions_of(packed), captions_of(spec))
    refused(replace(packed, name="flickr8k"), "all.zip: holds no dataset_flickr8k.json")


def sentences(*ids):
    return {"sentids": list(ids), "sentences": [{"raw": "x", "sentid": i} for i in ids]}


# Edit → what is said of it.
BAD_KARPATHY = {
    "unknown split": (lambda images: images[1].update(split="dev"), "images[1] … 'dev'"),
    "sentence id twice": (
        lambda images: (images[3].update(sentids=[6, 1]), images[3]["sentences"][1].update(sentid=1)),
        "images[3] … sentid 1 … b.jpg",
    ),
    "no captions": (lambda images: images[2].update(sentences()), "images[2] … a.jpg"),
    "empty captions": (
        lambda images: [sentence.update(raw=" \t") for sentence in images[2]["sentences"]],
        "sentid 4 … a.jpg",
    ),
    "half a letter": (lambda images: images[2]["sentences"][0].update(raw="\ud800"), "sentid 4 … a.jpg"),
    "caption that is no text": (
        lambda images: images[4]["sentences"][1].update(raw=None),
        "sentid 9 … e.jpg … null",
    ),
    "image twice": (
        lambda images: images.append({**images[0], "split": "test", **sentences(90, 91)}),
        "images[5] … 'b' … test … images[0] … train",
    ),
    "no file name": (lambda images: images[0].pop("filename"), "images[0].filename"),
    "sentences that disagree": (lambda images: images[0].update(sentids=[0, 77]), "images[0] … [1, 77]"),
    "ids that are null": (lambda images: images[0].update(sentids=None), "images[0].sentids … null"),
    "id as text": (lambda images: images[0].update(sentids=["0", "1"]), "images[0] … '0'"),
    "entry that is no object": (lambda images: images.insert(1, "d.jpg"), "images[1] … 'd.jpg'"),
    "sentence that is no object": (
        lambda images: images[1].update(sentences=["x"]),
        "images[1].sentences[0]",
    ),
}


@pytest.mark.parametrize("case", BAD_KARPATHY)
def test_karpathy_bad_entries_are_named_with_file_and_row(tmp_path, case):
    edit, said = BAD_KARPATHY[case]
    spec = write_karpathy(tmp_path)
    edit_json(spec.files["splits"], lambda document: edit(document["images"]))
    refused(spec, "dataset_flickr30k.json", said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"images": [{"filename": "caf\xe9', "line 1, byte 30"),
        (b'{"images": [', "line 1, column 13"),
        (b"[]", "[]"),
        (b'{"annotations": []}', "images: "),
        (b'{"images": []}', ""),
    ],
)
def test_what_is_no_json_of_this_form_names_the_place(tmp_path, content, said):
    spec = write_karpathy(tmp_path)
    Path(spec.files["splits"]).write_bytes(content)
    refused(spec, spec.files["splits"], said)


# Flickr8k's original release


def tokens_of(spec):
    return Path(spec.files["text"]) / "Flickr8k.token.txt"


def test_flickr8k_order_ids_and_what_is_ignored(tmp_path):
    images, captions = read(write_flickr8k(tmp_path))
    assert images["image_id"].tolist() == ["b", "c", "a", "d", "e"]
    assert images["split"].tolist() == ["train", "train", "val", "test", "test"]
    # Lines of the token file, from 1; the first two caption x.jpg.
    assert captions["caption_id"].tolist() == [3, 4, 9, 10, 7, 8, 5, 6, 11, 12]
    assert images.attrs["facts"]["ignored"]["captioned images in no split"] == 1


def test_flickr8k_line_ends_are_those_of_lines_and_no_other_characters(tmp_path):
    spec = write_flickr8k(tmp_path)
    expected = captions_of(spec)
    for path in Path(spec.files["text"]).iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    pd.testing.assert_frame_equal(captions_of(spec), expected)
    replaced(tokens_of(spec), b"b.jpg caption 0", "b.jpg\u2028caption\x85 0".encode())
    assert captions_of(spec)["text"].iloc[0] == "b.jpg\u2028caption\x85 0 ."


def test_flickr8k_images_of_a_list_that_nobody_captioned_are_named_with_file_and_line(tmp_path):
    spec = write_flickr8k(tmp_path)
    with (Path(spec.files["text"]) / "Flickr_8k.devImages.txt").open("a") as stream:
        stream.write("stranger.jpg\n")
    refused(spec, "Flickr_8k.devImages.txt: line 2: 'stranger.jpg' … Flickr8k.token.txt")


# What stands in the file → what stands there instead → what is said of it.
BAD_TOKENS = {
    "no tab": (b"a.jpg#0\ta", b"a.jpg#0 a", "line 7 … a.jpg#0 a"),
    "another script": (b"a.jpg#1", "a.jpg#١".encode(), "line 8"),
    "twice": (b"a.jpg#1\t", b"a.jpg#0\t", "line 8 … 0 of 'a.jpg' … 1"),
    "not UTF-8": (b"a.jpg caption 1", b"a.jpg caf\xe9 1", "line 8, byte 18"),
    "cut": (b"e.jpg caption 1 .\n", b"e.jpg caption 1 .", ""),
}


@pytest.mark.parametrize("case", BAD_TOKENS)
def test_flickr8k_bad_captions_are_named_with_file_and_line(tmp_path, case):
    old, new, said = BAD_TOKENS[case]
    spec = write_flickr8k(tmp_path)
    # The order in the file is b, d, a, c, e behind x: a's captions are lines 7 and 8.
    replaced(tokens_of(spec), old, new)
    refused(spec, "Flickr8k.token.txt", said)


def test_flickr8k_the_real_release():
    archives = flickr8k.archives("Flickr8k_text.zip")
    named = ("Flickr8k_Dataset.zip", "Flickr8k_Dataset", "Flicker8k_Dataset")
    photographs = next(path for name in named if (path := archives / name).exists())
    files = {"images": photographs, "text": archives / "Flickr8k_text.zip"}
    sizes = {"train": 6000, "val": 1000, "test": 1000}
    images, captions = read(corpus("flickr8k", "flickr8k", files, expected_images=sizes))
    facts = images.attrs["facts"]
    assert facts["images"] == sizes
    assert facts["captions"] == {"train": 30000, "val": 5000, "test": 5000}
    assert facts["ignored"] == {"captioned images in no split": 92, "surplus captions": 0}
    assert (captions["image_index"].value_counts() == 5).all()
    row = images.index[images["image_id"] == "1000268201_693b08cb0e"][0]
    first = captions[captions["image_index"] == row]
    assert first["caption_id"].tolist() == [1, 2, 3, 4, 5]
    assert first["text"].iloc[1] == "A girl going into a wooden building ."


# What is left out first


@pytest.mark.parametrize("caption", ["", None, "\ud800"])
def test_a_caption_of_an_image_that_is_left_out_is_not_checked(tmp_path, caption):
    spec = replace(write_karpathy(tmp_path), captions_per_image=None)
    edit_json(spec.files["splits"], lambda d: d["images"][4]["sentences"][0].update(raw=caption))
    refused(spec, "sentid 8")
    (tmp_path / "images" / "e.jpg").unlink()
    assert read(replace(spec, leave_out=("e",)))[0]["image_id"].tolist() == ["b", "d", "a", "c"]


def test_few_captions_that_cannot_be_used_are_left_out_and_line_breaks_are_blanks(tmp_path, caplog):
    spec = replace(write_karpathy(tmp_path), captions_per_image=None)

    def more(document):
        said = [{"raw": f"more {k}", "sentid": 100 + k} for k in range(30)]
        said += [{"raw": "", "sentid": 200}, {"raw": "on two\nlines", "sentid": 201}]
        document["images"][0].update(sentids=[s["sentid"] for s in said], sentences=said)

    edit_json(spec.files["splits"], more)
    images, captions = read(spec)
    assert (captions["image_index"] == 0).sum() == 31 and "on two lines" in captions["text"].tolist()
    assert images.attrs["facts"]["unusable"] == 1 and "sentid 200" in caplog.text
