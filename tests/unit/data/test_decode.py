import io
import logging
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pillow_heif
import pytest
from asked import png
from PIL import Image
from raw_layouts import corpus, encoded, jpeg, paths, read, write_flickr8k
from specs import change

from vsepp.base.errors import VseppError
from vsepp.base.spec import StoreSpec
from vsepp.data.decode import build_store
from vsepp.data.pictures import picture_size, read_picture, resized
from vsepp.data.store import open_store

SQUASH = StoreSpec("squash", 16)


def picture(size=(60, 44)) -> Image.Image:
    return Image.open(io.BytesIO(jpeg(3, size)))


def built(tmp_path, photographs: dict[str, bytes], store=SQUASH, **changes):
    folder = tmp_path / "photographs"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in photographs.items():
        (folder / name).write_bytes(data)
    images = pd.DataFrame({"container": "images", "member": list(photographs), "split": "train"})
    spec = change(corpus("any", "karpathy", {"images": folder}), **changes)
    facts = build_store(images, spec, paths(spec), store, tmp_path / "out", tmp_path / "state", 1)
    return facts, open_store(tmp_path / "out")


def rgb(data, *, upright=False):
    return read_picture(data, "a.jpg", upright=upright).rgb


@pytest.mark.parametrize(("kind", "order"), [("PNG", "<u2"), ("TIFF", "<u2"), ("TIFF", ">u2")])
def test_16_bit_grey_is_scaled_and_not_clipped_to_white(kind, order):
    ramp = np.linspace(0, 65535, 300).astype(order).reshape(10, 30)
    picture = read_picture(encoded(Image.fromarray(ramp), kind), "ramp", upright=False)
    assert picture.mode.startswith("I;16")
    pixels = np.asarray(picture.rgb)
    assert np.array_equal(pixels[..., 0], np.rint(ramp.astype(float) / 257))
    assert np.array_equal(pixels[..., 0], pixels[..., 2])


@pytest.mark.parametrize(
    ("dtype", "said"), [(np.int32, "signed or 32-bit whole numbers"), (np.float32, "floating point")]
)
def test_values_without_a_white_are_refused_with_the_photographs_name(tmp_path, dtype, said):
    strange = encoded(Image.fromarray(np.full((20, 20), 300, dtype)), "TIFF")
    with pytest.raises(VseppError, match=rf"strange\.tif: its pixels are {said}"):
        built(tmp_path, {"good.jpg": jpeg(1), "strange.tif": strange})


