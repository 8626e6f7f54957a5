"""One picture after another: whatever holds it becomes RGB, or is one sentence with its name; see `test_store` for stores."""

import io
import struct
import subprocess
import zlib
from contextlib import suppress

import numpy as np
import pillow_heif
import pytest
from indexes import png
from PIL import Image
from raw_layouts import encoded, jpeg

from vsepp.base.errors import VseppError
from vsepp.base.spec import StoreSpec
from vsepp.data.pictures import picture_size, read_picture, stored_size

FORMATS = ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "HEIF"]


@pytest.fixture(autouse=True)
def heif():
    pillow_heif.register_heif_opener()


def picture(size=(60, 44)) -> Image.Image:
    return Image.open(io.BytesIO(jpeg(3, size))).convert("RGB")


def rgb(source, *, upright=False):
    return read_picture(source, "a.jpg", upright=upright).rgb


def pixels_of(source, **options):
    return np.asarray(rgb(source, **options))


# Where pictures come from


def test_a_path_an_array_and_a_picture_of_pillows_are_the_same_as_bytes(tmp_path):
    data = encoded(picture(), "PNG")
    (tmp_path / "a.png").write_bytes(data)
    image = Image.open(io.BytesIO(data))
    for source in (tmp_path / "a.png", str(tmp_path / "a.png"), image, np.asarray(image)):
        assert np.array_equal(pixels_of(source), pixels_of(data))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "NoneType"),
        (np.zeros((4, 4, 3), np.float32), "float32"),
        (np.zeros((4, 0, 3), np.uint8), r"\(4, 0, 3\)"),
        (np.zeros((4, 4, 5), np.uint8), r"\(4, 4, 5\)"),
    ],
)
def test_a_value_that_is_no_picture_is_named_by_its_type(source, message):
    with pytest.raises(VseppError, match=rf"^a\.jpg.*{message}"):
        rgb(source)


# Formats


@pytest.mark.parametrize("kind", FORMATS)
def test_each_format_is_read_whatever_its_file_is_called_and_a_cut_file_ends_early(kind):
    data = encoded(picture(), kind)
    assert rgb(data).size == (60, 44)
    with pytest.raises(VseppError, match=r"^a\.jpg: .*ends early"):
        rgb(data[: 2 * len(data) // 3])


def test_a_cut_jpeg_with_an_end_marker_is_partly_grey():
    whole = encoded(picture((90, 61)), "JPEG", quality=92)
    pixels = pixels_of(whole[: len(whole) // 2] + b"\xff\xd9")
    assert np.array_equal(pixels[0, 0], pixels_of(whole)[0, 0]) and np.all(pixels[-1, -1] == 128)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(99), "HEIC"),
        (bytes(2000), "zeros"),
    ],
)
def test_a_file_that_is_no_picture_is_named_by_its_first_bytes(data, kind):
    with pytest.raises(VseppError, match=rf"^a\.jpg: .*{kind}"):
        rgb(data)


def test_postscript_that_is_named_like_a_photograph_starts_no_other_program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    started = tmp_path / "started"
    ghostscript = tmp_path / "gs"
    ghostscript.write_text(f"#!/bin/sh\n: > {started}\nexit 1\n")
    ghostscript.chmod(0o755)
    postscript = encoded(picture(), "EPS")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    with suppress(OSError, subprocess.CalledProcessError), Image.open(io.BytesIO(postscript)) as image:
        image.load()
    assert started.exists(), "Pillow starts no program any more"
    started.unlink()
    with pytest.raises(VseppError, match=r"a\.jpg: is PostScript"):
        rgb(postscript)
    assert not started.exists()


@pytest.mark.parametrize("side", [13_400, 14_000])  # below and above where Pillow itself refuses
def test_a_header_of_too_many_pixels_is_refused_with_the_number(side):
    with pytest.raises(VseppError, match=r"a\.png.*89,478,485"):
        read_picture(png(side, side), "a.png", upright=False)


def test_a_picture_that_a_store_would_make_too_large_is_refused():
    with pytest.raises(VseppError, match=r"long\.png.*1152000 × 384"):
        stored_size((60_000, 20), StoreSpec("short_side", 384), "long.png")


# Turning, and metadata


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_ignored_or_applied(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(picture((60, 40)), "JPEG", exif=exif, quality=95)
    turns = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
    stored = rgb(data)
    upright = stored.transpose(turns[orientation]) if orientation in turns else stored
    assert stored.size == (60, 40)
    assert np.array_equal(pixels_of(data, upright=True), np.asarray(upright))
    assert picture_size(io.BytesIO(data), "a", upright=True) == upright.size
    assert read_picture(data, "a", upright=False).orientation == orientation


ORIENTATION, BITS, WHITE_IS_0, DESCRIPTION = 274, 258, 262, 270


def tiff_with(image: Image.Image, tags: dict[int, int]) -> bytes:
    """A TIFF file lying on its side, with a description; in the entries of some tags another value, or place of a value."""
    data = bytearray(encoded(image, "TIFF", tiffinfo={ORIENTATION: 6, DESCRIPTION: "of a dog"}))
    (start,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, start)
    for entry in range(start + 2, start + 2 + 12 * count, 12):
        (tag,) = struct.unpack_from("<H", data, entry)
        if tag in tags:
            struct.pack_into("<I", data, entry + 8, tags[tag])
    return bytes(data)


@pytest.mark.parametrize("tags", [{}, {DESCRIPTION: 0x7FFFFFFF}], ids=["whole", "broken"])
@pytest.mark.parametrize("upright", [False, True])
@pytest.mark.filterwarnings("ignore:Truncated File Read")
def test_a_tiff_file_is_turned_once_since_pillow_turns_it_whatever_its_tags(tags, upright):
    data = tiff_with(picture(), tags)
    size = picture_size(io.BytesIO(data), "a", upright=upright)
    assert rgb(data, upright=upright).size == size == (44, 60)


@pytest.mark.parametrize(
    ("value", "tags", "grey"), [(0xFFFF, {BITS: 12}, 255), (20_000, {WHITE_IS_0: 0}, 177)]
)
def test_grey_of_other_ranges_has_its_own_white(value, tags, grey):
    data = tiff_with(Image.fromarray(np.full((4, 4), value, np.uint16)), tags)
    assert pixels_of(data)[0, 0, 0] == grey


def png_with(chunk: bytes, data: bytes, *, whole=True) -> bytes:
    """A PNG with a chunk of metadata before its pixels; not whole: its checksum is wrong."""
    plain = encoded(picture(), "PNG")
    checksum = zlib.crc32(chunk + data) ^ (not whole)
    return plain[:33] + struct.pack(">I", len(data)) + chunk + data + struct.pack(">I", checksum) + plain[33:]


def jpeg_with(marker: int, data: bytes) -> bytes:
    """A JPEG with a segment of metadata behind that of JFIF, whose resolution keeps Pillow from looking into EXIF."""
    plain = encoded(picture(), "JPEG", dpi=(72, 72))
    return plain[:20] + bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data + plain[20:]


@pytest.mark.parametrize(
    "data",
    [
        jpeg_with(0xE1, b"Exif\0\0garbage!"),
        jpeg_with(0xE2, b"ICC_PROFILE\0\5\1"),
        png_with(b"eXIf", b"bad"),
        png_with(b"tEXt", b"a\0b", whole=False),
        png_with(b"zTXt", b"k\0\0" + zlib.compress(bytes(1 << 26))),
        encoded(picture(), "WEBP", exif=b"bad", lossless=True),
    ],
    ids=["exif", "icc", "png exif", "text", "long text", "webp exif"],
)
def test_a_good_picture_with_broken_metadata_is_read(data):
    image = read_picture(data, "a", upright=True)
    plain = encoded(picture(), "JPEG", dpi=(72, 72)) if data.startswith(b"\xff\xd8") else picture()
    assert image.orientation == 1
    assert np.array_equal(np.asarray(image.rgb), pixels_of(plain))


# Ranges of values, and transparency


@pytest.mark.parametrize(("kind", "order"), [("PNG", "<u2"), ("TIFF", "<u2"), ("TIFF", ">u2")])
def test_16_bit_grey_is_scaled_and_not_clipped_to_white(kind, order):
    ramp = np.linspace(0, 65535, 300).astype(order).reshape(10, 30)
    pixels = pixels_of(encoded(Image.fromarray(ramp), kind))
    assert np.array_equal(pixels, np.rint(ramp.astype(float) / 257)[..., None].repeat(3, axis=2))


def test_values_without_a_white_are_refused():
    with pytest.raises(VseppError, match=r"a\.jpg: its pixels"):
        rgb(encoded(Image.fromarray(np.full((20, 20), 300, np.int32)), "TIFF"))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "La", "RGBa"])
