"""Embed the images and captions of a split, each of them once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from vsepp.base.errors import VseppError
from vsepp.base.spec import CropSpec, RunSpec
from vsepp.data.store import open_store
from vsepp.data.tokens import Tokens
from vsepp.data.vocabulary import FILE, Vocabulary
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.scores import ranges
from vsepp.features.captions import CaptionStates
from vsepp.features.crops import Images, fixed_boxes, gather_crops, sizes_of
from vsepp.features.extract import CachedFeatures
from vsepp.models.joint import JointEmbedding
from vsepp.models.precision import products_in
from vsepp.models.sets import ImageBatch

if TYPE_CHECKING:
    from vsepp.data.tables import Table

log = logging.getLogger("vsepp")

ImageInputs = Callable[[np.ndarray], ImageBatch]
"""Rows of the images table `(n,)` → the model's image input."""

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
        found = ", ".join(dict.fromkeys(images["split"]))
        raise VseppError(f"split {split!r} has no images in this corpus; it has {found}")
    owners = np.asarray(captions["image_index"]).astype(np.int64)
    caption_rows = np.flatnonzero(np.isin(owners, image_rows))
    return SplitRows(image_rows, caption_rows, np.searchsorted(image_rows, owners[caption_rows]))


def encode_split(
    model: JointEmbedding,
    images: ImageInputs,
    captions: Tokens | CaptionStates,
    rows: SplitRows,
    device: torch.device,
) -> Embeddings:
    """Embed a split with the model in evaluation mode, in IEEE fp32 whatever precision it was trained in.

    Parameters
    ----------
    model
        The model; its mode is restored afterwards.
    images
        Returns the model's input for rows of the images table, under the validation and test crop.
    captions
        Captions of the whole corpus: tokens, or states of tokens.
    rows
        Rows of the split.
    device
        Where the model is.
    Returns
    -------
    Embeddings
        In file order: `image_embeddings` `(n_images, d)` and `caption_embeddings` `(n_captions, d)`, float32.
    """
    with evaluation_mode(model, device):
        image_embeddings = embed_images(model, images, rows.images, device)
        caption_embeddings = embed_captions(model, captions, rows.captions, device)
    return Embeddings(image_embeddings, caption_embeddings, rows.caption_to_image, model.spec.similarity)


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
    model: JointEmbedding, images: ImageInputs, rows: np.ndarray, device: torch.device
) -> np.ndarray:
    """Embed what `images` gives for rows `(n,)`, within `evaluation_mode`: float32 `(n, d)`."""
    out = np.empty((len(rows), model.spec.joint_dim), np.float32)
    for part in ranges(len(rows), BATCH):
        batch = images(rows[part]).map(lambda values: values.to(device))
        out[part] = model.embed_images(batch).float().cpu().numpy()
    return out


def embed_captions(
    model: JointEmbedding, captions: Tokens | CaptionStates, rows: np.ndarray, device: torch.device
) -> np.ndarray:
    """Embed the captions of rows `(n,)`, within `evaluation_mode`: float32 `(n, d)`."""
    out = np.empty((len(rows), model.spec.joint_dim), np.float32)
    # Captions of similar length together, so that a batch has few different lengths.
    by_length = np.argsort(captions.lengths[rows], kind="stable")
    for some in ranges(len(rows), BATCH):
        part = by_length[some]
        values, lengths = map(torch.from_numpy, captions.eval(rows[part]))
        out[part] = model.embed_captions(values.to(device), lengths).float().cpu().numpy()
    return out


@dataclass(frozen=True, eq=False)
class CentreCrops:
    """Stored images under the validation and test crop, for an encoder that is part of the model."""

    store: Images
    crop: CropSpec

    def rows(self, image_rows: np.ndarray) -> ImageBatch:
        """Crops uint8 `(n, size, size, 3)` of rows `(n,)` of the images table."""
        boxes, flips = fixed_boxes(self.crop, sizes_of(self.store, image_rows))
        return ImageBatch(gather_crops(self.store, image_rows, boxes[:, 0], flips[:, 0], self.crop.size))


def eval_images(run: RunSpec, folders: Mapping[str, Path], n_images: int) -> CachedFeatures | CentreCrops:
    """Open what a run's model reads for the validation and test images.

    Parameters
    ----------
    run
        The run's spec: cached features for a frozen encoder, crops for one inside the model.
    folders
        Role → folder: `features` or `eval_store`.
    n_images
        Rows of the images table.

    Raises
    ------
    VseppError
        If the folder that is needed was not given, or belongs to another corpus.
    """
    if not run.live_encoder:
        cached = CachedFeatures.open(required(folders, "features", run))
        check_rows(len(cached), n_images, cached.folder, "features")
        if run.model.image_pooling is None and cached.vectors > 1:
            raise VseppError(
                f"{cached.folder}: has {cached.vectors} vectors an image; run {run.id} has no image_pooling and takes one"
            )
        if run.model.image_pooling is not None and cached.vectors == 1:
            raise VseppError(
                f"{cached.folder}: has one vector an image; run {run.id} pools sets of vectors (image_pooling)"
            )
        return cached
    if run.eval_crop.kind != "1C":
        raise VseppError(
            f"run {run.id}: an encoder inside the model takes one crop per image, not {run.eval_crop.kind}"
        )
    folder = required(folders, "eval_store", run)
    store = open_store(folder)
    check_rows(len(store), n_images, folder, "images")
    return CentreCrops(store, run.eval_crop)


def corpus_tokens(folders: Mapping[str, Path], captions: int, run: RunSpec) -> Tokens:
    """Word ids of all captions of a corpus; `captions` is their expected number."""
    folder = required(folders, "tokens", run)
    tokens = Tokens.load(folder)
    check_rows(len(tokens), captions, folder, "tokens", "captions")
    return tokens


def caption_inputs(folders: Mapping[str, Path], tokens: Tokens) -> Tokens | CaptionStates:
    """A model's caption input: tokens, or the tokens' states where a frozen text encoder computed them."""
    return CaptionStates.open(folders["caption_states"], tokens) if "caption_states" in folders else tokens


def warn_of_another_tokenizer(vocabulary: Vocabulary, folder: Path) -> None:
    """Warn where the words of a run's vocabulary were split in another way than captions are split here."""
    from vsepp.data.captions import TOKENIZERS  # needs nltk, which the steps run without

    if vocabulary.tokenizer != TOKENIZERS[vocabulary.kind]:
        log.warning(
            "%s: its words were split by %r, captions are split by %r here",
            folder / FILE,
            vocabulary.tokenizer,
            TOKENIZERS[vocabulary.kind],
        )


def check_rows(rows: int, expected: int, folder: Path, what: str, items: str = "images") -> None:
    """Refuse an artefact that does not have a row for each image, or caption, of the corpus."""
    if rows != expected:
        raise VseppError(
            f"{folder}: has {what} of {rows} {items}, expected {expected} as in the table of {items}; it was "
            "made from another corpus: run the step that makes it again"
        )


def required(folders: Mapping[str, Path], role: str, run: RunSpec) -> Path:
    """The folder of a role, or an error that names the missing artefact."""
    if role not in folders:
        raise VseppError(f"run {run.id}: needs the folder of its {role}, but none was given")
    return folders[role]
