"""The generator of full-size raw data, on a small corpus: the readers take what it writes."""

from dataclasses import replace

import pytest
from fullsize import Sizes, corpus_spec, write_raw
from raw_layouts import paths, read

from vsepp.base.spec import StoreSpec
from vsepp.data.decode import build_store
from vsepp.data.store import open_store

SMALL = Sizes(
    coco={"train": 60, "restval": 20, "val": 12, "test": 10},
    coco_surplus={"train2014": 7, "val2014": 3},
    flickr30k={"train": 30, "val": 6, "test": 5},
    photographs=9,
)


@pytest.mark.parametrize(("dataset", "surplus"), [("coco", 10), ("flickr30k", 0)])
def test_a_slice_is_read_with_every_split_at_its_size_and_its_photographs_are_stored(
    tmp_path, dataset, surplus
):
    write_raw(tmp_path, SMALL, images=3)
    spec = corpus_spec(dataset, tmp_path, SMALL)
    facts = read(spec)[0].attrs["facts"]
    sizes = getattr(SMALL, dataset)
    assert facts["images"] == sizes
    assert facts["captions"] == {split: 5 * images for split, images in sizes.items()}
    assert facts["ignored"]["surplus captions"] == surplus
    images, _ = read(replace(spec, first_images=dict.fromkeys(sizes, 3)))
    build_store(images, spec, paths(spec), StoreSpec("squash", 16), tmp_path / "out", tmp_path / "state", 1)
    assert (open_store(tmp_path / "out").reshape(len(images), -1).std(axis=1) > 1).all()
