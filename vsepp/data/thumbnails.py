"""Small pictures: to be looked at, on pages (`vsepp.report.answers`) and by `vsepp serve`, not for models."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

from vsepp.base.files import write_arrays, write_text
from vsepp.base.spec import PicturesSpec
from vsepp.data.store import WholeImages
from vsepp.data.tables import ParquetTable

_SIDE = 128
"""The longer side, pixels; smaller images stay unchanged."""
_QUALITY = 80
"""Of the JPEGs, from 1 to 95."""


def make_pictures(
    spec: PicturesSpec,
    images: ParquetTable,
    captions: ParquetTable,
    pixels: np.ndarray | WholeImages,
    out: Path,
) -> int:
    """Shrink the test images and gather their captions.

    Parameters
    ----------
    spec
        Whether the pictures may be shown.
    images, captions, pixels
        The tables of a corpus, and its image store.
    out
        Gets `pictures.npz`, JPEG files one after the other with `offsets` `(n + 1,)`, and `captions.json`:
        each image's `id`, and its `captions` as `[place among the captions of the split, text]`.

    Returns
    -------
    int
        Number of images.
    """
    rows = np.flatnonzero(np.asarray(images["split"]) == "test").tolist()
    jpegs = [
        small_jpeg(Image.fromarray(pixels[row]), _SIDE, _QUALITY) if spec.photographs else b"" for row in rows
    ]
    shown: dict[int, dict] = {row: {"id": images["image_id"][row], "captions": []} for row in rows}
    split_captions = np.flatnonzero(np.isin(captions["image_index"], rows))
    for number, caption in enumerate(split_captions):
        owner = shown[captions["image_index"][caption]]
        owner["captions"].append([number, captions["text"][caption]])
    offsets = np.cumsum([0, *map(len, jpegs)])
    write_arrays(out / "pictures.npz", jpegs=np.frombuffer(b"".join(jpegs), np.uint8), offsets=offsets)
    write_text(out / "captions.json", json.dumps(list(shown.values()), ensure_ascii=False) + "\n")
    return len(rows)


def small_jpeg(image: Image.Image, side: int, quality: int) -> bytes:
    """A picture as the bytes of a JPEG, its longer side shrunk to at most `side` pixels."""
    if (longest := max(image.size)) > side:
        width, height = (max(1, round(length * side / longest)) for length in image.size)
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    image.save(data, "JPEG", quality=quality)
    return data.getvalue()
