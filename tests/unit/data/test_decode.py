import io
import logging
import subprocess
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from raw_layouts import corpus, encoded, jpeg, write_flickr8k
from specs import change

from vsepp.base.errors import VseppError
from vsepp.base.spec import StoreSpec
from vsepp.data.corpora import read_corpus
from vsepp.data.decode import decoded, in_rgb, stored
from vsepp.data.store import build_store, open_store

SQUASH = StoreSpec("squash", 16)


def picture(size=(60, 44)) -> Image.Image:
    return Image.open(io.BytesIO(jpeg(3, size)))


def built(tmp_path, photographs: dict[str, bytes], store=SQUASH, **changes):
    folder = tmp_path / "photographs"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in photographs.items():
        (folder / name).write_bytes(data)
    images = pd.DataFrame({"container": "images", "member": list(photographs)})
    spec = change(corpus("any", "karpathy", {"images": folder}), **changes)
    facts = build_store(images, spec, store, tmp_path / "out", tmp_path / "state", 1)
    return facts, open_store(tmp_path / "out")


@pytest.mark.parametrize(("kind", "order"), [("PNG", "<u2"), ("TIFF", "<u2"), ("TIFF", ">u2")])
def test_16_bit_grey_is_scaled_and_not_clipped_to_white(kind, order):
    ramp = np.linspace(0, 65535, 300).astype(order).reshape(10, 30)
    found = decoded(encoded(Image.fromarray(ramp), kind))
    assert found.mode.startswith("I;16")
    pixels = np.asarray(in_rgb(found))
    assert np.array_equal(pixels[..., 0], np.rint(ramp.astype(float) / 257))
    assert np.array_equal(pixels[..., 0], pixels[..., 2])


@pytest.mark.parametrize(
    ("dtype", "said"), [(np.int32, "32-bit whole numbers"), (np.float32, "floating point")]
)
def test_values_without_a_white_are_refused_with_the_photographs_name(tmp_path, dtype, said):
    strange = encoded(Image.fromarray(np.full((20, 20), 300, dtype)), "TIFF")
    with pytest.raises(VseppError, match=rf"strange\.tif in .*: its pixels are {said}"):
        built(tmp_path, {"good.jpg": jpeg(1), "strange.tif": strange})


