"""Each layout's own order, ids and texts, and rows of raw files that are named; see `test_corpora` for all layouts."""

from dataclasses import replace
from pathlib import Path

import flickr8k
import pandas as pd
import pytest
from raw_layouts import (
    COCO_IMAGES,
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

from vsepp.base.spec import Component


def captions_of(spec):
    return read(spec)[1]


def at(*path, value):
    """An edit that puts a value at a path of a JSON document."""

    def edit(document):
        *outer, last = path
        for key in outer:
            document = document[key]
        document[last] = value

    return edit


# COCO


def test_coco_order_split_and_text_come_from_their_files(tmp_path):
    spec = write_coco(tmp_path)
    images, captions = read(spec)
    assert images["image_id"].tolist() == [str(number) for number, _, _ in COCO_IMAGES]
    assert images["split"].tolist() == [split for _, _, split in COCO_IMAGES]
    assert images["file_name"].tolist() == [coco_name(number, folder) for number, folder, _ in COCO_IMAGES]
    assert images["container"].tolist() == [f"{folder[:-4]}_images" for _, folder, _ in COCO_IMAGES]
    # The order of `sentids`, the first five of six, and COCO's own text rather than Karpathy's.
    of_12 = captions[captions["image_index"] == 1]
    assert of_12["caption_id"].tolist() == [12005, 12004, 12003, 12002, 12001]
    assert of_12["text"].iloc[0] == "Caption 12005 of café."
    assert images.attrs["facts"]["ignored"] == {"captioned images in no split": 0, "surplus captions": 1}
    by_id = captions_of(replace(spec, reader=Component("coco", {"captions": "by_id"})))
    of_12 = by_id[by_id["image_index"] == 1]
    assert of_12["caption_id"].tolist() == [12000, 12001, 12002, 12003, 12004]
    assert of_12["text"].iloc[0] == "Caption 12000 of café."


def test_coco_images_may_lie_in_one_folder_and_annotations_in_an_archive(tmp_path):
    spec = write_coco(tmp_path)
    together = {**spec.files, "train_images": str(tmp_path), "val_images": str(tmp_path)}
    images, _ = read(replace(spec, files=together))
    assert images["member"].iloc[0] == f"val2014/{coco_name(57, 'val2014')}"
    folders = {role: str(Path(spec.files[role]).parent) for role in ("train_captions", "val_captions")}
    packed = zipped(replace(spec, files={**spec.files, **folders}), prefix="annotations/")
    assert packed.files["train_captions"].endswith("annotations.zip")
    pd.testing.assert_frame_equal(captions_of(packed), captions_of(spec))


def test_coco_surplus_captions_are_refused_or_kept_where_the_corpus_says_so(tmp_path):
    spec = write_coco(tmp_path)
    refused(
        replace(spec, surplus_captions="error"), "dataset_coco.json", f"{coco_name(12, 'val2014')}' has 6"
    )
    counts = captions_of(replace(spec, captions_per_image=None))["image_index"].value_counts().sort_index()
    assert counts.tolist() == [5, 6, 5, 5, 5, 5, 5, 5, 5]


def test_coco_images_that_no_split_lists_are_named_when_a_split_is_short(tmp_path):
    spec = write_coco(tmp_path)
    edit_json(spec.files["splits"], lambda document: document["images"].pop(8))
    images, _ = read(replace(spec, expected_images={}))
    assert images.attrs["facts"]["ignored"]["captioned images in no split"] == 1
    message = refused(spec, "train has 2 images, expected 3", "3.")
    assert "val has" not in message


HUGE = 1 << 70
# File → edit → what the message names.
BAD_COCO = {
    "a list as an annotation": (
        "train_captions",
        at("annotations", 2, value=[]),
        "captions_train2014.json: annotations[2]",
    ),
    "an id beyond 64 bits": (
        "train_captions",
        at("annotations", 2, value={"id": HUGE, "image_id": 3, "caption": "x"}),
        f"captions_train2014.json: annotations[2].id … {HUGE}",
    ),
    "another image": (
        "train_captions",
        at("annotations", 0, "image_id", value=5),
        "dataset_coco.json: images[ … sentid 3004 … 5 … captions_train2014.json … 3",
    ),
    "no annotation": (
        "val_captions",
        lambda document: document["annotations"].pop(0),
        "dataset_coco.json: images[ … sentid 70004 … captions_val2014.json",
    ),
    "an annotation twice": (
        "train_captions",
        lambda document: document["annotations"].append(document["annotations"][2]),
        "captions_train2014.json: annotations[2] … id 3002",
    ),
    "another year": (
        "splits",
        lambda document: document["images"][3].update(filepath="train2017", filename="x.jpg"),
        "dataset_coco.json: images[3] … train2017/x.jpg",
    ),
    "a file of another image": (
        "splits",
        at("images", 0, "filename", value=coco_name(12, "val2014")),
        "dataset_coco.json: images[0]",
    ),
}


@pytest.mark.parametrize("case", BAD_COCO)
def test_coco_names_file_and_row_of_a_fault(tmp_path, case):
    role, edit, message = BAD_COCO[case]
    spec = write_coco(tmp_path)
    edit_json(spec.files[role], edit)
    refused(spec, message)


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
    refused(replace(packed, name="flickr8k"), "all.zip", "dataset_flickr8k.json")


def sentences(*ids):
    return {"sentids": list(ids), "sentences": [{"raw": "x", "sentid": number} for number in ids]}


# Edit → what the message names.
BAD_KARPATHY = {
    "an unknown split": (at(1, "split", value="dev"), "images[1] … 'dev'"),
    "a sentence id twice": (
        lambda images: (images[3].update(sentids=[6, 1]), images[3]["sentences"][1].update(sentid=1)),
        "images[3] … sentid 1 … b.jpg",
    ),
    "no captions": (lambda images: images[2].update(sentences()), "images[2] … a.jpg"),
    "half a letter": (at(2, "sentences", 0, "raw", value="\ud800"), "sentid 4 … a.jpg"),
    "an empty caption": (at(2, "sentences", 0, "raw", value=" \t"), "sentid 4 … a.jpg"),
    "a caption that is no text": (at(4, "sentences", 1, "raw", value=None), "sentid 9 … e.jpg … null"),
    "an image twice": (
        lambda images: images.append({**images[0], "split": "test", **sentences(90, 91)}),
        "images[5] … 'b' … test … images[0] … train",
    ),
    "no file name": (lambda images: images[0].pop("filename"), "images[0].filename"),
    "sentences that disagree": (at(0, "sentids", value=[0, 77]), "images[0] … [1, 77]"),
    **{
        f"the name {name!r}": (at(2, "filename", value=name), "images[2]")
        for name in ("/etc/passwd", "x/../../a.jpg", "a\0.jpg", "a\x1b[2J.jpg", "\ud800.jpg", "C:/a.jpg")
    },
}


@pytest.mark.parametrize("case", BAD_KARPATHY)
def test_karpathy_names_file_and_entry_of_a_fault(tmp_path, case):
    edit, message = BAD_KARPATHY[case]
    spec = write_karpathy(tmp_path)
    edit_json(spec.files["splits"], lambda document: edit(document["images"]))
    assert refused(spec, "dataset_flickr30k.json", message).isprintable()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"images": [{"filename": "caf\xe9', "line 1, byte 30"),
        (b'{"images": [', "line 1, column 13"),
        (b'{"annotations": []}', "images: "),
    ],
)
def test_a_damaged_json_file_is_named_with_the_place(tmp_path, content, message):
    spec = write_karpathy(tmp_path)
    Path(spec.files["splits"]).write_bytes(content)
    refused(spec, spec.files["splits"], message)


def test_a_few_captions_that_cannot_be_used_are_left_out_and_line_breaks_are_blanks(tmp_path, caplog):
    spec = replace(write_karpathy(tmp_path), captions_per_image=None)

    def more(document):
        texts = {100 + k: f"more {k}" for k in range(30)} | {200: "", 201: "on two\nlines"}
        listed = [{"raw": text, "sentid": number} for number, text in texts.items()]
        document["images"][0].update(sentids=list(texts), sentences=listed)

    edit_json(spec.files["splits"], more)
    images, captions = read(spec)
    assert (captions["image_index"] == 0).sum() == 31 and "on two lines" in captions["text"].tolist()
    assert images.attrs["facts"]["unusable"] == 1 and "sentid 200" in caplog.text


# Flickr8k's original release


def tokens_of(spec):
    return Path(spec.files["text"]) / "Flickr8k.token.txt"


def test_flickr8k_order_ids_and_ignored_images(tmp_path):
    images, captions = read(write_flickr8k(tmp_path))
    assert images["image_id"].tolist() == ["b", "c", "a", "d", "e"]
    assert images["split"].tolist() == ["train", "train", "val", "test", "test"]
    # Lines of the token file, from 1; the first two caption x.jpg.
    assert captions["caption_id"].tolist() == [3, 4, 9, 10, 7, 8, 5, 6, 11, 12]
    assert images.attrs["facts"]["ignored"]["captioned images in no split"] == 1


def test_flickr8k_lines_end_with_line_feeds_and_at_no_other_character(tmp_path):
    spec = write_flickr8k(tmp_path)
    expected = captions_of(spec)
    for path in Path(spec.files["text"]).iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    pd.testing.assert_frame_equal(captions_of(spec), expected)
    odd = "b.jpg\u2028caption\x85 \x1b\t0"
    tokens_of(spec).write_bytes(tokens_of(spec).read_bytes().replace(b"b.jpg caption 0", odd.encode()))
    assert captions_of(spec)["text"].iloc[0] == f"{odd} ."


def test_flickr8k_images_of_a_list_without_captions_are_named_with_file_and_line(tmp_path):
    spec = write_flickr8k(tmp_path)
    with (Path(spec.files["text"]) / "Flickr_8k.devImages.txt").open("a") as stream:
        stream.write("stranger.jpg\n")
    refused(spec, "Flickr_8k.devImages.txt: line 2: 'stranger.jpg' … Flickr8k.token.txt")


# What stands in the file → what stands there instead → what the message names. a's captions are lines 7 and 8.
BAD_TOKENS = {
    "digits of another script": (b"a.jpg#1", "a.jpg#١".encode(), "line 8"),
    "a number twice": (b"a.jpg#1\t", b"a.jpg#0\t", "line 8 … 0 of 'a.jpg' … 1"),
    "no UTF-8": (b"a.jpg caption 1", b"a.jpg caf\xe9 1", "line 8, byte 18"),
    "no end of the last line": (b"e.jpg caption 1 .\n", b"e.jpg caption 1 .", ""),
}


@pytest.mark.parametrize("case", BAD_TOKENS)
def test_flickr8k_names_file_and_line_of_a_fault(tmp_path, case):
    old, new, message = BAD_TOKENS[case]
    spec = write_flickr8k(tmp_path)
    data = tokens_of(spec).read_bytes()
    assert data.count(old) == 1
    tokens_of(spec).write_bytes(data.replace(old, new))
    refused(spec, "Flickr8k.token.txt", message)


def test_flickr8k_the_real_release():
    archives = flickr8k.archives("Flickr8k_text.zip")
    names = ("Flickr8k_Dataset.zip", "Flickr8k_Dataset", "Flicker8k_Dataset")
    photographs = next(path for name in names if (path := archives / name).exists())
    files = {"images": photographs, "text": archives / "Flickr8k_text.zip"}
    sizes = {"train": 6000, "val": 1000, "test": 1000}
    images, captions = read(corpus("flickr8k", "flickr8k", files, expected_images=sizes))
    facts = images.attrs["facts"]
    assert facts["images"] == sizes
    assert facts["captions"] == {"train": 30000, "val": 5000, "test": 5000}
    assert facts["ignored"] == {"captioned images in no split": 92, "surplus captions": 0}
    row = images.index[images["image_id"] == "1000268201_693b08cb0e"][0]
    first = captions[captions["image_index"] == row]
    assert first["caption_id"].tolist() == [1, 2, 3, 4, 5]
    assert first["text"].iloc[1] == "A girl going into a wooden building ."
