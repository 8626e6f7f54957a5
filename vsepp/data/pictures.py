"""The boundary of Pillow: whatever holds a picture → 8-bit RGB; every failure is one sentence
that names the file."""

from __future__ import annotations

import io
import os
import warnings
from contextlib import AbstractContextManager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError

from vsepp.base.errors import VseppError
from vsepp.base.files import bytes_of, reading
from vsepp.base.signatures import BMP, GIF, HEAD, HEIC, JPEG, PNG, TIFF, WEBP, kind_of
from vsepp.base.spec import StoreSpec
from vsepp.data.container import LARGEST_MEMBER
from vsepp.data.metadata import ORIENTATION, PHOTOMETRIC, without_metadata

FORMATS = (JPEG, PNG, WEBP, GIF, BMP, TIFF, *((HEIC,) if find_spec("pillow_heif") else ()))
"""Formats of pictures that are read, whatever a file is called: their decoders start no other program,
as PostScript's does."""
LARGEST_PIXELS = Image.MAX_IMAGE_PIXELS or 0
"""Pixels of the largest photograph that is decoded, or stored: no data set of photographs has larger ones."""

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Orientation as EXIF counts → how the picture is turned and mirrored; 1 is upright."""
_DEPTH_OF_PNG = 24
"""Byte of a PNG file that has the bits of a channel."""
_BITS = 258
"""Tag of TIFF that has the bits of a channel."""
_STRIP = 1 << 20
"""Pixels that are converted at a time."""

Picture = str | os.PathLike[str] | bytes | Image.Image | np.ndarray
"""A path, the bytes of a file, a picture of Pillow's, or uint8 `(height, width)`, `(height, width, 3)` or
`(height, width, 4)`."""


class Decoded(NamedTuple):
    """A picture, and two facts of its file."""

    rgb: Image.Image
    mode: str
    """Pillow's mode of the file: `RGB`, `L`, `CMYK`, ..."""
    orientation: int
    """Its EXIF orientation, from 1, as it is, to 8; decoders of TIFF and HEIC turn them
    themselves, which then have 1."""


def read_picture(
    picture: Picture,
    name: str,
    *,
    upright: bool,
    largest: int = LARGEST_PIXELS,
    shortest: int | None = None,
) -> Decoded:
    """Decode a picture: RGB, 8 bits a channel.

    Grey is repeated, of 16 bits scaled, and what is transparent lies on white. Broken metadata (EXIF, ICC,
    XMP, text) are no reason to refuse a picture: then it has no orientation. A JPEG that ends early but has
    its end marker becomes partly grey, as in the authors' code.

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
    shortest
        If given, a large picture is shrunk by a whole factor before it is converted, so that its shorter side
        keeps at least this many pixels; this bounds the memory. Its pixels are means: resized again, to a
        fourth of `shortest` or less, they differ from those of the whole picture by a few of 255 levels.

    Raises
    ------
    VseppError
        If it cannot be read, is none of `FORMATS`, is damaged or too large, or if the range of
        its pixels is unknown.
    """
    data = None
    if isinstance(picture, bytes | str | os.PathLike):
        data = picture if isinstance(picture, bytes) else bytes_of(Path(picture), "a picture", LARGEST_MEMBER)
    with _guarded(name, largest, data):
        if data is not None:
            image, orientation = _decoded(data, largest, shortest)
        elif isinstance(picture, np.ndarray):
            image, orientation = _from_array(picture), 1
        elif isinstance(picture, Image.Image):
            picture.load()
            image, orientation = picture, _orientation(picture)
        else:
            raise VseppError(
                f"got {type(picture).__name__}; expected a path, bytes, an array or a PIL picture"
            )
        rgb = _in_rgb(image, _factor(image.size, shortest))
        turn = _TURNS.get(orientation) if upright else None
        return Decoded(rgb if turn is None else rgb.transpose(turn), image.mode, orientation)


