"""Makes small pictures of a split's images from their store; apart from what reads them, which pages need alone."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

from vsepp.base.files import write_arrays, write_text
from vsepp.base.spec import PicturesSpec
from vsepp.data.pictures import CAPTIONS, FILE
from vsepp.data.store import open_store
from vsepp.data.tables import read_tables


def make_pictures(spec: PicturesSpec, corpus: Path, store: Path, out: Path) -> int:
    """Shrink the images of a split and gather their captions.

    Parameters
    ----------
    spec
        Split, largest side and quality.
    corpus, store
        Folders of the corpus' tables and of its decoded images.
    out
        Gets `pictures.npz`, JPEG files one after the other with `offsets` `(n + 1,)`, and `captions.json`: each image's
        `id`, and its `captions` as `[place among the captions of the split, text]`.

    Returns
    -------
    int
        Number of images.
    """
    images, captions = read_tables(corpus)
    rows = np.flatnonzero(np.asarray(images["split"]) == spec.split).tolist()
    pixels = open_store(store)
    jpegs = [_jpeg(pixels[row], spec) if spec.photographs else b"" for row in rows]
    shown: dict[int, dict] = {row: {"id": images["image_id"][row], "captions": []} for row in rows}
    of_split = np.flatnonzero(np.isin(captions["image_index"], rows))
    for number, caption in enumerate(of_split):
        owner = shown[captions["image_index"][caption]]
        owner["captions"].append([number, captions["text"][caption]])
    offsets = np.cumsum([0, *map(len, jpegs)])
    write_arrays(out / FILE, jpegs=np.frombuffer(b"".join(jpegs), np.uint8), offsets=offsets)
    write_text(out / CAPTIONS, json.dumps(list(shown.values()), ensure_ascii=False) + "\n")
    return len(rows)


def _jpeg(pixels: np.ndarray, spec: PicturesSpec) -> bytes:
    picture = Image.fromarray(pixels)
    longest = max(picture.size)
    if longest > spec.side:
        width, height = (max(1, round(length * spec.side / longest)) for length in picture.size)
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    return as_jpeg(picture, spec.quality)


def as_jpeg(picture: Image.Image, quality: int) -> bytes:
    """A picture as the bytes of a JPEG."""
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=quality)
    return data.getvalue()
