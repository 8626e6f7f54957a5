"""What one run trains and validates on, put together from the artefacts of the steps before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from vsepp.data.store import open_store
from vsepp.data.tables import read_tables
from vsepp.data.tokens import Tokens
from vsepp.data.vocabulary import Vocabulary
from vsepp.errors import VseppError
from vsepp.evaluation.encode import ImageInputs, SplitRows, check_rows, eval_inputs, required, split_rows
from vsepp.features.crops import crop_boxes, fixed_boxes, gather_crops
from vsepp.features.extract import CachedFeatures
from vsepp.features.tape import InlineFeatures, Tape
from vsepp.models.encoders import load_encoder
from vsepp.spec import RunSpec

TrainInputs = Callable[[np.ndarray, int], torch.Tensor]
"""Indices of training pairs `(n,)` and the epoch (from 0) to what the model embeds; see `ImageInputs`."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Training pairs, where their images' inputs come from, and the validation split."""

    tokens: Tokens
    """Of the whole corpus."""
    vocabulary_size: int
    feature_dim: int
    """D_φ."""
    pairs: np.ndarray
    """int64 `(n_pairs,)`, the rows of the captions table that are trained on: each caption with its image."""
    image_of: np.ndarray
    """int64 `(n_pairs,)`, each pair's row of the images table."""
    train_inputs: TrainInputs
    eval_inputs: ImageInputs
    validation: SplitRows
    encoder_folder: Path | None = None
    """Of the encoder, where it is part of the model."""


@dataclass(frozen=True)
class Artefacts:
    """Folders that a run reads; which of the optional ones it needs follows from its spec."""

    corpus: Path
    """Tables of images and captions."""
    tokens: Path
    features: Path | None = None
    """Features under the validation and test crop: for every frozen encoder."""
    tape: Path | None = None
    """Random-crop features: RC with `rc_features: tape`."""
    train_store: Path | None = None
    """Images that training crops are cut from: RC `inline`, and an encoder in the model."""
    eval_store: Path | None = None
    """Images that validation crops are cut from: an encoder in the model."""
    encoder: Path | None = None
    """The encoder's weights: RC `inline`, and an encoder in the model."""


def load_training_data(run: RunSpec, artefacts: Artefacts, device: torch.device) -> TrainingData:
    """Put together what a run trains on: all captions of its training splits, each with its image.

    Parameters
    ----------
    run
        The run's spec.
    artefacts
        Where the results of the steps before lie.
    device
        Where an encoder that is not part of the model would compute.

    Raises
    ------
    VseppError
        When a folder that is needed was not given, or artefacts do not belong to one corpus.
    """
    images, captions = read_tables(artefacts.corpus)
    tokens, vocabulary = Tokens.load(artefacts.tokens), Vocabulary.read(artefacts.tokens)
    if len(tokens) != len(captions):
        raise VseppError(
            f"{artefacts.tokens}: has tokens of {len(tokens)} captions, expected {len(captions)} as in "
            f"{artefacts.corpus}; run the step that makes the tokens again"
        )
    if tokens.ids.max() >= len(vocabulary):
        raise VseppError(
            f"{artefacts.tokens}: word index {tokens.ids.max()} is beyond the vocabulary of "
            f"{len(vocabulary)} words; run the step that makes the tokens again"
        )
    pairs = np.flatnonzero(captions["split"].isin(run.train_splits))
    if not len(pairs):
        raise VseppError(
            f"{artefacts.corpus}: no captions in {' + '.join(run.train_splits)} to train run {run.id} on"
        )
    evaluated = eval_inputs(
        run, features=artefacts.features, eval_store=artefacts.eval_store, n_images=len(images)
    )
    train_inputs, dim = _train_inputs(run, artefacts, captions, len(images), pairs, device)
    return TrainingData(
        tokens=tokens,
        vocabulary_size=len(vocabulary),
        feature_dim=dim,
        pairs=pairs,
        image_of=_image_rows(captions)[pairs],
        train_inputs=train_inputs,
        eval_inputs=evaluated,
        validation=split_rows(images, captions, "val", run.validation_images),
        encoder_folder=required(artefacts.encoder, "encoder", run) if run.live_encoder else None,
    )


def _image_rows(captions: pd.DataFrame) -> np.ndarray:
    return captions["image_index"].to_numpy().astype(np.int64)


def _train_inputs(
    run: RunSpec,
    artefacts: Artefacts,
    captions: pd.DataFrame,
    n_images: int,
    pairs: np.ndarray,
    device: torch.device,
) -> tuple[TrainInputs, int]:
    """Source of the training inputs and D_φ."""
    if run.live_encoder:
        return _crops(run, artefacts, captions, n_images, pairs)
    cached = CachedFeatures.open(required(artefacts.features, "features", run))
    image_of = _image_rows(captions)[pairs]
    if run.trainset != "RC":
        return lambda rows, epoch: torch.from_numpy(cached.rows(image_of[rows])), cached.dim
    source = _random_crops(run, artefacts, captions, n_images, device)
    if source.dim != cached.dim:
        raise VseppError(
            f"run {run.id}: training features have {source.dim} dimensions "
            f"({artefacts.tape or artefacts.encoder}) and validation features {cached.dim} "
            f"({artefacts.features}); they are of different encoders"
        )
    return lambda rows, epoch: torch.from_numpy(source.rows(epoch, pairs[rows])), source.dim


def _random_crops(
    run: RunSpec, artefacts: Artefacts, captions: pd.DataFrame, n_images: int, device: torch.device
) -> Tape | InlineFeatures:
    """Random-crop features of a frozen encoder, from the tape or computed in the step."""
    if run.rc_features == "tape":
        return Tape.open(required(artefacts.tape, "tape", run))
    store = open_store(required(artefacts.train_store, "train_store", run))
    check_rows(len(store), n_images, artefacts.train_store, "images")
    encoder = load_encoder(run.encoder, required(artefacts.encoder, "encoder", run))
    ids = captions["caption_id"].to_numpy()
    return InlineFeatures(store, encoder, run.crop, _image_rows(captions), ids, run.draw, device)


def _crops(
    run: RunSpec, artefacts: Artefacts, captions: pd.DataFrame, n_images: int, pairs: np.ndarray
) -> tuple[TrainInputs, int]:
    """Crops for an encoder that is part of the model."""
    store = open_store(required(artefacts.train_store, "train_store", run))
    check_rows(len(store), n_images, artefacts.train_store, "images")
    image_of, ids = _image_rows(captions)[pairs], captions["caption_id"].to_numpy()[pairs]
    side, size = store.shape[1], run.crop.size

    def crops(rows: np.ndarray, epoch: int) -> torch.Tensor:
        if run.crop.kind == "RC":
            boxes, flips = crop_boxes(ids[rows], run.draw, epoch, run.crop, side)
        else:
            box, flip = fixed_boxes(run.crop, side)
            boxes, flips = np.repeat(box, len(rows), 0), np.repeat(flip, len(rows))
        return gather_crops(store, image_of[rows], boxes, flips, size)

    return crops, load_encoder(run.encoder, required(artefacts.encoder, "encoder", run)).dim
