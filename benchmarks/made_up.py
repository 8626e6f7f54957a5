"""Artefacts of random content and real shapes, as the steps before training write them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import nn

from vsepp.data.tables import write_tables
from vsepp.data.tokens import END, SPECIAL, START, Tokens
from vsepp.data.vocabulary import Vocabulary
from vsepp.features.extract import FILE as FEATURES
from vsepp.features.tape import CAPTIONS, epoch_file
from vsepp.models.encoder import ImageEncoder, build_encoder, save_encoder
from vsepp.spec import RunSpec

CAPTIONS_PER_IMAGE = 5
VOCABULARY = 10_000
_PHOTOGRAPHS = 48
"""Different JPEGs; the images of a corpus share them."""
# Every so-many-th image is one of the validation split.
_VALIDATION_EVERY = 8


def write_artefacts(run: RunSpec, images: int, dim: int, folder: Path) -> dict[str, Path]:
    """Write all that a run reads into an empty folder: tables, word ids, and features, a tape, a store or an encoder.

    Gives role → folder.

    Parameters
    ----------
    run
        Decides what is needed.
    images
        Of the corpus, with five captions each.
    dim
        D_φ, where features are made up; 0 is that of the run's encoder.
    folder
        Empty.
    """
    write_tables(folder / "corpus", *tables(images))
    captions_of(images * CAPTIONS_PER_IMAGE).save(folder / "tokens")
    words = (*SPECIAL, *(f"w{number}" for number in range(VOCABULARY - len(SPECIAL))))
    Vocabulary(words, {}, 1, ("train",), images * CAPTIONS_PER_IMAGE, "none").write(folder / "tokens")
    places = {"corpus": folder / "corpus", "tokens": folder / "tokens"}
    if not run.live_encoder:
        dim = encoder_of(run).dim if run.reads == "inline" or not dim else dim
        places["features"] = write_features(folder / "features", images, dim)
        if run.reads == "tape":
            places["tape"] = _write_tape(folder / "tape", images * CAPTIONS_PER_IMAGE, dim)
    if run.reads in ("inline", "live"):
        places["train_store"] = places["eval_store"] = _write_store(folder / "store", run, images)
        places["encoder"] = folder / "encoder"
        save_encoder(encoder_of(run), folder / "encoder")
    return places


def tables(count: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables of so many images, each shown by one of the photographs, and of their captions."""
    names = [f"{number}.jpg" for number in range(count)]
    splits = np.where(np.arange(count) % _VALIDATION_EVERY, "train", "val")
    members = [f"{number % _PHOTOGRAPHS}.jpg" for number in range(count)]
    images = {
        "image_id": names,
        "file_name": names,
        "container": "images",
        "member": members,
        "split": splits,
    }
    owners = np.repeat(np.arange(count, dtype=np.int32), CAPTIONS_PER_IMAGE)
    ids = np.arange(len(owners), dtype=np.int64)
    captions = {"caption_id": ids, "image_index": owners, "text": "", "split": splits[owners]}
    return pd.DataFrame(images), pd.DataFrame(captions)


def captions_of(count: int) -> Tokens:
    """Captions of random words, as long as COCO's (12.4 tokens in the mean)."""
    generator = np.random.default_rng(0)
    lengths = np.clip(np.rint(generator.normal(12.4, 2.4, count)), 7, 40).astype(int)
    # Word frequencies fall as in language, so that the gradient of the embeddings is as sparse as there.
    words = np.minimum(generator.zipf(1.3, lengths.sum()) + END, VOCABULARY - 1)
    captions = np.split(words, np.cumsum(lengths)[:-1])
    return Tokens.from_lists([[START, *caption[1:-1], END] for caption in captions])


def write_features(folder: Path, count: int, dim: int) -> Path:
    """Features as they leave a ReLU, float32 `(count, 1, dim)`."""
    folder.mkdir(parents=True)
    np.save(folder / FEATURES, np.random.default_rng(0).standard_normal((count, 1, dim), np.float32).clip(0))
    return folder


def _write_store(folder: Path, run: RunSpec, count: int) -> Path:
    """Decoded images, uint8 `(count, side, side, 3)`."""
    folder.mkdir(parents=True)
    np.save(folder / "images.npy", _noise(count, run.train_store.side))
    np.save(folder / "sizes.npy", np.full((count, 2), run.train_store.side, np.int32))
    return folder


def crops(run: RunSpec, count: int) -> torch.Tensor:
    """What the run's encoder sees, uint8 `(count, size, size, 3)`."""
    return torch.from_numpy(_noise(count, run.encoder.input_size))


def _noise(count: int, side: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8)


def embeddings(count: int, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit vectors of images and captions, each caption somewhat nearer to its own image than to others."""
    generator = np.random.default_rng(0)
    owner = np.repeat(np.arange(count), CAPTIONS_PER_IMAGE)
    images = generator.standard_normal((count, dim), np.float32)
    captions = 8 * generator.standard_normal((len(owner), dim), np.float32) + images[owner]
    for vectors in (images, captions):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return images, captions, owner


def _write_tape(folder: Path, captions: int, dim: int) -> Path:
    """One epoch of a tape, float16."""
    folder.mkdir(parents=True)
    features = np.random.default_rng(1).standard_normal((captions, dim), np.float32).clip(0)
    np.save(folder / epoch_file(0), features.astype(np.float16))
    np.save(folder / CAPTIONS, np.arange(captions, dtype=np.int32))
    return folder


def encoder_of(run: RunSpec) -> ImageEncoder:
    """The run's encoder with random weights, always the same."""
    # Which numbers the weights are makes no difference to the time, as long as none is denormal.
    torch.manual_seed(0)
    encoder = build_encoder(run.encoder)
    # Untrained, the branches of 50 residual blocks add up to more than the 16 bits of a tape hold.
    for name, layer in encoder.named_modules():
        if name.endswith(".bn3"):
            nn.init.constant_(layer.weight, 0.2)
    return encoder


def write_photographs(folder: Path, size: tuple[int, int]) -> list[Path]:
    """JPEGs of smooth shapes and some grain: at 640×480 of about 160 kB, as COCO's photographs are."""
    folder.mkdir(parents=True)
    width, height = size
    for number in range(_PHOTOGRAPHS):
        generator = np.random.default_rng(number)
        coarse = generator.integers(0, 256, (max(height // 24, 2), max(width // 24, 2), 3), np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC), np.float32)
        grain = generator.normal(0, 12, (height, width, 1)).astype(np.float32)
        stream = io.BytesIO()
        shown = Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8))
        shown.save(stream, "JPEG", quality=90)
        (folder / f"{number}.jpg").write_bytes(stream.getvalue())
    return sorted(folder.iterdir())
