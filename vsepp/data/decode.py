"""Encoded photographs → `uint8` squares, as a worker process of the image store computes them."""

from __future__ import annotations

import io
import os
import struct
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from vsepp.data.containers import Container
from vsepp.errors import VseppError
from vsepp.spec import StoreSpec

DECODING_ERRORS = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)


class Chunk(NamedTuple):
    """Consecutive rows of a store and their photographs."""

    number: int
    photographs: tuple[tuple[str, str], ...]
    """Container's path and member of each."""
    file: Path
    """The `.npy` file that the pixels are written into."""
    offset: int
    """Byte of the file at which the rows start."""
    store: StoreSpec


class ChunkResult(NamedTuple):
    """The outcome of a chunk; if there are problems, nothing was written."""

    number: int
    upscaled: int
    """Photographs with a side shorter than the store's."""
    converted: int
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
    side = chunk.store.side
    pixels = np.empty((len(chunk.photographs), side, side, 3), np.uint8)
    upscaled = converted = 0
    problems = []
    containers = {path: _container(path, Path(path).stat().st_mtime_ns) for path, _ in chunk.photographs}
    for row, (path, member) in enumerate(chunk.photographs):
        try:
            image = decoded(containers[path].read(member))
        except VseppError as error:
            problems.append(str(error))
            continue
        except DECODING_ERRORS as error:
            problems.append(f"{member} in {path}: {error}")
            continue
        upscaled += min(image.size) < side
        converted += image.mode != "RGB"
        pixels[row] = stored(image, chunk.store)
    if not problems:
        # Written, not mapped: on a full disk a mapped page ends the process with a bus error.
        with chunk.file.open("r+b") as stream:
            stream.seek(chunk.offset)
            stream.write(pixels.data)
            stream.flush()
            os.fsync(stream.fileno())
    return ChunkResult(chunk.number, upscaled, converted, tuple(problems))


def stored(image: Image.Image, store: StoreSpec) -> np.ndarray:
    """A photograph of any mode as a store holds it: RGB, resized, uint8 `(side, side, 3)`."""
    return np.asarray(resized(image if image.mode == "RGB" else image.convert("RGB"), store))


def resized(image: Image.Image, store: StoreSpec) -> Image.Image:
    """Bring an RGB image to `store.side` × `store.side`, bilinear and antialiased.

    `squash` loses the aspect ratio, as in the paper's text ("resized to 256×256"). `short_side` keeps it and
    takes the centred square, with the rounding of torchvision's `Resize` and `CenterCrop`. Differs from
    the released code, whose training crops come from the whole photograph.
    """
    side = store.side
    if store.resize == "squash":
        return image.resize((side, side), Image.Resampling.BILINEAR)
    width, height = image.size
    short = min(width, height)
    image = image.resize((side * width // short, side * height // short), Image.Resampling.BILINEAR)
    left, top = (round((length - side) / 2.0) for length in image.size)
    return image.crop((left, top, left + side, top + side))


def decoded(data: bytes) -> Image.Image:
    """The pixels of an encoded photograph, in its own mode; raises one of `DECODING_ERRORS`."""
    # No `draft`: it decodes large JPEGs, and only these, at a reduced size, with other pixels than full decoding and bilinear
    # resizing. EXIF's orientation is not applied: like the usual loaders, the store takes the pixels as they are.
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


@cache
def _container(path: str, modified: int) -> Container:
    # Kept open between chunks, since reading the member list of a large archive takes a while; reopened if the file changed.
    return Container(path)