def test_a_jpeg_that_ends_early_is_an_error_but_with_an_end_marker_partly_grey():
    whole = encoded(picture((90, 61)), "JPEG", quality=92)
    cut = whole[: len(whole) // 2]
    with pytest.raises(VseppError, match=r"^a\.jpg: "):
        rgb(cut)
    pixels, expected = np.asarray(rgb(cut + b"\xff\xd9")), np.asarray(rgb(whole))
    assert np.array_equal(pixels[0, 0], expected[0, 0]) and np.all(pixels[-1, -1] == 128)


def test_whole_jpegs_of_all_kinds_are_taken():
    for quality in (5, 50, 100):
        for options in ({}, {"progressive": True}, {"optimize": True}, {"restart_marker_blocks": 2}):
            for mode in ("RGB", "L", "CMYK"):
                data = encoded(picture().convert(mode), "JPEG", quality=quality, **options)
                for after in (b"", b"\0" * 7, jpeg(1)):  # cameras put thumbnails behind the picture
                    assert rgb(data + after).size == (60, 44)
    grey = encoded(Image.new("RGB", (64, 64), (128, 128, 128)), "JPEG")
    assert rgb(grey).getpixel((63, 63)) == (128, 128, 128)


def test_a_path_bytes_an_array_and_a_picture_of_pillows_are_the_same(tmp_path):
    data = encoded(picture(), "PNG")
    (tmp_path / "a.png").write_bytes(data)
    image = Image.open(io.BytesIO(data))
    for source in (tmp_path / "a.png", str(tmp_path / "a.png"), image, np.asarray(image)):
        assert np.array_equal(np.asarray(rgb(source)), np.asarray(rgb(data)))
    for array in (np.zeros((4, 4, 3), np.float32), np.zeros((4, 0, 3), np.uint8), np.zeros(4, np.uint8)):
        with pytest.raises(VseppError, match=r"^a\.jpg: .*uint8"):
            rgb(array)


def turned(data, orientation, kind):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(data, kind, exif=exif, **({"quality": 95} if kind == "JPEG" else {}))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("resize", ["squash", "short_side"])
def test_exif_orientation_is_ignored_or_applied_and_counted(tmp_path, orientation, resize):
    data = turned(picture((60, 40)), orientation, "JPEG")
    facts, ignored = built(tmp_path / "ignored", {"a.jpg": data}, StoreSpec(resize, 20))
    _, applied = built(tmp_path / "applied", {"a.jpg": data}, StoreSpec(resize, 20, "applied"))
    assert facts["exif_turned"] == (orientation != 1)
    upright = rgb(data)
    assert np.array_equal(ignored[0], resized(upright, StoreSpec(resize, 20), "a.jpg"))
    turns = {2: [0], 3: [3], 4: [1], 5: [5], 6: [4], 7: [6], 8: [2]}.get(orientation, [])
    for turn in turns:
        upright = upright.transpose(turn)
    assert np.array_equal(applied[0], resized(upright, StoreSpec(resize, 20), "a.jpg"))


def test_tiff_files_are_turned_once_whether_orientation_is_applied_or_not(tmp_path):
    data = turned(picture((60, 40)), 6, "TIFF")  # Pillow turns them itself
    for orientation in ("ignored", "applied"):
        spec = StoreSpec("short_side", 20, orientation)
        _, images = built(tmp_path / orientation, {"a.tif": data}, spec)
        assert images[0].shape == (30, 20, 3)


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
    with pytest.raises(VseppError, match=r"a\.jpg: is PostScript"):
        built(tmp_path, {"a.jpg": postscript})
    assert not started.exists()


def test_a_picture_that_is_too_large_names_itself(tmp_path):
    large = encoded(Image.new("1", (13_000, 13_000)), "PNG")
    with pytest.raises(
        VseppError, match=r"large\.png: has 13,000 × 13,000 pixels; expected at most 89,478,485"
    ):
        built(tmp_path, {"good.jpg": jpeg(1), "large.png": large})
    long = encoded(Image.new("L", (60_000, 20)), "PNG")
    with pytest.raises(VseppError, match=r"long\.png: has 60000 × 20 pixels, which are 1152000 × 384"):
        built(tmp_path, {"long.png": long}, StoreSpec("short_side", 384))


@pytest.mark.parametrize("side", [13_400, 14_000])  # below and above where Pillow itself refuses
def test_a_header_of_too_many_pixels_is_refused_with_the_number(side):
    with pytest.raises(VseppError, match=r"a\.png.*89,478,485"):
        read_picture(png(side, side), "a.png", upright=False)


@pytest.mark.parametrize(
    ("given", "got"), [(None, "NoneType"), (7, "int"), (np.zeros((4, 4, 5), np.uint8), r"\(4, 4, 5\)")]
)
def test_what_is_no_picture_is_refused_by_what_it_is(given, got):
    with pytest.raises(VseppError, match=rf"image 0.*{got}"):
        read_picture(given, "image 0", upright=False)


def test_where_sizes_are_needed_first_all_without_one_are_named_and_then_all_that_are_cut(tmp_path):
    bad = {"1.jpg": b"<html>", "2.jpg": jpeg(1, (200, 150))[:-1500], "3.jpg": jpeg(2), "4.jpg": b""}
    short = StoreSpec("short_side", 16)
    file = tmp_path / "state/problems.txt"

    def named():
        return [Path(line.partition(": ")[0]).name for line in file.read_text().splitlines()]

    with pytest.raises(VseppError, match=r"\(2 in all\).*1\.jpg: .*4\.jpg: "):
        built(tmp_path, bad, short)
    assert named() == ["1.jpg", "4.jpg"]
    with pytest.raises(VseppError, match=r"\(1 in all\).*2\.jpg: "):
        built(tmp_path, {**bad, "1.jpg": jpeg(9), "4.jpg": jpeg(9)}, short)
    assert named() == ["2.jpg"]
    _, whole = built(tmp_path, {name: jpeg(9, (200, 150)) for name in bad}, short)
    assert len(whole) == 4
    assert not file.exists()


def test_other_photographs_than_those_that_are_known_give_a_warning(tmp_path, caplog):
    facts, _ = built(tmp_path, {"a.jpg": jpeg(1)})
    with caplog.at_level(logging.WARNING):
        built(tmp_path, {"a.jpg": jpeg(1)}, photographs_sha256=(facts["photographs_sha256"],))
    assert not caplog.records
    built(tmp_path, {"a.jpg": jpeg(2)}, photographs_sha256=(facts["photographs_sha256"],))
    assert "some of their files differ" in caplog.text


def test_images_can_be_left_out_and_are_counted(tmp_path):
    spec = write_flickr8k(tmp_path / "raw")
    images, captions = read(spec)
    left = images["image_id"][1]
    fewer, their_captions = read(change(spec, leave_out=(left,)))
    assert fewer["image_id"].tolist() == [one for one in images["image_id"] if one != left]
    assert len(their_captions) == len(captions) - 2
    assert fewer.attrs["facts"]["left_out"] == 1
    with pytest.raises(VseppError, match=r"leave_out names nobody"):
        read(change(spec, leave_out=("nobody",)))


def png_with(chunk: bytes, data: bytes, *, whole=True) -> bytes:
    """A PNG with a chunk of metadata before its pixels; not whole: its checksum is wrong."""
    plain = encoded(picture(), "PNG")
    checksum = zlib.crc32(chunk + data) ^ (not whole)
    return plain[:33] + struct.pack(">I", len(data)) + chunk + data + struct.pack(">I", checksum) + plain[33:]


def jpeg_with(marker: int, data: bytes) -> bytes:
    """A JPEG with a segment of metadata behind that of JFIF, whose resolution keeps Pillow from looking into EXIF."""
    plain = encoded(picture(), "JPEG", dpi=(72, 72))
    return plain[:20] + bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data + plain[20:]


def exif_with_odd_tag(orientation: int) -> bytes:
    """EXIF with a readable orientation, and a resolution that is text."""
    tags = [struct.pack("<HHIHH", 0x112, 3, 1, orientation, 0), struct.pack("<HHI4s", 0x11A, 2, 4, b"abc")]
    return b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + b"".join(tags) + bytes(4)


@pytest.mark.parametrize(
    "data",
    [
        jpeg_with(0xE1, b"Exif\0\0garbage!"),
        jpeg_with(0xE2, b"ICC_PROFILE\0\5\1"),
        jpeg_with(0xE0, b"JFIF"),
        jpeg_with(0xEE, b"Adobe\0"),
        jpeg_with(0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0\xff\xff\xff\xff"),
        png_with(b"eXIf", b"bad"),
        png_with(b"gAMA", b"\0"),
        png_with(b"tEXt", b"a\0b", whole=False),
        png_with(b"zTXt", b"k\0\0" + zlib.compress(bytes(1 << 26))),
        encoded(picture(), "WEBP", exif=b"bad", lossless=True),
    ],
    ids=["exif", "icc", "jfif", "adobe", "photoshop", "png exif", "gamma", "text", "long text", "webp exif"],
)
@pytest.mark.parametrize("resize", ["squash", "short_side"])
def test_a_good_picture_with_broken_metadata_is_read(tmp_path, data, resize):
    facts, images = built(tmp_path, {"a.jpg": data}, StoreSpec(resize, 20, "applied"))
    assert facts["exif_turned"] == 0
    kind = "JPEG" if data.startswith(b"\xff\xd8") else "PNG"
    plain = Image.open(io.BytesIO(encoded(picture(), kind, **({"dpi": (72, 72)} if kind == "JPEG" else {}))))
    assert np.array_equal(images[0], resized(plain.convert("RGB"), StoreSpec(resize, 20), "a.jpg"))


def test_a_readable_orientation_is_applied_whatever_else_exif_holds(tmp_path):
    data = jpeg_with(0xE1, exif_with_odd_tag(6))
    _, images = built(tmp_path, {"a.jpg": data}, StoreSpec("short_side", 20, "applied"))
    assert rgb(data, upright=True).size == (44, 60) and images[0].shape == (27, 20, 3)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "La", "RGBa"])
