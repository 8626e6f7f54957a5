"""Picture files without what is not needed for their pixels: a picture whose metadata are
damaged can still be read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress

from vsepp.base.signatures import JPEG, PNG, TIFF, WEBP, kind_of

ORIENTATION = 0x0112
"""Tag of EXIF and TIFF that says how a picture is turned."""
PHOTOMETRIC = 262
"""Tag of TIFF that says what the numbers of its pixels mean."""
_PIXELS_OF_WEBP = (b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ANIM", b"ANMF")
_COLOURS_OF_PNG, _PALETTE = 25, 3
"""Byte of a PNG file that has the kind of its colours; this kind has a palette."""
_PIXELS_OF_TIFF = {
    *(*range(254, 260), PHOTOMETRIC, 266, 273, ORIENTATION, *range(277, 280), 284, 292, 293, 317, 320),
    *(*range(322, 326), 332, 338, 339, 347, *range(512, 522), *range(529, 533)),
}
"""Tags of a TIFF file by which its pixels are decoded."""


def without_metadata(data: bytes) -> bytes:
    """A PNG, JPEG, WebP or TIFF file without what is not needed for its pixels; another file as it is."""
    kind = kind_of(data)
    if kind == PNG:
        chunks = _chunks(data, 8, ">", before_type=True)
        kept = [(tag, chunk) for tag, chunk in chunks if tag[:1].isupper() or tag == b"tRNS"]
        # A picture of a palette is black without it.
        lost = data[_COLOURS_OF_PNG] == _PALETTE and b"PLTE" not in dict(kept)
        return data if lost else data[:8] + b"".join(chunk for _, chunk in kept)
    if kind == WEBP:
        end = 8 + int.from_bytes(data[4:8], "little")
        chunks = _chunks(data[:end], 12, "<", before_type=False)
        body = b"WEBP" + b"".join(chunk for tag, chunk in chunks if tag in _PIXELS_OF_WEBP)
        return data if end > len(data) else b"RIFF" + struct.pack("<I", len(body)) + body
    if kind == TIFF:
        return _without_tags(data)
    return _without_segments(data) if kind == JPEG else data


def _chunks(data: bytes, at: int, order: str, *, before_type: bool) -> Iterator[tuple[bytes, bytes]]:
    """Types and chunks of a PNG (length, type, data, checksum) or WebP file (type, length, data, padding)."""
    while at + 8 <= len(data):
        length, kind = (
            (data[at : at + 4], data[at + 4 : at + 8])
            if before_type
            else (data[at + 4 : at + 8], data[at : at + 4])
        )
        (size,) = struct.unpack(f"{order}I", length)
        end = at + 8 + size + (4 if before_type else size % 2)
        yield kind, data[at:end]
        at = end


def _without_segments(data: bytes) -> bytes:
    """A JPEG file without comments and metadata before its pixels.

    Whole segments of JFIF and Adobe, which say how colours are coded, stay.
    """
    parts, at = [data[:2]], 2
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] != 0xDA:
        if data[at + 1] == 0xFF:  # fills
            at += 1
            continue
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        colours = marker in (0xE0, 0xEE) and length >= 14
        if colours or not (0xE0 <= marker <= 0xEF or marker == 0xFE):
            parts.append(data[at : at + 2 + length])
        at += 2 + length
    return b"".join([*parts, data[at:]])


def _without_tags(data: bytes) -> bytes:
    """A TIFF file whose first directory has only tags of `_PIXELS_OF_TIFF`: the others get a
    type that nobody reads."""
    order, large = "<" if data[:1] == b"I" else ">", 43 in data[2:4]
    offset, count, size = ("Q", "Q", 20) if large else ("I", "H", 12)
    whole = bytearray(data)
    with suppress(struct.error):  # ends early
        (at,) = struct.unpack_from(order + offset, data, 8 if large else 4)
        (entries,) = struct.unpack_from(order + count, data, at)
        first = at + struct.calcsize(count)
        for entry in range(first, min(first + entries * size, len(data)), size):
            if struct.unpack_from(order + "H", data, entry)[0] not in _PIXELS_OF_TIFF:
                whole[entry + 2 : entry + 4] = b"\xff\xff"
    return bytes(whole)
