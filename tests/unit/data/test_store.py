import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torchvision
from PIL import Image
from processes import wait_until
from raw_layouts import corpus, jpeg, paths, read, write_coco, write_flickr8k, write_karpathy, zipped

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
    return folder_of(tmp_path, {f"{i}.jpg": jpeg(i) for i in range(10)})


def build(images, spec, tmp_path, store=SQUASH, workers=1, **values):
    facts = build_store(
        images, spec, paths(spec), store, tmp_path / "out", tmp_path / "state", workers, **values
    )
    return facts, open_store(tmp_path / "out")


def counted(facts):
    return {key: value for key, value in facts.items() if key != "photographs_sha256"}


def test_rows_are_the_photographs_of_the_table(tmp_path):
    images, spec = ten(tmp_path)
    facts, pixels = build(images, spec, tmp_path, chunk_images=4)
    assert counted(facts) == {"images": 10, "upscaled": 0, "converted": 0, "exif_turned": 0}
    each = "".join(hashlib.sha256(jpeg(i)).hexdigest() for i in range(10))
    assert facts["photographs_sha256"] == hashlib.sha256(each.encode()).hexdigest()
    assert pixels.shape == (10, 16, 16, 3) and pixels.dtype == np.uint8
    for i in range(10):
        image = Image.open(io.BytesIO(jpeg(i))).resize((16, 16), Image.Resampling.BILINEAR)
        assert np.array_equal(pixels[i], np.asarray(image))
    assert not pixels.flags.writeable


def test_equal_files_are_counted_and_those_in_several_splits_are_named(tmp_path, caplog):
    images, spec = folder_of(tmp_path, {f"{i}.jpg": jpeg(i % 7) for i in range(10)})
    images["split"] = ["train"] * 9 + ["test"]
    facts, _ = build(images, spec, tmp_path, chunk_images=4)
    assert facts["equal_files"] == 6
    assert "6 of 10 images" in caplog.text and "several splits: 1" in caplog.text


@pytest.mark.parametrize("write", [write_coco, write_karpathy, write_flickr8k])
def test_a_folder_and_a_zip_give_the_same_pixels(tmp_path, write):
    spec = write(tmp_path / "raw")
    packed = zipped(spec)
    _, unpacked_pixels = build(read(spec)[0], spec, tmp_path / "folder", store=SHORT)
    _, packed_pixels = build(read(packed)[0], packed, tmp_path / "zip", store=SHORT)
    assert np.array_equal(unpacked_pixels.pixels, packed_pixels.pixels)
    assert np.array_equal(unpacked_pixels.sizes, packed_pixels.sizes)
    assert len({packed_pixels[row].tobytes() for row in range(len(packed_pixels))}) == len(packed_pixels)


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
    images, spec = folder_of(tmp_path, photographs)
    store = StoreSpec("short_side", 64)
    facts, whole = build(images, spec, tmp_path, store=store, chunk_images=4, workers=2)
    assert facts["images"] == len(whole) == 6
    for row, (data, size) in enumerate(zip(photographs.values(), ROUNDING.values(), strict=True)):
        expected = np.asarray(Image.open(io.BytesIO(data)).resize(size, Image.Resampling.BILINEAR))
        assert np.array_equal(whole[row], expected)
        side = 64
        centre = torchvision.transforms.CenterCrop(48)(
            torchvision.transforms.Resize(side)(Image.open(io.BytesIO(data)))
        )
        boxes, flips = fixed_boxes(CropSpec("1C", 48), whole.sizes[[row]])
        assert np.array_equal(
            gather_crops(whole, np.array([row]), boxes[0], flips[0], 48)[0], np.asarray(centre)
        )


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
    images, spec = folder_of(tmp_path, photographs)
    facts, pixels = build(images, spec, tmp_path)
    assert counted(facts) == {"images": 6, "upscaled": 2, "converted": 3, "exif_turned": 0}
    assert np.array_equal(pixels[0, ..., 0], pixels[0, ..., 1]) and pixels[0].std() > 0
    for row, data in enumerate(photographs.values()):
        expected = Image.open(io.BytesIO(data)).convert("RGB").resize((16, 16), Image.Resampling.BILINEAR)
        assert np.array_equal(pixels[row], np.asarray(expected))


@pytest.mark.parametrize("packed", [False, True])
def test_photographs_that_do_not_decode_are_reported_together_with_their_container(tmp_path, packed):
    images, spec = ten(tmp_path)
    folder = Path(spec.files["images"])
    bad = {1: b"<html>404</html>", 6: b"", 7: jpeg(1, (200, 150))[:-1500]}
    for number, data in bad.items():
        (folder / f"{number}.jpg").write_bytes(data)
    if packed:
        spec = zipped(spec)
    else:
        (folder / "9.jpg").unlink()
    with pytest.raises(VseppError) as caught:
        build(images, spec, tmp_path, chunk_images=4)
    for number in bad:
        assert f"{spec.files['images']}/{number}.jpg" in str(caught.value)
    assert ("(3 in all)" if packed else "(4 in all)") in str(caught.value)
    assert packed or "9.jpg: no such file" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_repaired_build_of_two_processes_goes_on_from_the_finished_chunks(tmp_path):
    images, spec = ten(tmp_path)
    folder = Path(spec.files["images"])
    (folder / "5.jpg").write_bytes(jpeg(5)[:200])
    with pytest.raises(VseppError, match=r"5\.jpg"):
        build(images, spec, tmp_path, chunk_images=4, workers=2)
    done = [json.loads(line)["number"] for line in (tmp_path / "state/done.jsonl").read_text().splitlines()]
    assert sorted(done) == [0, 2]
    # Finished chunks are not decoded again: their photographs are gone, and the build ends all the same.
    for i in (0, 1, 2, 3, 8, 9):
        (folder / f"{i}.jpg").unlink()
    (folder / "5.jpg").write_bytes(jpeg(5))
    facts, pixels = build(images, spec, tmp_path, chunk_images=4, workers=2)
    assert counted(facts) == {"images": 10, "upscaled": 0, "converted": 0, "exif_turned": 0}
    undisturbed, whole = build(*ten(tmp_path / "whole"), tmp_path / "whole")
    assert facts == undisturbed  # the digest of all photographs too, though chunks ended in another order
    assert np.array_equal(pixels, whole)