def test_a_jpeg_that_ends_early_is_an_error_but_with_an_end_marker_partly_grey():
    whole = encoded(picture((90, 61)), "JPEG", quality=92)
    cut = whole[: len(whole) // 2]
    with pytest.raises(OSError, match="truncated"):
        decoded(cut)
    pixels, expected = np.asarray(decoded(cut + b"\xff\xd9")), np.asarray(decoded(whole))
    assert np.array_equal(pixels[0, 0], expected[0, 0]) and np.all(pixels[-1, -1] == 128)


def test_whole_jpegs_of_all_kinds_are_taken():
    for quality in (5, 50, 100):
        for options in ({}, {"progressive": True}, {"optimize": True}, {"restart_marker_blocks": 2}):
            for mode in ("RGB", "L", "CMYK"):
                data = encoded(picture().convert(mode), "JPEG", quality=quality, **options)
                for after in (b"", b"\0" * 7, jpeg(1)):  # cameras put thumbnails behind the picture
                    assert decoded(data + after).size == (60, 44)
    grey = encoded(Image.new("RGB", (64, 64), (128, 128, 128)), "JPEG")
    assert decoded(grey).getpixel((63, 63)) == (128, 128, 128)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("resize", ["squash", "short_side"])
def test_exif_orientation_is_ignored_or_applied_and_counted(tmp_path, orientation, resize):
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = picture((60, 40))
    data = encoded(image, "JPEG", exif=exif, quality=95)
    facts, ignored = built(tmp_path / "ignored", {"a.jpg": data}, StoreSpec(resize, 20))
    _, applied = built(tmp_path / "applied", {"a.jpg": data}, StoreSpec(resize, 20, "applied"))
    assert facts["exif_turned"] == (orientation != 1)
    upright = decoded(data).convert("RGB")
    assert np.array_equal(ignored[0], stored(upright, StoreSpec(resize, 20)))
    turns = {2: [0], 3: [3], 4: [1], 5: [5], 6: [4], 7: [6], 8: [2]}.get(orientation, [])
    for turn in turns:
        upright = upright.transpose(turn)
    assert np.array_equal(applied[0], stored(upright, StoreSpec(resize, 20)))


def test_postscript_that_is_named_like_a_photograph_starts_no_other_program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    started = tmp_path / "started"
    for name in ("gs", "gswin32c", "gswin64c"):  # Ghostscript, which Pillow would start
        (tmp_path / name).write_text(f"#!/bin/sh\n: > {started}\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    postscript = encoded(picture(), "EPS")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    with suppress(OSError, subprocess.CalledProcessError), Image.open(io.BytesIO(postscript)) as image:
        image.load()
    assert started.exists(), "Pillow starts none any more"
    started.unlink()
    with pytest.raises(
        VseppError,
        match=r"a\.jpg in .*: it is damaged; expected a whole picture, one of JPEG, PNG",
    ):
        built(tmp_path, {"a.jpg": postscript})
    assert not started.exists()


def test_a_picture_that_is_too_large_names_itself(tmp_path):
    large = encoded(Image.new("1", (13_000, 13_000)), "PNG")
    with pytest.raises(
        VseppError, match=r"large\.png in .*has 13000 × 13000 pixels; expected at most 89,478,485"
    ):
        built(tmp_path, {"good.jpg": jpeg(1), "large.png": large})
    long = encoded(Image.new("L", (60_000, 20)), "PNG")
    with pytest.raises(VseppError, match=r"long\.png in .*has 60000 × 20 pixels, which are 1152000 × 384"):
        built(tmp_path, {"long.png": long}, StoreSpec("short_side", 384))


def test_all_that_cannot_be_decoded_is_said_at_once_where_sizes_are_needed_first(tmp_path):
    bad = {"1.jpg": b"<html>", "2.jpg": jpeg(1, (200, 150))[:-1500], "3.jpg": jpeg(2)}
    short = StoreSpec("short_side", 16)
    with pytest.raises(VseppError, match=r"\(2 in all\): 1\.jpg in .*: it is damaged.*2\.jpg in"):
        built(tmp_path, bad, short)
    listed = (tmp_path / "state/problems.txt").read_text().splitlines()
    assert [line.partition(" ")[0] for line in listed] == ["1.jpg", "2.jpg"]
    _, whole = built(tmp_path, {name: jpeg(9) for name in bad}, short)
    assert len(whole) == 3
    assert not (tmp_path / "state/problems.txt").exists()


def test_other_photographs_than_those_that_are_known_give_a_warning(tmp_path, caplog):
    facts, _ = built(tmp_path, {"a.jpg": jpeg(1)})
    with caplog.at_level(logging.WARNING):
        built(tmp_path, {"a.jpg": jpeg(1)}, photographs_sha256=(facts["photographs_sha256"],))
    assert not caplog.records
    built(tmp_path, {"a.jpg": jpeg(2)}, photographs_sha256=(facts["photographs_sha256"],))
    assert "some of their files differ" in caplog.text


def test_images_can_be_left_out_and_are_counted(tmp_path):
    spec = write_flickr8k(tmp_path / "raw")
    images, captions = read_corpus(spec)
    left = images["image_id"][1]
    fewer, their_captions = read_corpus(change(spec, leave_out=(left,)))
    assert fewer["image_id"].tolist() == [one for one in images["image_id"] if one != left]
    assert len(their_captions) == len(captions) - 2
    assert fewer.attrs["facts"]["left_out"] == 1
    with pytest.raises(VseppError, match=r"leave_out names nobody"):
        read_corpus(change(spec, leave_out=("nobody",)))