def picture_size(stream: IO[bytes], name: str, *, upright: bool) -> tuple[int, int]:
    """Width and height that `read_picture` gives, by the header of a file.

    Raises
    ------
    VseppError
        If the header is none of a picture, or one of a picture that is too large.
    """
    head = stream.read(HEAD)
    with _guarded(name, LARGEST_PIXELS, head):
        if kind_of(head) != TIFF:  # Pillow turns TIFF files while it decodes them
            with suppress(Exception), _opened(stream, LARGEST_PIXELS) as image:
                across = upright and _orientation(image) >= 5  # these exchange the sides
                return (image.height, image.width) if across else image.size
        return read_picture(_rewound(stream).read(), name, upright=upright).rgb.size


def resized(image: Image.Image, store: StoreSpec, name: str) -> np.ndarray:
    """An RGB picture as a store holds it: uint8 `(height, width, 3)`.

    It is resized bilinearly and antialiased. `squash` loses the aspect ratio, as in the paper's text
    ("resized to 256×256"): `store.side` × `store.side`. `short_side` keeps it, with the rounding of
    torchvision's `Resize`, as in the released code.

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
            f"{name}: has {size[0]} × {size[1]} pixels, which are {width} × {height} with a short side of "
            f"{side}: more than {LARGEST_PIXELS:,} in all"
        )
    return width, height


def _guarded(name: str, largest: int, data: bytes | None = None) -> AbstractContextManager[None]:
    kind = "" if data is None else kind_of(data)
    cure = "; install vsepp[heif], or save it as JPEG" if kind == HEIC else ""
    expected = f"a whole picture, one of {', '.join(FORMATS)}, of at most {largest:,} pixels{cure}"
    return reading(name, expected, kinds=FORMATS, data=data)


def _decoded(data: bytes, largest: int, shortest: int | None) -> tuple[Image.Image, int]:
    """A picture with its pixels, and its orientation; metadata that cannot be read are left out."""
    try:
        image = _loaded(data, largest, shortest)
    except VseppError:
        raise
    except Exception:
        try:
            image = _loaded(without_metadata(data), largest, shortest)
        except (VseppError, MemoryError):
            raise
        except Exception as error:
            if (kind := kind_of(data)) not in FORMATS:
                raise
            expected = f"expected a whole picture, of at most {largest:,} pixels"
            raise VseppError(
                f"{_fault_of(error, kind)}; {expected}: fetch it again, or save it as PNG"
            ) from error
        if image.format != TIFF:
            with suppress(Exception):  # the header may still be whole
                return image, _orientation(_opened(io.BytesIO(data), largest))
        return image, 1
    return image, _orientation(image)


def _fault_of(error: Exception, kind: str) -> str:
    if isinstance(error, Image.DecompressionBombError):
        return "has a frame of too many pixels"
    if "truncated" in str(error).lower():
        return "ends early"
    rare = ", or its pixels are of a rare kind" if isinstance(error, UnidentifiedImageError) else ""
    return f"is {kind} that is damaged or ends early{rare}"


def _loaded(data: bytes, largest: int, shortest: int | None) -> Image.Image:
    image = _opened(io.BytesIO(data), largest)
    if image.format == PNG:
        _scale_key(image, data[_DEPTH_OF_PNG])
    if (factor := _factor(image.size, shortest)) > 1:
        # Else no `draft`: it decodes large JPEGs, and only these, at a reduced size, with other pixels than
        # full decoding and bilinear resizing.
        image.draft(None, (image.width // factor, image.height // factor))
    image.load()
    return image


def _scale_key(image: Image.Image, depth: int) -> None:
    """Give the transparent colour of a PNG 8 bits a channel, as Pillow gives its pixels."""
    key = image.info.get("transparency")
    if image.mode == "L" and isinstance(key, int):
        image.info["transparency"] = key * {2: 85, 4: 17}.get(depth, 1)
    elif image.mode == "RGB" and isinstance(key, tuple) and depth == 16:
        image.info["transparency"] = tuple(value >> 8 for value in key)


def _factor(size: tuple[int, int], shortest: int | None) -> int:
    """By how much a picture is shrunk before it is converted."""
    return 1 if shortest is None else max(1, min(size) // shortest)


def _opened(stream: IO[bytes], largest: int) -> Image.Image:
    kind = kind_of(_rewound(stream).read(HEAD))
    formats = [name for name in FORMATS if name != HEIC]
    if kind == HEIC and HEIC in FORMATS:
        from pillow_heif import register_heif_opener  # imported once there is such a picture

        register_heif_opener()
        kind, formats = "HEIF", ["HEIF"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of metadata, and of the size, which is compared below
        try:
            image = Image.open(_rewound(stream), formats=formats)
        except Image.DecompressionBombError:  # does not say the sides, which the format's own class reads
            image = Image.OPEN[kind.upper()][0](_rewound(stream), "")
    if image.width * image.height > largest:
        raise VseppError(f"has {image.width:,} × {image.height:,} pixels; expected at most {largest:,}")
    return image


def _rewound(stream: IO[bytes]) -> IO[bytes]:
    stream.seek(0)
    return stream


def _from_array(pixels: np.ndarray) -> Image.Image:
    channels = pixels.shape[2:]
    if pixels.dtype != np.uint8 or pixels.ndim < 2 or channels not in ((), (3,), (4,)) or 0 in pixels.shape:
        first = pixels.ndim == 3 and pixels.shape[0] in (3, 4)
        raise VseppError(
            f"expected uint8 (height, width) or (height, width, 3 or 4), got {pixels.dtype} {pixels.shape}"
            + "; channels stand last: give pixels.transpose(1, 2, 0)" * first
        )
    return Image.fromarray(pixels)


def _orientation(image: Image.Image) -> int:
    try:
        value = image.getexif().get(ORIENTATION, 1)
    except Exception:  # damaged bytes can raise anything
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1  # as EXIF counts


def _in_rgb(image: Image.Image, factor: int) -> Image.Image:
    """A picture of 8 bits per channel, its sides shrunk by a whole factor; in strips, so that
    little is held twice."""
    if image.mode in ("I", "F"):
        kind = "signed or 32-bit whole numbers" if image.mode == "I" else "floating point"
        raise VseppError(f"its pixels are {kind}, whose range is unknown; save it with 8 bits")
    if image.mode == "RGB" and factor == 1 and not image.has_transparency_data:
        return image
    levels = _levels(image) if image.mode.startswith("I;16") else None
    width, height = image.size
    rows = factor * max(1, _STRIP // (width * factor))
    rgb = Image.new("RGB", (-(-width // factor), -(-height // factor)))
    for top in range(0, height, rows):
        strip = image.crop((0, top, width, min(top + rows, height)))
        strip = _on_white(strip) if levels is None else Image.fromarray(levels[np.asarray(strip)])
        rgb.paste(strip.convert("RGB").reduce(factor), (0, top // factor))
    return rgb


def _levels(image: Image.Image) -> np.ndarray:
    """The grey of 8 bits of each value of 16-bit grey, `(65536,)`, which Pillow's own conversion clips to
    white; of 12 bits in TIFF."""
    tags = getattr(image, "tag_v2", {})
    most = (1 << tags.get(_BITS, (16,))[0]) - 1
    levels = ((np.arange(1 << 16) * 255 + most // 2) // most).clip(0, 255).astype(np.uint8)
    if tags.get(PHOTOMETRIC) == 0:  # white is 0
        levels = 255 - levels
    if isinstance(transparent := image.info.get("transparency"), int):
        levels[transparent] = 255
    return levels


def _on_white(image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image
    whole = image.convert("LA" if image.mode == "La" else "RGBA").convert("RGBA")
    white = Image.new("RGB", image.size, "white")
    white.paste(whole, mask=whole.getchannel("A"))
    return white
