"""What one run trains and validates on, put together from the artefacts of the steps before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from vsepp.data.store import open_store
from vsepp.data.tables import read_tables
from vsepp.data.tokens import Tokens
from vsepp.data.vocabulary import Vocabulary
from vsepp.errors import VseppError
from vsepp.evaluation.encode import (
    CentreCrops,
    ImageInputs,
    SplitRows,
    check_rows,
    eval_images,
    required,
    split_rows,
)
from vsepp.features.crops import CaptionCrops, gather_crops
from vsepp.features.extract import CachedFeatures
from vsepp.features.tape import InlineFeatures, Tape
from vsepp.models.encoder import encoder_dim, load_encoder
from vsepp.runtime.memory import out_of_memory_explained
from vsepp.runtime.placing import Placed, Placing, place, place_of
from vsepp.spec import RunSpec

TrainInputs = Callable[[np.ndarray, int], torch.Tensor]
"""Indices of training pairs `(n,)` and the epoch (from 0) to what the model embeds; see `ImageInputs`."""

STEPS_AHEAD = {"cuda": 2}
"""Kind of device → steps whose inputs are made ahead. On a CPU a thread would take the cores that the step computes on."""


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
    image_rows: np.ndarray
    """int64 `(n_pairs,)`, each pair's row of the images table."""
    train_inputs: TrainInputs
    eval_inputs: ImageInputs
    validation: SplitRows
    placing: Placing
    data_on: dict[str, str]
    """What training reads in every step → `device` or `mapped`."""
    encoder_folder: Path | None = None
    """Of the encoder, where it is part of the model."""

    def what_to_lower(self, run: RunSpec) -> list[str]:
        """What to change where memory runs out in a step of a run on these data, the best first."""
        advice = self.placing.what_to_lower(self.data_on.values())
        if (run.schedule.negative_set or 0) > run.schedule.batch_size:
            advice.append(f"lower schedule.negative_set, now {run.schedule.negative_set}")
        advice.append(f"lower schedule.batch_size, now {run.schedule.batch_size}")
        if run.live_encoder:
            advice.append(f"take a smaller encoder than {run.encoder.architecture}, which runs in every step")
        return advice


def steps_ahead(run: RunSpec, device: torch.device) -> int:
    """Steps of a run whose inputs are made ahead."""
    # Precision and CUDA graphs of a frozen encoder are set for a process or a thread: it stays in the step's.
    if run.trainset == "RC" and run.rc_features == "inline" and not run.live_encoder:
        return 0
    return STEPS_AHEAD.get(device.type, 0)


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
    data_on, share
        Where images and features lie, and the jobs that share the device; see `Placing`.

    Raises
    ------
    VseppError
        When a folder that is needed was not given, artefacts do not belong to one corpus, data do not fit
        where they were demanded, or memory runs out.
    """
    placing = Placing(device, data_on, share)
    with out_of_memory_explained(f"run {run.id}", device, placing.what_to_lower()):
        images, captions = read_tables(artefacts.corpus)
        tokens, vocabulary = _tokens(artefacts, len(captions))
        pairs = np.flatnonzero(np.isin(captions["split"], run.train_splits))
        if not len(pairs):
            raise VseppError(
                f"{artefacts.corpus}: no captions in {' + '.join(run.train_splits)} to train run {run.id} on"
            )
        crops = CaptionCrops.from_table(captions, run.crop, run.draw)
        found = _images(run, artefacts, crops, len(images), pairs, placing)
        return TrainingData(
            tokens=tokens,
            vocabulary_size=len(vocabulary),
            feature_dim=found.dim,
            pairs=pairs,
            image_rows=crops.image_rows[pairs],
            train_inputs=found.train_inputs,
            eval_inputs=found.evaluated.rows,
            validation=split_rows(images, captions, "val", run.validation_images),
            placing=placing,
            data_on=found.data_on,
            encoder_folder=artefacts.encoder if run.live_encoder else None,
        )


def _tokens(artefacts: Artefacts, captions: int) -> tuple[Tokens, Vocabulary]:
    """The tokens of so many captions, held against their vocabulary."""
    tokens, vocabulary = Tokens.load(artefacts.tokens), Vocabulary.read(artefacts.tokens)
    if len(tokens) != captions:
        raise VseppError(
            f"{artefacts.tokens}: has tokens of {len(tokens)} captions, expected {captions} as in "
            f"{artefacts.corpus}; run the step that makes the tokens again"
        )
    if tokens.ids.max() >= len(vocabulary):
        raise VseppError(
            f"{artefacts.tokens}: word index {tokens.ids.max()} is beyond the vocabulary of "
            f"{len(vocabulary)} words; run the step that makes the tokens again"
        )
    return tokens, vocabulary


@dataclass(frozen=True, eq=False)
class _Images:
    """Where a run's images come from."""

    train_inputs: TrainInputs
    dim: int
    """D_φ."""
    evaluated: CachedFeatures | CentreCrops
    """Features or images that validation reads."""
    data_on: dict[str, str]


