"""What a run trains and validates on, from the artefacts of earlier steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from vsepp.base.errors import VseppError
from vsepp.base.placement import Placing, place, place_of
from vsepp.base.spec import RunSpec
from vsepp.data.store import open_store
from vsepp.data.tables import read_tables
from vsepp.data.tokens import Tokens
from vsepp.data.vocabulary import Vocabulary
from vsepp.evaluation.encode import (
    CentreCrops,
    ImageInputs,
    SplitRows,
    caption_inputs,
    check_rows,
    corpus_tokens,
    eval_images,
    required,
    split_rows,
)
from vsepp.features.captions import CaptionStates
from vsepp.features.crops import CaptionCrops, Images, gather_crops, place_images, place_of_images
from vsepp.features.extract import CachedFeatures
from vsepp.features.tape import InlineFeatures, Tape
from vsepp.models.encoder import encoder_dim, load_encoder
from vsepp.models.sets import ImageBatch
from vsepp.training.size_augmentation import TrainCaptions, TrainInputs, thinned_captions, thinned_images


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Training pairs, the source of their images' inputs, and the validation split."""

    captions: Tokens | CaptionStates
    """All captions of the corpus."""
    vocabulary_size: int
    feature_dim: int
    """D_φ."""
    pairs: np.ndarray
    """int64 `(n_pairs,)`, the rows of the captions table to train on: each caption with its image."""
    image_rows: np.ndarray
    """int64 `(n_pairs,)`, each pair's row of the images table."""
    caption_ids: np.ndarray
    """int64 `(n_pairs,)`, id of each pair's caption: what is drawn for the pair depends on it."""
    train_inputs: TrainInputs
    train_captions: TrainCaptions
    eval_inputs: ImageInputs
    validation: SplitRows
    data_on: dict[str, str]
    """Data that every step reads → its place, `device` or `mapped`."""
    encoder_folder: Path | None = None
    """Folder of the encoder's weights, if it runs inside the model."""


def load_training_data(
    run: RunSpec, folders: Mapping[str, Path], device: torch.device, *, data_on: str = "auto", share: int = 1
) -> TrainingData:
    """Load what a run trains on: all captions of its training splits, each with its image.

    Parameters
    ----------
    run
        The run's spec.
    folders
        Role → folder: `corpus`, the tables; `tokens`; for a frozen encoder `features`, under the validation and test crop.
        Depending on `RunSpec.reads`, also the `tape`, or the `encoder` and the image stores that training and validation crops
        are cut from, `train_store` and `eval_store`.
    device
        Where the run trains.
    data_on, share
        Where to keep images and features, and how many jobs share the device; see `Placing`.

    Raises
    ------
    VseppError
        If a folder that is needed was not given, or artefacts do not belong to one corpus.
    """
    images, captions = read_tables(folders["corpus"])
    tokens = corpus_tokens(folders, len(captions), run)
    splits = ("train", "restval") if run.restval else ("train",)
    pairs = np.flatnonzero(np.isin(captions["split"], splits))
    if not len(pairs):
        raise VseppError(f"{folders['corpus']}: no captions in {' + '.join(splits)} to train run {run.id} on")
    crops = CaptionCrops.from_table(captions, run.crop, run.draw)
    captions_read = caption_inputs(folders, tokens)
    ids, vocabulary = crops.caption_ids[pairs], Vocabulary.read(folders["tokens"])
    source = _image_source(run, folders, crops, len(images), pairs, Placing(device, data_on, share))
    return TrainingData(
        captions=captions_read,
        vocabulary_size=len(vocabulary),
        feature_dim=source.dim,
        pairs=pairs,
        image_rows=crops.image_rows[pairs],
        caption_ids=ids,
        train_inputs=thinned_images(source.train_inputs, ids, run, source.cells),
        train_captions=thinned_captions(tokens, captions_read, pairs, ids, run, vocabulary),
        eval_inputs=source.eval_inputs,
        validation=split_rows(images, captions, "val", run.validation_images),
        data_on=source.data_on,
        encoder_folder=folders["encoder"] if run.live_encoder else None,
    )


class _ImageSource(NamedTuple):
    """Where the model's inputs for a run's images come from."""

    train_inputs: TrainInputs
    eval_inputs: ImageInputs
    dim: int
    """D_φ."""
    data_on: dict[str, str]
    cells: int | None = None
    """Cells of a grid, where the encoder that gives it is inside the model."""


def _image_source(
    run: RunSpec,
    folders: Mapping[str, Path],
    crops: CaptionCrops,
    n_images: int,
    pairs: np.ndarray,
    placing: Placing,
) -> _ImageSource:
    """Open what `RunSpec.reads` names."""
    evaluated = eval_images(run, folders, n_images)
    if isinstance(evaluated, CentreCrops):
        return _live_source(run, folders, crops, evaluated, pairs, placing)
    if run.reads == "features":
        assert not isinstance(evaluated.features, torch.Tensor)  # in their files
        image_rows = crops.image_rows[pairs]
        features = place(evaluated.features, "image features", placing)
        cached = CachedFeatures(evaluated.folder, features)
        data_on = {"image features": place_of(features)}
        return _ImageSource(
            lambda chosen, _: cached.rows(image_rows[chosen]), cached.rows, cached.dim, data_on
        )
    source: Tape | InlineFeatures
    if run.reads == "tape":
        origin, data_on = required(folders, "tape", run), {"tape": "mapped"}
        source = Tape(origin)
    else:
        store, origin = _train_store(run, folders, n_images, placing), required(folders, "encoder", run)
        data_on = {"image store": place_of_images(store)}
        encoder = load_encoder(run.encoder, origin, grid=run.grid)
        source = InlineFeatures(store, encoder, crops, placing.device)
    if source.dim != evaluated.dim:
        raise VseppError(
            f"run {run.id}: training features have {source.dim} dimensions ({origin}), validation "
            f"features {evaluated.dim} ({folders['features']}); they come from different encoders"
        )

    def features_of_pairs(chosen: np.ndarray, epoch: int) -> ImageBatch:
        return ImageBatch(source.rows(epoch, pairs[chosen]))

    return _ImageSource(features_of_pairs, evaluated.rows, source.dim, data_on)


def _live_source(
    run: RunSpec,
    folders: Mapping[str, Path],
    crops: CaptionCrops,
    evaluated: CentreCrops,
    pairs: np.ndarray,
    placing: Placing,
) -> _ImageSource:
    """Crops of stored images, for an encoder inside the model."""
    store = _train_store(run, folders, len(evaluated.store), placing)
    # Validation reads a small part of the images: it uses what training has placed, otherwise files.
    if folders["eval_store"] == folders["train_store"]:
        evaluated = CentreCrops(store, run.eval_crop)

    def crops_of_pairs(chosen: np.ndarray, epoch: int) -> ImageBatch:
        images, boxes, flips = crops.of(epoch, pairs[chosen], store)
        return ImageBatch(gather_crops(store, images, boxes, flips, run.crop.size))

    folder = required(folders, "encoder", run)
    cells = load_encoder(run.encoder, folder, grid=True).vectors() if run.grid else None
    data_on = {"image store": place_of_images(store)}
    return _ImageSource(crops_of_pairs, evaluated.rows, encoder_dim(folder), data_on, cells)


def _train_store(run: RunSpec, folders: Mapping[str, Path], n_images: int, placing: Placing) -> Images:
    folder = required(folders, "train_store", run)
    store = open_store(folder)
    check_rows(len(store), n_images, folder, "images")
    return place_images(store, placing)
