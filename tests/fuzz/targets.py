"""What is fuzzed: each target writes valid files, reads them, and says what is wrong with a result.

A result must be what the damaged files say (an oracle reads them anew, in a few lines that trust them), or that of the undamaged
files where a checksum or manifest would tell.
"""

import argparse
import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from embedded_sets import embedded, under
from legacy_files import PROGRESS, image_state, text_state, vocabulary, write_pickle, write_released
from PIL import Image, ImageFile
from raw_layouts import corpus, jpeg, paths, read, write_karpathy

from vsepp.base.spec import StoreSpec
from vsepp.data.container import Container
from vsepp.data.decode import build_store
from vsepp.data.store import open_store
from vsepp.evaluation.test_set import TestSet
from vsepp.models.released import read_checkpoint, read_vocabulary


@dataclass(frozen=True)
class Target:
    """A reader."""

    prepare: Callable[[Path], Any]
    """Writes valid files into a folder; gives what `read` takes."""
    read: Callable[[Any], Any]
    """Raises `VseppError`, or gives what was read."""
    wrong: Callable[[Any, Any, Any], str | None]
    """Takes what `read` took, its result, and the undamaged files' result; says what is wrong."""
    files: str = "*"
    """Which files are damaged, as a pattern below the folder."""


def table(spec):
    """(image id, split, [(caption id, text)]) of each image."""
    images, captions = read(spec)
    by_image = {row: [] for row in range(len(images))}
    for caption_id, row, text in zip(
        captions["caption_id"], captions["image_index"], captions["text"], strict=True
    ):
        by_image[row].append((int(caption_id), text))
    return [
        (*pair, by_image[row])
        for row, pair in enumerate(zip(images["image_id"], images["split"], strict=True))
    ]


def differs(expected, result):
    """What is wrong where two tables should be equal."""
    if expected == result:
        return None
    pairs = zip(expected, result, strict=False)
    return f"{len(expected)} rows, got {len(result)}; first difference: {next((p for p in pairs if p[0] != p[1]), None)!r:.300}"


def text_in(path):
    return Path(path).read_bytes().decode("utf-8-sig")


def usable(captions):
    """Captions as a corpus keeps them: those without text are left out, and line ends are blanks."""
    texts = [(number, re.sub("\r\n|[\r\n]", " ", text)) for number, text in captions if isinstance(text, str)]
    return [(number, text) for number, text in texts if text.strip() and not re.search(NO_TEXT, text)]


def kept(images):
    """Images `(path, id, split, captions)` as a corpus keeps them: with a caption and a path that a file can have."""
    return [
        (image_id, split, captions)
        for path, image_id, split, captions in images
        if captions and not re.search(NO_NAME, path)
    ]


NO_TEXT, NO_NAME = "[\0\ud800-\udfff]", "[\0-\x1f\x7f-\x9f\ud800-\udfff]"


def karpathy_as_written(spec, result, *_):
    expected = []
    for image in json.loads(text_in(spec.files["splits"]))["images"]:
        raw = {sentence["sentid"]: sentence["raw"] for sentence in image["sentences"]}
        stem = Path(image["filename"]).stem
        captions = usable((i, raw[i]) for i in sentids_of(image))
        expected.append((image["filename"], stem, image["split"], captions))
    return differs(kept(expected), result)


def sentids_of(image):
    return image.get("sentids", [sentence["sentid"] for sentence in image["sentences"]])


