"""Image stores: the pixels of every photograph, faults in one message, and a killed build that goes on."""

import hashlib
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torchvision
from PIL import Image
from processes import no_room
from raw_layouts import (
    corpus,
    jpeg,
    paths,
    read,
    write_coco,
    write_flickr8k,
    write_karpathy,
    write_precomp,
    zipped,
)

from vsepp.base.errors import VseppError
from vsepp.base.spec import CropSpec, StoreSpec
from vsepp.data.decode import build_store
from vsepp.data.store import open_store
from vsepp.features.crops import fixed_boxes, gather_crops

SQUASH = StoreSpec("squash", 16)
SHORT = StoreSpec("short_side", 16)


def folder_of(tmp_path, photographs: dict[str, bytes]):
    """A folder of photographs as an images table and a corpus."""
    root = tmp_path / "photographs"
    root.mkdir(parents=True, exist_ok=True)
    for name, data in photographs.items():
        (root / name).write_bytes(data)
    images = pd.DataFrame({"container": "images", "member": list(photographs), "split": "train"})
    return images, corpus("any", "karpathy", {"images": root})


def ten(tmp_path):
    return folder_of(tmp_path, {f"{number}.jpg": jpeg(number) for number in range(10)})


def build(images, spec, tmp_path, store=SQUASH, workers=1, **values):
    places = tmp_path / "out", tmp_path / "state"
    facts = build_store(images, spec, paths(spec), store, *places, workers, **values)
    return facts, open_store(tmp_path / "out")


def counts(facts):
    return {key: value for key, value in facts.items() if key != "photographs_sha256"}


def test_rows_are_the_photographs_of_the_table(tmp_path):
    images, spec = ten(tmp_path)
    facts, pixels = build(images, spec, tmp_path, chunk_images=4)
    assert counts(facts) == {"images": 10, "upscaled": 0, "converted": 0, "exif_turned": 0}
    sums = "".join(hashlib.sha256(jpeg(number)).hexdigest() for number in range(10))
    assert facts["photographs_sha256"] == hashlib.sha256(sums.encode()).hexdigest()
    assert pixels.shape == (10, 16, 16, 3) and pixels.dtype == np.uint8 and not pixels.flags.writeable
    for number in range(10):
        image = Image.open(io.BytesIO(jpeg(number))).resize((16, 16), Image.Resampling.BILINEAR)
        assert np.array_equal(pixels[number], np.asarray(image))


def test_equal_files_are_counted_and_those_in_several_splits_told(tmp_path, caplog):
    images, spec = folder_of(tmp_path, {f"{number}.jpg": jpeg(number % 7) for number in range(10)})
    images["split"] = ["train"] * 9 + ["test"]
    facts, _ = build(images, spec, tmp_path, chunk_images=4)
    assert facts["equal_files"] == 6
    assert "6 of 10 images" in caplog.text and "several splits: 1" in caplog.text


@pytest.mark.parametrize("write", [write_coco, write_karpathy, write_flickr8k])
def test_a_folder_and_a_zip_give_the_same_pixels(tmp_path, write):
    spec = write(tmp_path / "raw")
    archived = zipped(spec)
    _, of_folder = build(read(spec)[0], spec, tmp_path / "folder", store=SHORT)
    _, of_zip = build(read(archived)[0], archived, tmp_path / "zip", store=SHORT)
    assert np.array_equal(of_folder.pixels, of_zip.pixels)
    assert np.array_equal(of_folder.sizes, of_zip.sizes)


# What torchvision's Resize(64) does: the long side rounded down.
ROUNDING = {
    (500, 375): (85, 64),
    (375, 500): (64, 85),
    (333, 500): (64, 96),
    (17, 91): (64, 342),
    (301, 300): (64, 64),
    (640, 427): (95, 64),
}


def test_short_side_keeps_the_aspect_ratio_and_rounds_as_torchvision_does(tmp_path):
    photographs = {f"{number}.jpg": jpeg(number, size) for number, size in enumerate(ROUNDING)}
    store = StoreSpec("short_side", 64)
    _, whole = build(*folder_of(tmp_path, photographs), tmp_path, store=store, chunk_images=4)
    transform = torchvision.transforms.Compose(
        [torchvision.transforms.Resize(64), torchvision.transforms.CenterCrop(48)]
    )
    for row, (data, size) in enumerate(zip(photographs.values(), ROUNDING.values(), strict=True)):
        image = Image.open(io.BytesIO(data))
        assert np.array_equal(whole[row], np.asarray(image.resize(size, Image.Resampling.BILINEAR)))
        boxes, flips = fixed_boxes(CropSpec("1C", 48), whole.sizes[[row]])
        crops = gather_crops(whole, np.array([row]), boxes[0], flips[0], 48)
        assert np.array_equal(crops[0], np.asarray(transform(image)))