def _images(
    run: RunSpec,
    artefacts: Artefacts,
    crops: CaptionCrops,
    n_images: int,
    pairs: np.ndarray,
    placing: Placing,
) -> _Images:
    evaluated = eval_images(run, artefacts.features, artefacts.eval_store, n_images)
    if run.live_encoder:
        dim = encoder_dim(run.encoder, required(artefacts.encoder, "encoder", run))
        store = _train_store(run, artefacts, n_images, placing)
        # Validation reads a small part of its images: it uses what training has placed, and files otherwise.
        if artefacts.eval_store == artefacts.train_store:
            evaluated = CentreCrops(store, run.eval_crop)
        return _Images(
            partial(_crops_of_pairs, store, crops, pairs), dim, evaluated, {"image store": place_of(store)}
        )
    assert isinstance(evaluated, CachedFeatures)
    if run.trainset != "RC":
        features = place(evaluated.features, "image features", placing)
        cached = CachedFeatures(evaluated.folder, features)
        inputs = partial(_features_of_pairs, cached, crops.image_rows[pairs])
        return _Images(inputs, cached.dim, cached, {"image features": place_of(features)})
    source, data_on = _random_crops(run, artefacts, crops, n_images, placing)
    if source.dim != evaluated.dim:
        raise VseppError(
            f"run {run.id}: training features have {source.dim} dimensions "
            f"({artefacts.tape or artefacts.encoder}) and validation features {evaluated.dim} "
            f"({artefacts.features}); they are of different encoders"
        )
    return _Images(partial(_random_crops_of_pairs, source, pairs), source.dim, evaluated, data_on)


def _random_crops(
    run: RunSpec, artefacts: Artefacts, crops: CaptionCrops, n_images: int, placing: Placing
) -> tuple[Tape | InlineFeatures, dict[str, str]]:
    """Random-crop features of a frozen encoder, from the tape or computed in the step, and where what is read lies."""
    if run.rc_features == "tape":
        return Tape.open(required(artefacts.tape, "tape", run)), {"tape": "mapped"}
    store = _train_store(run, artefacts, n_images, placing)
    encoder = load_encoder(run.encoder, required(artefacts.encoder, "encoder", run))
    return InlineFeatures(store, encoder, crops, placing.device), {"image store": place_of(store)}


def _train_store(run: RunSpec, artefacts: Artefacts, n_images: int, placing: Placing) -> Placed:
    folder = required(artefacts.train_store, "train_store", run)
    store = open_store(folder)
    check_rows(len(store), n_images, folder, "images")
    return place(store, "image store", placing)


def _features_of_pairs(
    features: CachedFeatures, image_rows: np.ndarray, pairs: np.ndarray, epoch: int
) -> torch.Tensor:
    return features.rows(image_rows[pairs])


def _random_crops_of_pairs(
    source: Tape | InlineFeatures, caption_rows: np.ndarray, pairs: np.ndarray, epoch: int
) -> torch.Tensor:
    return source.rows(epoch, caption_rows[pairs])


def _crops_of_pairs(
    store: Placed, crops: CaptionCrops, caption_rows: np.ndarray, pairs: np.ndarray, epoch: int
) -> torch.Tensor:
    """Crops for an encoder that is part of the model."""
    images, boxes, flips = crops.of(epoch, caption_rows[pairs], store.shape[1])
    return gather_crops(store, images, boxes, flips, crops.crop.size)
