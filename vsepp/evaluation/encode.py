"""Embed the images and captions of a split, each of them once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from vsepp.base.publish import MODEL_FILE
from vsepp.base.run_spec import RunSpec
from vsepp.data.captions import Tokens, Vocabulary
from vsepp.evaluation.embedding_scores import EmbeddingScores
from vsepp.evaluation.scores import ranges
from vsepp.evaluation.test_set import TestSet
from vsepp.features.captions import CaptionStates, open_captions
from vsepp.features.images import EvalImages, open_eval_images
from vsepp.models.joint import JointEmbedding, load_joint
from vsepp.models.precision import products_in

if TYPE_CHECKING:
    from vsepp.data.tables import SplitRows

BATCH = 128
"""Number of images or captions that are embedded at a time."""


def open_run(
    run: RunSpec, split: str, folders: Mapping[str, Path], device: torch.device
) -> tuple[JointEmbedding, EvalImages, Tokens | CaptionStates, SplitRows]:
    """A trained model and its inputs for a split, as `encode_split` takes them.

    Parameters
    ----------
    run
        The run's spec.
    split
        Name of the split.
    folders
        Role → folder: `run`, with `model.safetensors` and the `vocabulary.json` that it was trained with; `corpus`, the tables;
        what `open_eval_images` and `open_captions` name, `tokens` made here if not given.
    device
        Where to embed.

    Raises
    ------
    VseppError
        If an artefact does not fit the run, or the split has no images.
    """
    from vsepp.data.tables import read_tables, split_rows  # a model that is used reads no tables

    images, captions = read_tables(folders["corpus"])
    inputs = open_eval_images(run, folders, len(images), device)
    vocabulary = Vocabulary.read(folders["run"])
    # Trained weights include those of an encoder inside the model.
    model = load_joint(run, folders["run"] / MODEL_FILE, len(vocabulary)).to(device)
    if "tokens" in folders:
        texts = open_captions(folders, len(captions))
    else:
        texts = Tokens.from_captions(captions, vocabulary)
    return model, inputs, texts, split_rows(images, captions, split)


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