def test_small_grey_cmyk_and_palette_images_are_counted_and_converted(tmp_path):
    palette = io.BytesIO()
    Image.open(io.BytesIO(jpeg(5))).convert("P").save(palette, "PNG")
    photographs = {
        "grey.jpg": jpeg(1, mode="L"),
        "cmyk.jpg": jpeg(2, mode="CMYK"),
        "palette.png": palette.getvalue(),
        "upright.jpg": jpeg(3, (15, 40)),
        "lying.jpg": jpeg(4, (40, 15)),
        "as-large.jpg": jpeg(5, (16, 99)),
    }
    facts, pixels = build(*folder_of(tmp_path, photographs), tmp_path)
    assert counts(facts) == {"images": 6, "upscaled": 2, "converted": 3, "exif_turned": 0}
    assert np.array_equal(pixels[0, ..., 0], pixels[0, ..., 1]) and pixels[0].std() > 0


@pytest.mark.parametrize("archived", [False, True])
def test_all_photographs_that_do_not_decode_are_named_in_one_message(tmp_path, archived):
    images, spec = ten(tmp_path)
    folder = Path(spec.files["images"])
    for number, data in {1: b"<html>404</html>", 6: b"", 7: jpeg(1, (200, 150))[:-1500]}.items():
        (folder / f"{number}.jpg").write_bytes(data)
    spec = zipped(spec) if archived else spec
    where = spec.files["images"]
    message = rf"\(3 in all\).*{where}/1\.jpg: .*{where}/6\.jpg: .*{where}/7\.jpg: "
    with pytest.raises(VseppError, match=message):
        build(images, spec, tmp_path, chunk_images=4)
    assert not (tmp_path / "out").exists()


def test_a_build_that_was_cut_short_goes_on_from_the_finished_chunks(tmp_path):
    images, spec = ten(tmp_path)
    folder = Path(spec.files["images"])
    (folder / "5.jpg").write_bytes(jpeg(5)[:200])
    with pytest.raises(VseppError, match=r"5\.jpg"):
        build(images, spec, tmp_path, chunk_images=4, workers=2)
    with (tmp_path / "state/done.jsonl").open("ab") as stream:  # as a kill leaves its last line
        stream.write(b'{"number": 1, "ups\xff')
    # Finished chunks are not decoded again: their photographs are gone, and the build ends all the same.
    for number in (0, 1, 2, 3, 8, 9):
        (folder / f"{number}.jpg").unlink()
    (folder / "5.jpg").write_bytes(jpeg(5))
    facts, pixels = build(images, spec, tmp_path, chunk_images=4, workers=2)
    undisturbed, whole = build(*ten(tmp_path / "whole"), tmp_path / "whole")
    assert facts == undisturbed  # the digest of all photographs too, though chunks ended in another order
    assert np.array_equal(pixels, whole)


def test_a_store_that_cannot_fit_is_refused_before_its_first_byte(tmp_path):
    images, spec = ten(tmp_path)
    images, side = images.loc[images.index.repeat(10_000)], 8192
    with pytest.raises(VseppError, match=f"{len(images) * side * side * 3 / 1e9:,.2f} GB"):
        build(images, spec, tmp_path, store=StoreSpec("squash", side))
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["sizes.npy"]


def test_a_full_disk_leaves_no_store_and_gives_back_what_was_reserved(tmp_path):
    images, spec = ten(tmp_path)
    with no_room(20_000), pytest.raises(OSError, match="File too large"):
        build(images, spec, tmp_path, store=StoreSpec("squash", 64))
    assert not (tmp_path / "out").exists()
    assert all(path.name == "sizes.npy" or not path.stat().st_size for path in (tmp_path / "state").iterdir())


def test_a_corpus_without_images_or_photographs_has_no_store(tmp_path):
    images, spec = ten(tmp_path)
    with pytest.raises(VseppError, match="no images"):
        build(images[:0], spec, tmp_path)
    spec = write_precomp(tmp_path)
    with pytest.raises(VseppError, match="f30k_precomp: "):
        build(read(spec)[0], spec, tmp_path)


def test_a_damaged_store_is_named(tmp_path):
    np.save(tmp_path / "sizes.npy", np.full((2, 2), 4, np.int32))
    with pytest.raises(VseppError, match=r"images\.npy"):
        open_store(tmp_path)
    np.save(tmp_path / "images.npy", np.zeros((2, 4, 4, 3), np.uint8))
    (tmp_path / "images.npy").write_bytes((tmp_path / "images.npy").read_bytes()[:-1])
    with pytest.raises(VseppError, match=r"images\.npy"):
        open_store(tmp_path)
