"""Embed the images and captions of a split, each of them once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from vsepp.base.errors import VseppError
from vsepp.data.captions import Tokens
from vsepp.evaluation.scores import EmbeddingScores, ranges
from vsepp.evaluation.test_set import TestSet
from vsepp.features.captions import CaptionStates
from vsepp.features.images import EvalImages
from vsepp.models.joint import JointEmbedding
from vsepp.models.precision import products_in

if TYPE_CHECKING:
    from vsepp.data.tables import Table

BATCH = 128
"""Number of images or captions that are embedded at a time."""


@dataclass(frozen=True, eq=False)
class SplitRows:
    """The images and captions of a split, in file order."""

    images: np.ndarray
    """int64 `(n_images,)`, rows of the images table."""
    captions: np.ndarray
    """int64 `(n_captions,)`, rows of the captions table."""
    caption_to_image: np.ndarray
    """int64 `(n_captions,)`, each caption's image as a position in `images`."""


def split_rows(images: Table, captions: Table, split: str, limit: int | None = None) -> SplitRows:
    """Find a split in the tables of a corpus.

    Parameters
    ----------
    images, captions
        The tables.
    split
        Name of the split.
    limit
        Take only this many images, from the first, with all of their captions.

    Raises
    ------
    VseppError
        If the split has no images.
    """
    image_rows = np.flatnonzero(np.asarray(images["split"]) == split)[:limit]
    if not len(image_rows):
        splits = ", ".join(dict.fromkeys(images["split"]))
        raise VseppError(f"split {split!r} has no images in this corpus; it has {splits}")
    owners = np.asarray(captions["image_index"]).astype(np.int64)
    caption_rows = np.flatnonzero(np.isin(owners, image_rows))
    return SplitRows(image_rows, caption_rows, np.searchsorted(image_rows, owners[caption_rows]))


def encode_split(
    model: JointEmbedding,
    images: EvalImages,
    captions: Tokens | CaptionStates,
    rows: SplitRows,
    device: torch.device,
) -> TestSet:
    """Embed a split with the model in evaluation mode, in IEEE fp32 whatever precision it was trained in.

    Parameters
    ----------
    model
        The model; its mode is restored afterwards.
    images
        The images of the corpus under the validation and test crop.
    captions
        Captions of the whole corpus: tokens, or states of tokens.
    rows
        Rows of the split.
    device
        Where the model is.

    Returns
    -------
    TestSet
        Embeddings of images `(n_images, d)` and captions `(n_captions, d)`, float32, in file order, with the model's similarity.
    """
    with evaluation_mode(model, device):
        image_embeddings = embed_images(model, images, rows.images, device)
        caption_embeddings = embed_captions(model, captions, rows.captions, device)
    scores = EmbeddingScores(image_embeddings, caption_embeddings, model.spec.similarity)
    return TestSet(scores, rows.caption_to_image, of_corpus=True)


@contextmanager
def evaluation_mode(model: JointEmbedding, device: torch.device) -> Iterator[None]:
    """Embed within: no gradients, no batch statistics, no lower precision. The model's mode is restored."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.inference_mode(), products_in("fp32", device):
            yield
    finally:
        for module, training in modes:
            module.training = training


def embed_images(
    model: JointEmbedding, images: EvalImages, rows: np.ndarray, device: torch.device
) -> np.ndarray:
    """Embed images of rows `(n,)` of their table, within `evaluation_mode`: float32 `(n, d)`."""
    out = np.empty((len(rows), model.spec.joint_dim), np.float32)
    for part in ranges(len(rows), BATCH):
        batch = images.eval(rows[part]).map(lambda values: values.to(device))
        out[part] = model.embed_images(batch).float().cpu().numpy()
    return out


def embed_captions(
    model: JointEmbedding, captions: Tokens | CaptionStates, rows: np.ndarray, device: torch.device
) -> np.ndarray:
    """Embed the captions of rows `(n,)`, within `evaluation_mode`: float32 `(n, d)`."""
    out = np.empty((len(rows), model.spec.joint_dim), np.float32)
    # Captions of similar length together, so that a batch has few different lengths.
    by_length = np.argsort(captions.lengths[rows], kind="stable")
    for batch in ranges(len(rows), BATCH):
        part = by_length[batch]
        values, lengths = map(torch.from_numpy, captions.eval(rows[part]))
        out[part] = model.embed_captions(values.to(device), lengths).float().cpu().numpy()
    return out