def test_what_is_transparent_lies_on_white(mode):
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[1] = (0, 0, 0, 255)
    other = pixels.copy()
    other[0] = (200, 200, 200, 0)  # of another colour, where nothing can be seen
    for array in (pixels, other):
        image = Image.fromarray(array).convert("LA").convert("La") if mode == "La" else Image.fromarray(array)
        shown = np.asarray(rgb(image if mode == "La" else image.convert(mode)))
        assert (shown[0] == 255).all() and (shown[1] == 0).all()
    keyed = encoded(Image.fromarray(other[..., :3]), "PNG", transparency=(200, 200, 200))
    assert (np.asarray(rgb(keyed))[0] == 255).all()


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "BMP", "TIFF", "HEIF"])
def test_each_format_of_the_list_is_read_whatever_its_file_is_called(tmp_path, kind):
    pillow_heif.register_heif_opener()
    data = encoded(picture().convert("RGB"), kind)
    facts, images = built(tmp_path, {"a.jpg": data}, StoreSpec("short_side", 22))
    assert images[0].shape == (22, 30, 3) and facts["images"] == 1


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><p>404", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
        (b"%PDF-1.7\n", "PDF"),
        (b'{"error": 404}', "JSON"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(99), "HEIC"),
        (b"8BPS\0\1", "Photoshop"),
        (b"\0\0\1\0\1\0" + bytes(99), "ICO"),
        (b"\0\0\0\x18ftypcrx " + bytes(99), "camera"),
        (b"\x7fELF\2\1\1" + bytes(99), "a program"),
        (b"{\\rtf1 a}", "RTF"),
        (b"<html><title>caf\xe9</title>" + b"<p>" * 99, "HTML"),
        (b"[InternetShortcut]\nURL=", "text"),
        (bytes(2000), "zeros"),
    ],
)
def test_what_is_no_picture_is_named_by_its_first_bytes(tmp_path, data, kind):
    with pytest.raises(VseppError, match=rf"a\.jpg: .*{kind}"):
        built(tmp_path, {"a.jpg": data})
    with pytest.raises(VseppError, match=rf"a\.jpg: .*{kind}"):
        rgb(data)


