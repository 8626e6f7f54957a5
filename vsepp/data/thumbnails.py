"""Small pictures of a split's images with their captions: for pages (`vsepp.report.answers`), not for models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from vsepp.base.files import write_arrays, write_text
from vsepp.base.spec import PicturesSpec
from vsepp.data.pictures import small_jpeg
from vsepp.data.store import WholeImages
from vsepp.data.tables import Table


def make_pictures(
    spec: PicturesSpec, images: Table, captions: Table, pixels: np.ndarray | WholeImages, out: Path
) -> int:
    """Shrink the images of a split and gather their captions.

    Parameters
    ----------
    spec
        Split, largest side and quality.
    images, captions, pixels
        The tables of a corpus, and its image store.
    out
        Gets `pictures.npz`, JPEG files one after the other with `offsets` `(n + 1,)`, and `captions.json`: each image's
        `id`, and its `captions` as `[place among the captions of the split, text]`.

    Returns
    -------
    int
        Number of images.
    """
    rows = np.flatnonzero(np.asarray(images["split"]) == spec.split).tolist()
    jpegs = [
        small_jpeg(Image.fromarray(pixels[row]), spec.side, spec.quality) if spec.photographs else b""
        for row in rows
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
