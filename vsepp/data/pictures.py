"""The boundary of Pillow: whatever holds a picture → 8-bit RGB; every failure is one sentence that names the file."""

from __future__ import annotations

import io
import os
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from vsepp.base.errors import VseppError
from vsepp.base.files import bytes_of, reading
from vsepp.base.spec import StoreSpec
from vsepp.data.raw import LARGEST_MEMBER

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
"""Formats of pictures that are read, whatever a file is called: their decoders start no other program, as PostScript's does."""
LARGEST_PIXELS = Image.MAX_IMAGE_PIXELS or 0
"""Pixels of the largest photograph that is decoded, or stored: no data set of photographs has larger ones."""

_ORIENTATION = 0x0112

Picture = str | os.PathLike[str] | bytes | Image.Image | np.ndarray
"""A path, the bytes of a file, a picture of Pillow's, or uint8 `(height, width)`, `(height, width, 3)` or `(height, width, 4)`."""


class Decoded(NamedTuple):
    """A picture, and what its file said of it."""

    rgb: Image.Image
    mode: str
    """Pillow's mode of the file: `RGB`, `L`, `CMYK`, ..."""
    orientation: int
    """Its EXIF orientation, from 1, as it is, to 8; Pillow itself turns TIFF files, which then have 1."""


def read_picture(picture: Picture, name: str, *, upright: bool, largest: int = LARGEST_PIXELS) -> Decoded:
    """Decode a picture: RGB, 8 bits a channel.

    Grey is repeated, of 16 bits scaled, and an alpha channel is dropped. A JPEG that ends early but has its end marker becomes partly
    grey, as in the authors' code.

    Parameters
    ----------
    picture
        The picture.
    name
        What messages call it: the path, or what the user knows it by.
    upright
        Whether it is turned and mirrored as its EXIF data say, as people see it.
    largest
        Pixels above which it is refused before any of them is decoded.

    Raises
    ------
    VseppError
        If it cannot be read, is none of `FORMATS`, is damaged or too large, or if the range of its pixels is unknown.
    """
    with _guarded(name, largest):
        if isinstance(picture, np.ndarray):
            image = _from_array(picture)
        elif isinstance(picture, Image.Image):
            image = picture
        else:
            if not isinstance(picture, bytes | str | os.PathLike):
                raise VseppError(
                    f"got {type(picture).__name__}; expected a path, bytes, an array or a PIL picture"
                )
            data = (
                picture
                if isinstance(picture, bytes)
                else bytes_of(Path(picture), "a picture", LARGEST_MEMBER)
            )
            # No `draft`: it decodes large JPEGs, and only these, at a reduced size, with other pixels than full decoding and
            # bilinear resizing.
            image = _opened(io.BytesIO(data), largest)
        image.load()
        orientation = _orientation(image)
        turned = ImageOps.exif_transpose(image) if upright and orientation != 1 else image
        return Decoded(_in_rgb(turned), image.mode, orientation)


def picture_size(stream: IO[bytes], name: str, *, upright: bool) -> tuple[int, int]:
    """Width and height that `read_picture` gives, by the header of a file.

    Raises
    ------
    VseppError
        If the header is none of a picture, or one of a picture that is too large.
    """
    with _guarded(name, LARGEST_PIXELS), _opened(stream, LARGEST_PIXELS) as image:
        # Orientations from 5 exchange the sides; in the sizes of TIFF files they are exchanged already.
        across = upright and image.format != "TIFF" and _orientation(image) >= 5
        return (image.height, image.width) if across else image.size


def resized(image: Image.Image, store: StoreSpec, name: str) -> np.ndarray:
    """An RGB picture as a store holds it: uint8 `(height, width, 3)`.

    It is resized bilinearly and antialiased. `squash` loses the aspect ratio, as in the paper's text ("resized to 256×256"):
    `store.side` × `store.side`. `short_side` keeps it, with the rounding of torchvision's `Resize`, as in the released code.

    Raises
    ------
    VseppError
        If it would have more than `LARGEST_PIXELS`; `name` is what the message calls it.
    """
    return np.asarray(image.resize(stored_size(image.size, store, name), Image.Resampling.BILINEAR))


def stored_size(size: tuple[int, int], store: StoreSpec, name: str) -> tuple[int, int]:
    """Width and height that a picture of `size`, its width and height, has in the store."""
    side = store.side
    if store.resize == "squash":
        return side, side
    width, height = (side * length // min(size) for length in size)
    if width * height > LARGEST_PIXELS:
        raise VseppError(
            f"{name}: has {size[0]} × {size[1]} pixels, which are {width} × {height} with a short side of {side}: more than "
            f"{LARGEST_PIXELS:,} in all"
        )
    return width, height


def small_jpeg(image: Image.Image, side: int, quality: int) -> bytes:
    """A picture as the bytes of a JPEG, its longer side shrunk to at most `side` pixels: to be looked at, not for models."""
    if (longest := max(image.size)) > side:
        width, height = (max(1, round(length * side / longest)) for length in image.size)
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    image.save(data, "JPEG", quality=quality)
    return data.getvalue()


def _guarded(name: str, largest: int) -> AbstractContextManager[None]:
    return reading(name, f"a whole picture, one of {', '.join(FORMATS)}, of at most {largest:,} pixels")


def _opened(stream: IO[bytes], largest: int) -> Image.Image:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the size is compared below
        try:
            image = Image.open(stream, formats=FORMATS)
        except Image.DecompressionBombError as error:
            raise VseppError(f"has too many pixels ({error}); expected at most {largest:,}") from error
    if image.width * image.height > largest:
        raise VseppError(f"has {image.width} × {image.height} pixels; expected at most {largest:,}")
    return image


def _from_array(pixels: np.ndarray) -> Image.Image:
    channels = pixels.shape[2:]
    if pixels.dtype != np.uint8 or pixels.ndim < 2 or channels not in ((), (3,), (4,)) or 0 in pixels.shape:
        raise VseppError(
            f"expected uint8 (height, width) or (height, width, 3 or 4), got {pixels.dtype} {pixels.shape}"
        )
    return Image.fromarray(pixels)


def _orientation(image: Image.Image) -> int:
    value = image.getexif().get(_ORIENTATION, 1)
    return value if isinstance(value, int) and 1 <= value <= 8 else 1  # as EXIF counts


def _in_rgb(image: Image.Image) -> Image.Image:
    """A picture of 8 bits per channel; 16-bit grey is scaled, since Pillow's own conversion clips it to white."""
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image).astype(np.uint32) * 255 + 32767) // 65535).convert("L")
    elif image.mode in ("I", "F"):
        kind = "32-bit whole numbers" if image.mode == "I" else "floating point"
        raise VseppError(f"its pixels are {kind}, whose range is unknown; save it with 8 bits")
    return image.convert("RGB")
