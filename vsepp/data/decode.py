"""Encoded photographs → `uint8` RGB, resized, as a worker process of the image store computes them."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from vsepp.base.errors import VseppError
from vsepp.base.files import reading
from vsepp.base.spec import StoreSpec
from vsepp.data.containers import Container

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
"""Formats of pictures that are read, whatever a file is called: their decoders start no other program, as PostScript's does."""
LARGEST_PIXELS = Image.MAX_IMAGE_PIXELS or 0
"""Pixels of the largest photograph that is decoded, or stored: no data set of photographs has larger ones."""
PICTURE = f"a whole picture, one of {', '.join(FORMATS)}, of at most {LARGEST_PIXELS:,} pixels"
"""What messages expect."""

_ORIENTATION = 0x0112


Photographs = tuple[tuple[str, str], ...]
"""Container's path and member of each photograph."""


class Chunk(NamedTuple):
    """Consecutive rows of a store and their photographs."""

    number: int
    photographs: Photographs
    file: Path | None
    """The `.npy` file that the pixels are written into; `None`: only look for problems."""
    offsets: tuple[int, ...]
    """Byte of the file at which each photograph starts, and at which the last one ends."""
    store: StoreSpec


class ChunkResult(NamedTuple):
    """The outcome of a chunk; a chunk with problems is not finished."""

    number: int
    upscaled: int
    """Photographs with a side shorter than the store's."""
    converted: int
    """Photographs that were not RGB."""
    turned: int
    """Photographs with EXIF data that ask to turn or mirror them."""
    sha256: tuple[str, ...]
    """Digest of each photograph's file."""
    problems: tuple[str, ...]


def decode_chunk(chunk: Chunk) -> ChunkResult:
    """Decode a chunk's photographs and write them into the store's file.

    Raises
    ------
    VseppError
        If a container cannot be opened. Photographs that cannot be read or decoded are returned as problems.
    OSError
        If the pixels cannot be written.
    """
    upscaled = converted = turned = 0
    problems, sums = [], []
    containers = _containers(chunk.photographs)
    # Written, not mapped: on a full disk a mapped page ends the process with a bus error.
    with chunk.file.open("r+b") if chunk.file else io.BytesIO() as stream:
        stream.seek(chunk.offsets[0])
        for row, (path, member) in enumerate(chunk.photographs):
            try:
                data = containers[path].read(member)
                with reading(f"{member} in {path}", PICTURE):
                    image = decoded(data)
                    pixels = stored(image, chunk.store)
                    if pixels.nbytes != chunk.offsets[row + 1] - chunk.offsets[row]:
                        raise VseppError("its size changed while the store was made")
            except VseppError as error:
                problems.append(str(error))
                continue
            upscaled += min(image.size) < chunk.store.side
            converted += image.mode != "RGB"
            turned += orientation(image) != 1
            sums.append(hashlib.sha256(data).hexdigest())
            if chunk.file and not problems:
                stream.write(pixels.data)
        if chunk.file:
            stream.flush()
            os.fsync(stream.fileno())
    return ChunkResult(chunk.number, upscaled, converted, turned, tuple(sums), tuple(problems))


def measure(photographs: Photographs, store: StoreSpec) -> list[tuple[int, int]]:
    """Height and width of each photograph in the store, by its header; 0, 0 for a photograph that decoding will report.

    Raises
    ------
    VseppError
        If a container cannot be opened.
    """
    sizes = []
    containers = _containers(photographs)
    for path, member in photographs:
        width = height = 0
        with suppress(Exception), containers[path].open(member) as (stream, _), _opened(stream) as image:
            width, height = _stored_size(_seen_size(image, store), store)
        sizes.append((height, width))
    return sizes


def stored(image: Image.Image, store: StoreSpec) -> np.ndarray:
    """A photograph of any mode as a store holds it: RGB, resized, uint8 `(height, width, 3)`.

    It is resized bilinearly and antialiased. `squash` loses the aspect ratio, as in the paper's text ("resized to 256×256"):
    `store.side` × `store.side`. `short_side` keeps it, with the rounding of torchvision's `Resize`, as in the released code.

    Raises
    ------
    VseppError
        If the range of its pixels is unknown, or it would have more than `LARGEST_PIXELS`.
    """
    if store.orientation == "applied":
        image = upright(image)
    size = _stored_size(image.size, store)
    return np.asarray(in_rgb(image).resize(size, Image.Resampling.BILINEAR))


def in_rgb(image: Image.Image) -> Image.Image:
    """A picture of 8 bits per channel; 16-bit grey is scaled, since Pillow's own conversion clips it to white.

    Raises
    ------
    VseppError
        On pixels in 32-bit whole numbers or floating point: their range is unknown.
    """
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image).astype(np.uint32) * 255 + 32767) // 65535).convert("L")
    elif image.mode in ("I", "F"):
        kind = "32-bit whole numbers" if image.mode == "I" else "floating point"
        raise VseppError(f"its pixels are {kind}, whose range is unknown; save it with 8 bits")
    return image.convert("RGB")


def _stored_size(size: tuple[int, int], store: StoreSpec) -> tuple[int, int]:
    """Width and height that a picture of `size`, its width and height, has in the store."""
    side = store.side
    if store.resize == "squash":
        return side, side
    width, height = size
    short = min(width, height)
    width, height = side * width // short, side * height // short
    if width * height > LARGEST_PIXELS:
        raise VseppError(
            f"has {size[0]} × {size[1]} pixels, which are {width} × {height} with a short side of {side}: more than "
            f"{LARGEST_PIXELS:,} in all"
        )
    return width, height


def _seen_size(image: Image.Image, store: StoreSpec) -> tuple[int, int]:
    """Width and height of an opened picture, after turning where the store turns it."""
    across = store.orientation == "applied" and orientation(image) >= 5  # the four that exchange the sides
    return (image.height, image.width) if across else image.size


def upright(image: Image.Image) -> Image.Image:
    """A picture turned and mirrored as its EXIF data say, as people see it."""
    return ImageOps.exif_transpose(image) if orientation(image) != 1 else image


def orientation(image: Image.Image) -> int:
    """EXIF orientation of a picture, from 1, as it is, to 8."""
    value = image.getexif().get(_ORIENTATION, 1)
    return value if isinstance(value, int) and 1 <= value <= 8 else 1  # as EXIF counts


def decoded(data: bytes) -> Image.Image:
    """The pixels of an encoded photograph, in its own mode.

    Callers guard it with `reading`, since a file that is damaged or no picture can raise any exception. A JPEG that ends early but has
    its end marker becomes partly grey, as in the authors' code.

    Raises
    ------
    VseppError
        If it has more than `LARGEST_PIXELS`.
    """
    # No `draft`: it decodes large JPEGs, and only these, at a reduced size, with other pixels than full decoding and bilinear
    # resizing.
    image = _opened(io.BytesIO(data))
    image.load()
    return image


def _opened(stream: IO[bytes]) -> Image.Image:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # told below
        image = Image.open(stream, formats=FORMATS)
    if image.width * image.height > LARGEST_PIXELS:
        raise VseppError(f"has {image.width} × {image.height} pixels; expected at most {LARGEST_PIXELS:,}")
    return image


def _containers(photographs: Photographs) -> dict[str, Container]:
    return {path: _container(path, Path(path).stat().st_mtime_ns) for path, _ in photographs}


@cache
def _container(path: str, modified: int) -> Container:
    # Kept open between chunks, since reading the member list of a large archive takes a while; reopened if the file changed.
    return Container(path)