def grey16(values, kind="PNG", **options):
    return encoded(Image.fromarray(np.asarray(values, np.uint16)), kind, **options)


def test_16_bit_grey_has_its_range_and_its_transparent_value():
    keyed = rgb(grey16([[0, 20000], [65535, 20000]], transparency=20000))
    assert np.array_equal(np.asarray(keyed)[..., 0], [[0, 255], [255, 255]])
    of_12_bits = bytearray(grey16(np.full((4, 4), 0xFFFF, ">u2"), "TIFF"))
    at = of_12_bits.index(struct.pack("<HHI", 258, 3, 1))  # BitsPerSample
    of_12_bits[at + 8 : at + 10] = (12).to_bytes(2, "little")
    assert np.asarray(rgb(bytes(of_12_bits)))[0, 0, 0] == 255


@pytest.mark.parametrize("mode", ["RGB", "L", "I;16", "RGBA", "P", "CMYK"])
def test_strips_and_shrinking_give_the_picture(mode, monkeypatch):
    plain = picture((120, 97))
    if mode == "I;16":
        image = Image.fromarray(np.asarray(plain.convert("L")).astype(np.uint16) * 257)
    else:
        image = plain.convert(mode)
    whole = read_picture(image, "a", upright=True).rgb
    monkeypatch.setattr("vsepp.data.pictures._STRIP", 500)
    assert np.array_equal(np.asarray(read_picture(image, "a", upright=True).rgb), np.asarray(whole))
    shrunk = read_picture(image, "a", upright=True, shortest=30).rgb
    assert np.array_equal(np.asarray(shrunk), np.asarray(whole.reduce(3)))


def test_a_cut_picture_ends_early_and_a_huge_one_says_its_sides(tmp_path):
    whole = encoded(picture((90, 61)), "JPEG", quality=92)
    for cut in (whole[:300], whole[: len(whole) // 2], encoded(picture(), "PNG")[:2000]):
        with pytest.raises(VseppError, match=r"^a\.jpg: ends early"):
            rgb(cut)
    header = struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b""))
    packed = (struct.pack(">I", len(d)) + c + d + struct.pack(">I", zlib.crc32(c + d)) for c, d in chunks)
    with pytest.raises(VseppError, match=r"40,000 × 40,000 pixels"):
        rgb(b"\x89PNG\r\n\x1a\n" + b"".join(packed))


def tiff(tags: dict[int, tuple[int, int, bytes]], pixels: bytes, order: str) -> bytes:
    """A TIFF file of 8 × 6: tag → type, number and bytes of its value; pixels at the end."""
    plain = {256: (3, 1, 8), 257: (3, 1, 6), 259: (3, 1, 1), 273: (4, 1, None), 278: (3, 1, 6)}
    listed = {**plain, 279: (4, 1, len(pixels)), **tags}
    start = 8 + 2 + 12 * len(listed) + 4
    entries = b""
    for tag, (kind, count, value) in sorted(listed.items()):
        number = start if value is None else value
        packed = (
            number if isinstance(number, bytes) else struct.pack(order + {3: "Hxx", 4: "I"}[kind], number)
        )
        entries += struct.pack(order + "HHI", tag, kind, count) + packed
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(listed))
    return head + entries + bytes(4) + pixels


