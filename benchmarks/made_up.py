"""A run, and artefacts of random content and real shapes as the steps before training write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import nn

from vsepp.base.run_spec import ModelSpec, RunSpec, ScheduleSpec
from vsepp.base.spec import Component, CropSpec, EncoderSpec, StoreSpec, VocabularySpec
from vsepp.data.captions import END, SPECIAL, START, Tokens, Vocabulary
from vsepp.data.tables import write_tables
from vsepp.features.frozen import FILE as FEATURES
from vsepp.models.encoder import ImageEncoder, build_encoder, save_encoder

CAPTIONS_PER_IMAGE = 5
VOCABULARY = 10_000
PHOTOGRAPHS = 48
"""Different JPEGs; the images of a corpus share them."""


def base_run(architecture: str, size: int, side: int, word_dim: int, dim: int, batch: int = 128) -> RunSpec:
    """VSE++ on 1C; the other kinds of runs are made from it."""
    encoder = EncoderSpec(
        name=architecture.rpartition("/")[2],
        architecture=architecture,
        weights="random",
        input_size=size,
        store_side=side,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
    )
    model = ModelSpec(
        text=Component("gru", {"word_dim": word_dim, "dim": dim}),
        joint_dim=dim,
        caption_projection=False,
        image_bias=True,
        normalise_features=True,
        normalise_images=True,
        absolute=False,
        similarity=Component("dot"),
    )
    return RunSpec(
        id="benchmark",
        system="VSE++",
        dataset="coco",
        trainset="1C",
        restval=False,
        encoder=encoder,
        finetune_from=None,
        train_store=StoreSpec("squash", side),
        eval_store=StoreSpec("squash", side),
        crop=CropSpec("1C", size),
        vocabulary=VocabularySpec(("train",), 4),
        validation_images=None,
        model=model,
        loss=Component("max_of_hinges"),
        schedule=ScheduleSpec(
            batch_size=batch, epochs=30, learning_rate=2e-4, drop_at=0.5, drop_factor=0.1, clip_norm=2.0
        ),
        encoder_mode="eval",
        legacy_steps=500,
        rc_features="tape",
        init_seed=0,
        order_seed=0,
        draw=0,
    )


def write_artefacts(
    run: RunSpec, images: int, dim: int, folder: Path, *, vectors: int = 1
) -> dict[str, Path]:
    """Write all that a run reads into an empty folder, five captions an image; gives role → folder.

    `dim` is D_φ of features; 0 means the encoder's D_φ. An image has so many `vectors`.
    """
    captions = images * CAPTIONS_PER_IMAGE
    write_tables(folder / "corpus", *tables(images))
    captions_of(captions).save(folder / "tokens")
    words = (*SPECIAL, *(f"w{number}" for number in range(VOCABULARY - len(SPECIAL))))
    Vocabulary(words, {}, 1, ("train",), captions, "none").write(folder / "tokens")
    folders = {"corpus": folder / "corpus", "tokens": folder / "tokens"}
    if not run.live_encoder:
        dim = dim or encoder_of(run).dim
        folders["features"] = folder / "features"
        folders["features"].mkdir()
        # As features leave a ReLU.
        features = np.random.default_rng(0).standard_normal((images, vectors, dim), np.float32).clip(0)
        np.save(folders["features"] / FEATURES, features)
    if run.reads in ("inline", "live"):
        store, side = folder / "store", run.train_store.side
        store.mkdir()
        np.save(store / "images.npy", pixels(images, side).numpy())
        np.save(store / "sizes.npy", np.full((images, 2), side, np.int32))
        folders |= {"train_store": store, "eval_store": store, "encoder": folder / "encoder"}
        save_encoder(encoder_of(run), folders["encoder"])
    return folders


def tables(count: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables of so many images, each shown by one of the photographs, and of their captions."""
    names = [f"{number}.jpg" for number in range(count)]
    members = [f"{number % PHOTOGRAPHS}.jpg" for number in range(count)]
    splits = np.array(["val", *["train"] * 7, "test", *["train"] * 7])[np.arange(count) % 16]
    images = {"image_id": names, "file_name": names, "container": "images", "member": members}
    owners = np.repeat(np.arange(count, dtype=np.int32), CAPTIONS_PER_IMAGE)
    ids = np.arange(len(owners), dtype=np.int64)
    captions = {"caption_id": ids, "image_index": owners, "text": "", "split": splits[owners]}
    return pd.DataFrame({**images, "split": splits}), pd.DataFrame(captions)


def captions_of(count: int) -> Tokens:
    """Captions of random words, as long as COCO's (12.4 tokens in the mean)."""
    generator = np.random.default_rng(0)
    lengths = np.clip(np.rint(generator.normal(12.4, 2.4, count)), 7, 40).astype(int)
    # Word frequencies fall as in language, so that the gradient of the embeddings is as sparse as there.
    words = np.minimum(generator.zipf(1.3, lengths.sum()) + END, VOCABULARY - 1)
    captions = np.split(words, np.cumsum(lengths)[:-1])
    return Tokens.from_lists([[START, *caption[1:-1], END] for caption in captions])


def pixels(count: int, side: int) -> torch.Tensor:
    """Images of noise, uint8 `(count, side, side, 3)`."""
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8))


def encoder_of(run: RunSpec) -> ImageEncoder:
    """The run's encoder in evaluation mode, with random weights, always the same."""
    torch.manual_seed(0)
    encoder = build_encoder(run.encoder)
    # Untrained, the branches of 50 residual blocks add up to more than the 16 bits of a tape hold.
    for name, layer in encoder.named_modules():
        if name.endswith(".bn3"):
            nn.init.constant_(layer.weight, 0.2)
    return encoder.eval()


def write_photographs(folder: Path, size: tuple[int, int]) -> list[Path]:
    """JPEGs of smooth shapes and some grain: at 640×480 of about 160 kB, as COCO's photographs are."""
    folder.mkdir(parents=True)
    width, height = size
    for number in range(PHOTOGRAPHS):
        generator = np.random.default_rng(number)
        coarse = generator.integers(0, 256, (max(height // 24, 2), max(width // 24, 2), 3), np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC), np.float32)
        grain = generator.normal(0, 12, (height, width, 1)).astype(np.float32)
        photograph = Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8))
        photograph.save(folder / f"{number}.jpg", quality=90)
    return sorted(folder.iterdir())