def test_transparent_pixels_lie_on_white(mode):
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[0] = (200, 200, 200, 0)  # of a colour that cannot be seen
    pixels[1] = (0, 0, 0, 255)
    image = Image.fromarray(pixels)
    shown = pixels_of(image.convert("LA").convert("La") if mode == "La" else image.convert(mode))
    assert (shown[0] == 255).all() and (shown[1] == 0).all()


@pytest.mark.parametrize(
    ("depth", "colour", "row", "key", "value"),
    [
        (2, 0, b"\x55\x55", b"\0\1", 255),
        (4, 0, b"\x33" * 4, b"\0\3", 255),
        (4, 0, b"\x33" * 4, b"\0\4", 51),
        (16, 0, b"\x4e\x20" * 8, b"\x4e\x20", 255),
        (16, 2, b"\x4e\x20" * 24, b"\x4e\x20" * 3, 255),
        (16, 2, b"\x20\x20" * 24, b"\x4e\x20" * 3, 32),
    ],
)
def test_the_transparent_colour_of_a_png_has_the_depth_of_its_pixels(depth, colour, row, key, value):
    header = struct.pack(">IIBBBBB", 8, 6, depth, colour, 0, 0, 0)
    rows = zlib.compress((b"\0" + row) * 6)
    chunks = {b"IHDR": header, b"tRNS": key, b"IDAT": rows, b"IEND": b""}
    packed = (
        struct.pack(">I", len(d)) + c + d + struct.pack(">I", zlib.crc32(c + d)) for c, d in chunks.items()
    )
    assert rgb(b"\x89PNG\r\n\x1a\n" + b"".join(packed)).getpixel((7, 5)) == (value,) * 3


@pytest.mark.parametrize("mode", ["RGB", "L", "I;16", "RGBA", "P", "CMYK"])
def test_strips_and_shrinking_give_the_picture(mode, monkeypatch):
    image = picture((120, 97))
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
    else:
        image = image.convert(mode)
    whole = rgb(image)
    monkeypatch.setattr("vsepp.data.pictures._STRIP", 500)
    assert np.array_equal(pixels_of(image), np.asarray(whole))
    shrunk = read_picture(image, "a", upright=True, shortest=30).rgb
    assert np.array_equal(np.asarray(shrunk), np.asarray(whole.reduce(3)))