def zip_of_photographs(folder):
    with zipfile.ZipFile(folder / "photographs.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(5):
            archive.writestr(f"flickr30k-images/{number}.jpg", jpeg(number))
    return folder / "photographs.zip"


def read_container(path):
    container = Container(path)
    return {name: container.read(name) for name in container.names}


def same_members(path, result, undamaged):
    foreign = [name for name, content in result.items() if content not in undamaged.values()]
    return f"content that the undamaged archive has not: {foreign}" if foreign else None


def write_embeddings(folder):
    rng = np.random.default_rng(0)
    images, captions = (rng.standard_normal((n, 4)).astype(np.float32) for n in (3, 15))
    embedded(images, captions, np.arange(15) // 5).save(folder / "embeddings.npz")
    return folder / "embeddings.npz"


def read_embeddings(path):
    test_set = TestSet.read(path)
    under(test_set)
    return test_set


def embeddings_as_written(path, result, *_):
    arrays = {**result.scores.arrays, "caption_to_image": result.caption_to_image}
    return _arrays_as_written(path, arrays, ("image_embeddings", "caption_embeddings", "caption_to_image"))


def _arrays_as_written(path, result, names):
    with zipfile.ZipFile(path) as archive:
        for name in names:
            written = np.lib.format.read_array(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
            if not np.array_equal(written.astype(result[name].dtype), result[name]):
                return f"{name} is not as written"
        if sorted({*archive.namelist()}) != sorted(archive.namelist()):
            return "a repeated member"
    return None


def write_checkpoint(folder):
    image, text, flags = image_state(8, 6), text_state(7, 4, 6), {"embed_size": 6, "margin": 0.2}
    write_released(folder / "old.pth.tar", image, text, flags)
    content = {**PROGRESS, "model": [image, text], "opt": argparse.Namespace(**flags)}
    torch.save(content, folder / "new.pth.tar")
    return folder


def read_checkpoints(folder):
    return [read_checkpoint(folder / name) for name in ("old.pth.tar", "new.pth.tar")]


def checkpoints_fit(folder, result, *_):
    """Their numbers have no checksum in the old form; their kinds and sizes must fit the file."""
    for name, checkpoint in zip(("old.pth.tar", "new.pth.tar"), result, strict=True):
        tensors = {**checkpoint.image, **checkpoint.text}
        if not all(
            isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in tensors.items()
        ):
            return "weights that are none"
        if any(value.nbytes > (folder / name).stat().st_size for value in tensors.values()):
            return "more numbers than the file has"
        json.dumps([checkpoint.opt, checkpoint.progress])
    return None


def words_fit(path, result, *_):
    words = result.words
    proper = all(isinstance(word, str) and word.encode() is not None for word in words)
    return None if proper and len(set(words)) == len(words) else "words that are none or repeated"


def write_photographs(folder):
    (folder / "photographs").mkdir()
    for name, image in photographs().items():
        image[0].save(folder / "photographs" / name, **image[1])
    return folder


def photographs():
    """One small picture of each kind of file."""
    rng = np.random.default_rng(0)
    grey = Image.fromarray(rng.integers(0, 256, (4, 5), np.uint8)).resize((20, 16), Image.Resampling.BILINEAR)
    rgb = Image.merge("RGB", [grey, grey.rotate(90), grey.rotate(180)])
    return {
        "a.jpg": (rgb, {"quality": 90}),
        "progressive.jpg": (rgb, {"progressive": True}),
        "grey.jpg": (grey, {}),
        "a.png": (rgb, {}),
        "palette.png": (rgb.quantize(16), {}),
        "a.tif": (rgb, {}),
        "packed.tif": (rgb, {"compression": "tiff_lzw"}),
        "a.webp": (rgb, {"lossless": True}),
        "a.gif": (rgb.quantize(16), {}),
    }


def stored_photographs(folder):
    """Each stored by itself: pixels or what is said of it; raises if none can be stored."""
    photographs = folder / "photographs"
    names = sorted(path.name for path in photographs.iterdir())
    shutil.rmtree(folder / "out", ignore_errors=True)
    shutil.rmtree(folder / "state", ignore_errors=True)
    images = pd.DataFrame({"container": "images", "member": names, "split": "train"})
    spec = corpus("any", "karpathy", {"images": photographs})
    build_store(images, spec, paths(spec), StoreSpec("squash", 16), folder / "out", folder / "state", 1)
    return np.array(open_store(folder / "out"))


def photographs_as_decoded(folder, result, undamaged):
    """Each as it is decoded here, whole: data that end early are no picture."""
    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    for row, path in enumerate(sorted((folder / "photographs").iterdir())):
        with Image.open(path) as image:
            expected = np.asarray(image.convert("RGB").resize((16, 16), Image.Resampling.BILINEAR))
        if not np.array_equal(expected, result[row]):
            return f"{path.name}: other pixels"
    return None


TARGETS = {
    "karpathy": Target(write_karpathy, table, karpathy_as_written, "*.json"),
    "zip archive": Target(zip_of_photographs, read_container, same_members),
    "embeddings": Target(write_embeddings, read_embeddings, embeddings_as_written),
    "released checkpoints": Target(write_checkpoint, read_checkpoints, checkpoints_fit),
    "released vocabulary": Target(
        lambda folder: (
            write_pickle(
                folder / "vocab.pkl", vocabulary(["<pad>", "<start>", "<end>", "<unk>", "dog", "café"])
            )
            or folder / "vocab.pkl"
        ),
        read_vocabulary,
        words_fit,
    ),
    "photographs": Target(write_photographs, stored_photographs, photographs_as_decoded, "photographs/*"),
}
