"""What one run trains and validates on, put together from the artefacts of the steps before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from vsepp.data.placed import Placed
from vsepp.data.placement import Placement
from vsepp.data.resident_tokens import ResidentTokens
from vsepp.data.store import open_store
from vsepp.data.tables import read_tables
from vsepp.data.tokens import Tokens
from vsepp.data.vocabulary import Vocabulary
from vsepp.errors import VseppError
from vsepp.evaluation.encode import ImageInputs, SplitRows, check_rows, eval_inputs, required, split_rows
from vsepp.features.crops import crop_boxes, fixed_boxes, gather_crops
from vsepp.features.extract import CachedFeatures
from vsepp.features.needs import pass_bytes, step_bytes
from vsepp.features.tape import InlineFeatures, Tape
from vsepp.models.encoder import load_encoder
from vsepp.spec import RunSpec
from vsepp.training.memory import loading_explained, pairs_at_once

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
    resident_tokens: ResidentTokens | None = None
    """The tokens on the device, where steps gather them there."""
    placement: Placement | None = None
    """Where the rest lies, and why."""

    def padded(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids `(n, longest)` and lengths `(n,)`, on the CPU, of captions; the ids on the device if all are there."""
        if self.resident_tokens is not None:
            return self.resident_tokens.padded(rows)
        ids, lengths = self.tokens.padded(rows)
        return torch.from_numpy(ids), torch.from_numpy(lengths)


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


def load_training_data(
    run: RunSpec, artefacts: Artefacts, device: torch.device, *, data_on: str = "auto", share: int = 1
) -> TrainingData:
    """Put together what a run trains on: all captions of its training splits, each with its image.

    Parameters
    ----------
    run
        The run's spec.
    artefacts
        Where the results of the steps before lie.
    device
        Where the run trains.
    data_on
        Where images and features lie: `auto`, `device`, `pinned` or `mapped`; see `Placement`.
    share
        Jobs that share the device.

    Raises
    ------
    VseppError
        When a folder that is needed was not given, artefacts do not belong to one corpus, data do not fit
        where they were demanded, or memory runs out.
    """
    placement = Placement(device, data_on, share=share)
    with loading_explained(run, placement):
        return _load(run, artefacts, placement)


def _load(run: RunSpec, artefacts: Artefacts, placement: Placement) -> TrainingData:
    device = placement.device
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
    sources = _Sources(run, artefacts, captions, len(images), pairs, placement)
    train_inputs, dim = sources.train_inputs()
    # Validation reads a small part of its images: it uses what training has placed, and files otherwise.
    evaluated = eval_inputs(
        run,
        features=artefacts.features,
        eval_store=artefacts.eval_store,
        n_images=len(images),
        place=placement.find,
    )
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
        resident_tokens=ResidentTokens(tokens, device) if device.type == "cuda" else None,
        placement=placement,
    )


def _image_rows(captions: pd.DataFrame) -> np.ndarray:
    return captions["image_index"].to_numpy().astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Sources:
    """Where a run's training inputs come from."""

    run: RunSpec
    artefacts: Artefacts
    captions: pd.DataFrame
    n_images: int
    pairs: np.ndarray
    placement: Placement

    def train_inputs(self) -> tuple[TrainInputs, int]:
        """Source of the training inputs and D_φ."""
        run, pairs, artefacts = self.run, self.pairs, self.artefacts
        if run.live_encoder:
            return self._crops()
        image_of = _image_rows(self.captions)[pairs]
        folder = required(artefacts.features, "features", run)
        if run.trainset != "RC":
            placed = CachedFeatures.open(folder, self.placement.place)
            return lambda rows, epoch: placed.rows(image_of[rows]), placed.dim
        cached, source = CachedFeatures.open(folder), self._random_crops()
        if source.dim != cached.dim:
            raise VseppError(
                f"run {run.id}: training features have {source.dim} dimensions "
                f"({artefacts.tape or artefacts.encoder}) and validation features {cached.dim} "
                f"({artefacts.features}); they are of different encoders"
            )
        return lambda rows, epoch: source.rows(epoch, pairs[rows]), source.dim

    def _random_crops(self) -> Tape | InlineFeatures:
        """Random-crop features of a frozen encoder, from the tape or computed in the step."""
        run, artefacts = self.run, self.artefacts
        if run.rc_features == "tape":
            return Tape.open(required(artefacts.tape, "tape", run), self.placement)
        encoder = load_encoder(run.encoder, required(artefacts.encoder, "encoder", run))
        self.placement.leave_for(lambda: pass_bytes(encoder))
        store = self._train_store().array
        ids = self.captions["caption_id"].to_numpy()
        return InlineFeatures(
            store, encoder, run.crop, _image_rows(self.captions), ids, run.draw, self.placement.device
        )

    def _crops(self) -> tuple[TrainInputs, int]:
        """Crops for an encoder that is part of the model."""
        run, pairs = self.run, self.pairs
        encoder = load_encoder(run.encoder, required(self.artefacts.encoder, "encoder", run))
        self.placement.leave_for(lambda: step_bytes(encoder, pairs_at_once(run)))
        store = self._train_store().array
        image_of = _image_rows(self.captions)[pairs]
        ids = self.captions["caption_id"].to_numpy()[pairs]
        side, size = store.shape[1], run.crop.size

        def crops(rows: np.ndarray, epoch: int) -> torch.Tensor:
            if run.crop.kind == "RC":
                boxes, flips = crop_boxes(ids[rows], run.draw, epoch, run.crop, side)
            else:
                box, flip = fixed_boxes(run.crop, side)
                boxes, flips = np.repeat(box, len(rows), 0), np.repeat(flip, len(rows))
            return gather_crops(store, image_of[rows], boxes, flips, size)

        return crops, encoder.dim

    def _train_store(self) -> Placed:
        folder = required(self.artefacts.train_store, "train_store", self.run)
        store = open_store(folder)
        check_rows(len(store), self.n_images, folder, "images")
        return self.placement.place(store, "image store")