FAR = b"\xff\xff\xff\x7f"
GREY = {258: (3, 1, 8), 262: (3, 1, 1), 277: (3, 1, 1)}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    "broken", [{270: (2, 99, FAR)}, {306: (12, 9, FAR)}, {700: (3, 1, FAR)}, {34675: (7, 9, FAR)}]
)
@pytest.mark.parametrize("orientation", [1, 6])
def test_a_tiff_file_with_broken_tags_is_read_and_turned_once(tmp_path, order, broken, orientation):
    pixels = np.arange(48, dtype=np.uint8).reshape(6, 8)
    data = tiff({**GREY, 274: (3, 1, orientation), **broken}, pixels.tobytes(), order)
    shown = pixels if orientation == 1 else np.rot90(pixels, -1)
    assert np.array_equal(np.asarray(rgb(data, upright=True))[..., 0], shown)
    assert picture_size(io.BytesIO(data), "a.tif", upright=True) == shown.shape[::-1]


def test_a_tiff_file_that_xmp_turns_has_its_size_turned(tmp_path):
    xmp = b'<x tiff:Orientation="6"/>'
    pixels = bytes(48)
    data = (
        tiff({**GREY, 700: (1, len(xmp), struct.pack("<I", 8 + 2 + 12 * 10 + 4 + len(pixels)))}, pixels, "<")
        + xmp
    )
    for upright in (False, True):
        assert (
            rgb(data, upright=upright).size == picture_size(io.BytesIO(data), "a", upright=upright) == (6, 8)
        )


def test_16_bit_grey_whose_white_is_0_is_turned_round():
    data = tiff({258: (3, 1, 16), 262: (3, 1, 0), 277: (3, 1, 1)}, np.full(48, 20000, "<u2").tobytes(), "<")
    assert rgb(data).getpixel((0, 0)) == (177, 177, 177)


@pytest.mark.parametrize(
    ("depth", "colour", "row", "key", "shown"),
    [
        (2, 0, b"\x55\x55", b"\0\1", 255),
        (4, 0, b"\x33" * 4, b"\0\3", 255),
        (4, 0, b"\x33" * 4, b"\0\4", 51),
        (16, 2, b"\x4e\x20" * 24, b"\x4e\x20" * 3, 255),
        (16, 2, b"\x20\x20" * 24, b"\x4e\x20" * 3, 32),
    ],
)
def test_the_transparent_colour_of_a_png_has_the_depth_of_its_pixels(depth, colour, row, key, shown):
    header = struct.pack(">IIBBBBB", 8, 6, depth, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"tRNS", key), (b"IDAT", zlib.compress((b"\0" + row) * 6)), (b"IEND", b""))
    packed = (struct.pack(">I", len(d)) + c + d + struct.pack(">I", zlib.crc32(c + d)) for c, d in chunks)
    assert rgb(b"\x89PNG\r\n\x1a\n" + b"".join(packed)).getpixel((7, 5)) == (shown,) * 3


def test_heic_is_named_where_its_package_is_installed_alone():
    said = "from vsepp.data.pictures import FORMATS, read_picture; print(*FORMATS)"
    without = f"import sys; sys.modules['pillow_heif'] = None; {said}"
    for code, there in ((said, True), (without, False)):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert ("HEIC" in run.stdout) == there


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "HEIF"])
def test_a_cut_picture_of_each_format_is_said_to_end_early(kind):
    pillow_heif.register_heif_opener()
    data = encoded(picture().convert("RGB"), kind)
    with pytest.raises(VseppError, match=r"^a\.jpg: .*ends early"):
        rgb(data[: 2 * len(data) // 3])


def test_a_picture_of_a_rare_kind_is_not_said_to_be_damaged_alone():
    floats = tiff({258: (3, 1, 16), 262: (3, 1, 1), 277: (3, 1, 1), 339: (3, 1, 3)}, bytes(96), "<")
    with pytest.raises(VseppError, match=r"^a\.jpg: is TIFF .*rare kind"):
        rgb(floats)


@pytest.mark.parametrize("kind", [b"PLTQ", b"pLTE"])
def test_a_palette_whose_name_is_damaged_does_not_become_black(kind):
    data = io.BytesIO()
    Image.new("RGB", (20, 16), "red").quantize(4).save(data, "PNG")
    with pytest.raises(VseppError, match=r"a\.png"):
        read_picture(data.getvalue().replace(b"PLTE", kind), "a.png", upright=True)
