"""Artefacts of random content and real shapes, as the steps before training write them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import nn

from vsepp.bench.measurement import Measurement
from vsepp.data.tables import write_tables
from vsepp.data.tokens import END, SPECIAL, START, Tokens
from vsepp.data.vocabulary import Vocabulary
from vsepp.features.extract import FILE as FEATURES
from vsepp.features.tape import CAPTIONS, epoch_file
from vsepp.models.encoder import build_encoder, save_encoder
from vsepp.spec import EncoderSpec, RunSpec
from vsepp.training.data import Artefacts

CAPTIONS_PER_IMAGE = 5
VOCABULARY = 10_000
_PHOTOGRAPHS = 48
"""Different JPEGs; the images of a corpus share them."""
# Every so-many-th image is one of the validation split.
_VALIDATION_EVERY = 8


def write_artefacts(measurement: Measurement, folder: Path) -> Artefacts:
    """Write all that a run reads below `folder`: tables, tokens, and features, a tape, a store or an encoder.

    Parameters
    ----------
    measurement
        Its run decides what is needed; `images` and `feature_dim` give the sizes.
    folder
        Empty.
    """
    run, count = measurement.run, measurement.images
    images, captions = tables(count, _photographs_of(count))
    write_tables(folder / "corpus", images, captions)
    captions_of(len(captions)).save(folder / "tokens")
    words = (*SPECIAL, *(f"w{number}" for number in range(VOCABULARY - len(SPECIAL))))
    Vocabulary(words, {}, 1, ("train",), len(captions), "none").write(folder / "tokens")
    places = {}
    if not run.live_encoder:
        dim = _dim(measurement)
        places["features"] = write_features(folder / "features", count, dim)
        if run.trainset == "RC" and run.rc_features == "tape":
            places["tape"] = _write_tape(folder / "tape", captions, dim)
    if run.live_encoder or (run.trainset == "RC" and run.rc_features == "inline"):
        places["train_store"] = places["eval_store"] = write_store(folder / "store", run, count)
        places["encoder"] = folder / "encoder"
        save_encoder(made_up_encoder(run), folder / "encoder")
    return Artefacts(corpus=folder / "corpus", tokens=folder / "tokens", **places)


def tables(count: int, members: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables of so many images, each shown by one of the JPEGs `members`, and of their captions."""
    names = [f"{number}.jpg" for number in range(count)]
    splits = np.where(np.arange(count) % _VALIDATION_EVERY, "train", "val")
    images = pd.DataFrame(
        {"image_id": names, "file_name": names, "container": "images", "member": members, "split": splits}
    )
    owners = np.repeat(np.arange(count, dtype=np.int32), CAPTIONS_PER_IMAGE)
    captions = pd.DataFrame(
        {
            "caption_id": np.arange(len(owners), dtype=np.int64),
            "image_index": owners,
            "text": "",
            "split": splits[owners],
        }
    )
    return images, captions


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
    values = np.random.default_rng(0).standard_normal((count, 1, dim), np.float32).clip(0)
    np.save(folder / FEATURES, values)
    return folder


def write_store(folder: Path, run: RunSpec, count: int) -> Path:
    """Decoded images, uint8 `(count, side, side, 3)`."""
    folder.mkdir(parents=True)
    side = run.train_store.side
    np.save(
        folder / "images.npy", np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8)
    )
    return folder


def write_photographs(measurement: Measurement, folder: Path) -> list[str]:
    """JPEGs, and the file's name for each image of the corpus."""
    folder.mkdir(parents=True)
    names = _photographs_of(measurement.images)
    for number, name in enumerate(dict.fromkeys(names)):
        (folder / name).write_bytes(photograph(measurement.photograph, number))
    return names


def made_up_encoder(run: RunSpec):
    """The run's encoder with random weights, always the same."""
    # Which numbers the weights are makes no difference to the time, as long as none is denormal.
    torch.manual_seed(0)
    encoder = build_encoder(run.encoder)
    # Untrained, the branches of 50 residual blocks add up to more than the 16 bits of a tape hold.
    for name, layer in encoder.named_modules():
        if name.endswith(".bn3"):
            nn.init.constant_(layer.weight, 0.2)
    return encoder


def photograph(size: tuple[int, int], seed: int) -> bytes:
    """A JPEG of smooth shapes and some grain: at 640×480 of about 160 kB, as COCO's photographs are."""
    generator = np.random.default_rng(seed)
    width, height = size
    coarse = generator.integers(0, 256, (max(height // 24, 2), max(width // 24, 2), 3), np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC), np.float32)
    grain = generator.normal(0, 12, (height, width, 1)).astype(np.float32)
    pixels = (smooth + grain).clip(0, 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def feature_dims(encoders: Mapping[str, EncoderSpec]) -> dict[str, int]:
    """D_φ of some encoders, without making their weights."""
    with torch.device("meta"):
        return {name: build_encoder(encoder).dim for name, encoder in encoders.items()}


def _photographs_of(count: int) -> list[str]:
    return [f"{number % _PHOTOGRAPHS}.jpg" for number in range(count)]


def _dim(measurement: Measurement) -> int:
    """D_φ: a pass of the encoder in the step gives its own."""
    run = measurement.run
    if run.trainset == "RC" and run.rc_features == "inline":
        with torch.device("meta"):
            return build_encoder(run.encoder).dim
    return measurement.feature_dim


def _write_tape(folder: Path, captions: pd.DataFrame, dim: int) -> Path:
    """One epoch of a tape of all captions, float16."""
    folder.mkdir(parents=True)
    features = np.random.default_rng(1).standard_normal((len(captions), dim), np.float32).clip(0)
    np.save(folder / epoch_file(0), features.astype(np.float16))
    np.save(folder / CAPTIONS, np.arange(len(captions), dtype=np.int32))
    return folder
