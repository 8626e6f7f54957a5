"""Generated corpora in the files of each published layout."""

import dataclasses
import json

import pytest
from PIL import Image
from pycocotools.coco import COCO

from vsepp.base.digests import path_digest
from vsepp.base.spec import ScenesSpec
from vsepp.scenes.layouts import generate

IMAGES = {
    "coco": {"train": 70, "restval": 8, "val": 6, "test": 9},
    "flickr": {"train": 11, "val": 4, "test": 5},
}


@pytest.fixture(scope="module")
def scenes_spec(settings):
    return ScenesSpec(seed=3, side=48, images=IMAGES, settings=settings)


@pytest.fixture(scope="module")
def generated(tmp_path_factory, scenes_spec):
    out = tmp_path_factory.mktemp("scenes")
    return out, generate(scenes_spec, out)


def read(path):
    return json.loads(path.read_text())


@pytest.mark.parametrize("layout", ["coco", "flickr"])
def test_splits_have_the_sizes_asked_for_and_are_mixed_in_file_order(generated, layout):
    out, facts = generated
    name = {"coco": "dataset_coco.json", "flickr": "dataset_flickr30k.json"}[layout]
    entries = read(out / layout / name)["images"]
    splits = [entry["split"] for entry in entries]
    assert {split: splits.count(split) for split in set(splits)} == IMAGES[layout]
    assert splits != sorted(splits)
    ids = [number for entry in entries for number in entry["sentids"]]
    assert len(set(ids)) == len(ids)
    assert facts[layout] == {"images": len(entries), "captions": len(ids)}


@pytest.mark.parametrize("folder", ["train2014", "val2014"])
def test_annotations_are_read_by_pycocotools_and_agree_with_the_split_file(generated, folder):
    out, _ = generated
    coco = COCO(str(out / "coco" / "annotations" / f"captions_{folder}.json"))
    entries = [e for e in read(out / "coco" / "dataset_coco.json")["images"] if e["filepath"] == folder]
    assert set(coco.getImgIds()) == {entry["cocoid"] for entry in entries}
    counts = set()
    for entry in entries:
        captions = {a["id"]: a["caption"] for a in coco.loadAnns(coco.getAnnIds(entry["cocoid"]))}
        assert captions == {sentence["sentid"]: sentence["raw"] for sentence in entry["sentences"]}
        counts.add(len(captions))
        (image,) = coco.loadImgs(entry["cocoid"])
        with Image.open(out / "coco" / folder / image["file_name"]) as jpeg:
            assert (jpeg.format, jpeg.mode, jpeg.size) == ("JPEG", "RGB", (image["width"], image["height"]))
    assert counts <= {5, 6, 7}
    if folder == "train2014":
        assert counts == {5, 6, 7}


def test_equal_specs_give_equal_bytes_whatever_the_number_of_workers(tmp_path, scenes_spec):
    for name, workers, seed in (("one", 1, 3), ("two", 2, 3), ("other", 1, 4)):
        generate(dataclasses.replace(scenes_spec, seed=seed), tmp_path / name, workers=workers)
    alone, two, other = (path_digest(tmp_path / name) for name in ("one", "two", "other"))
    assert alone == two != other