def test_an_archive_that_was_replaced_is_read_anew(tmp_path):
    images, spec = ten(tmp_path)
    bad = Path(spec.files["images"]) / "5.jpg"
    bad.write_bytes(jpeg(5)[:200])
    packed = zipped(spec)
    with pytest.raises(VseppError, match=r"5\.jpg"):
        build(images, packed, tmp_path, chunk_images=4)
    bad.write_bytes(jpeg(5))
    Path(packed.files["images"]).unlink()
    zipped(spec)
    assert build(images, packed, tmp_path, chunk_images=4)[0]["images"] == 10


BUILD = """
import sys
from pathlib import Path
import pandas as pd
from vsepp.data.decode import build_store
from vsepp.base.spec import Component, CorpusSpec, StoreSpec

root, side = Path(sys.argv[1]), int(sys.argv[2])
names = sorted(path.name for path in (root / "photographs").iterdir())
images = pd.DataFrame({"container": "images", "member": names, "split": "train"})
spec = CorpusSpec(name="any", reader=Component("karpathy"))
build_store(images, spec, {"images": root / "photographs"}, StoreSpec("squash", side), root / "out", root / "state", 1, chunk_images=2)
"""


def test_a_killed_build_goes_on_and_gives_the_pixels_of_an_undisturbed_one(tmp_path):
    images, spec = folder_of(tmp_path, {f"{i:02}.jpg": jpeg(i, (700, 500)) for i in range(36)})
    store = StoreSpec("squash", 256)
    _, undisturbed = build(images, spec, tmp_path / "again", store=store)
    done = tmp_path / "state/done.jsonl"
    process = subprocess.Popen([sys.executable, "-c", BUILD, tmp_path, "256"])
    wait_until(lambda: done.is_file() and len(done.read_text().splitlines()) >= 3, process)
    process.kill()
    process.wait()
    assert not (tmp_path / "out").exists()
    before = done.read_text().splitlines()
    assert 3 <= len(before) < 18
    # A line cut short by the kill must not count.
    done.write_bytes("\n".join([*before, '{"number": 17, "ups']).encode() + b"\xff")
    # The first chunk was finished: without its photographs the rest must still work.
    first = json.loads(before[0])["number"]
    for i in (2 * first, 2 * first + 1):
        (tmp_path / f"photographs/{i:02}.jpg").unlink()
    facts, pixels = build(images, spec, tmp_path, store=store, chunk_images=2)
    assert facts["images"] == 36
    assert np.array_equal(pixels, undisturbed)
    assert sorted(json.loads(line)["number"] for line in done.read_text().splitlines()) == list(range(18))


def test_a_store_that_cannot_fit_is_refused_before_the_first_byte(tmp_path):
    images, spec = ten(tmp_path)
    many, side = images.loc[images.index.repeat(100_000)], 8192
    with pytest.raises(
        VseppError,
        match=rf"no space: the image store needs {len(many) * side * side * 3 / 1e9:,.2f} GB and .* are free",
    ):
        build(many, spec, tmp_path, store=StoreSpec("squash", side))
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["sizes.npy"]


def test_no_space_while_the_store_is_written_is_explained(tmp_path):
    # A limit on the size of a file stands for a full disk: the system refuses the bytes just the same.
    ten(tmp_path)
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
    command = [sys.executable, "-c", limit + BUILD, tmp_path, "64"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "File too large" in result.stderr
    assert not (tmp_path / "out").exists()
    # What was reserved is given back.
    assert all(path.name == "sizes.npy" or not path.stat().st_size for path in (tmp_path / "state").iterdir())


def test_no_images_are_refused(tmp_path):
    images, spec = ten(tmp_path)
    with pytest.raises(VseppError, match="no images"):
        build(images[:0], spec, tmp_path)


def test_what_is_no_store_is_named(tmp_path):
    with pytest.raises(VseppError, match=r"images\.npy: no such file"):
        open_store(tmp_path)
    np.save(tmp_path / "sizes.npy", np.full((2, 2), 4, np.int32))
    np.save(tmp_path / "images.npy", np.zeros((2, 4, 4, 3), np.uint8))
    (tmp_path / "images.npy").write_bytes((tmp_path / "images.npy").read_bytes()[:-1])
    with pytest.raises(VseppError, match=r"images\.npy: it is damaged"):
        open_store(tmp_path)
