"""What a run trains and validates on, from the artefacts of earlier steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    check_tokens,
    eval_images,
    required,
    split_rows,
)
from vsepp.features.crops import CaptionCrops, Images, gather_crops, place_images, place_of_images
from vsepp.features.extract import CachedFeatures
from vsepp.features.tape import InlineFeatures, Tape
from vsepp.models.encoder import encoder_dim, load_encoder
from vsepp.models.inputs import ImageBatch
from vsepp.runtime.memory import out_of_memory_explained
from vsepp.runtime.placing import Placing, place, place_of
from vsepp.spec import RunSpec

TrainInputs = Callable[[np.ndarray, int], ImageBatch]
"""Indices of training pairs `(n,)` and the epoch (from 0) → the model's input for their images; see `ImageInputs`."""

STEPS_AHEAD = {"cuda": 2}
"""Kind of device → steps whose inputs are prepared ahead. On a CPU, a thread would take cores from the step."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Training pairs, the source of their images' inputs, and the validation split."""

    tokens: Tokens
    """Of the whole corpus."""
    vocabulary_size: int
    feature_dim: int
    """D_φ."""
    pairs: np.ndarray
    """int64 `(n_pairs,)`, the rows of the captions table to train on: each caption with its image."""
    image_rows: np.ndarray
    """int64 `(n_pairs,)`, each pair's row of the images table."""
    train_inputs: TrainInputs
    eval_inputs: ImageInputs
    validation: SplitRows
    placing: Placing
    data_on: dict[str, str]
    """What is read in every step → `device` or `mapped`."""
    encoder_folder: Path | None = None
    """Of the encoder, if it runs inside the model."""

    def what_to_lower(self, run: RunSpec) -> list[str]:
        """What to change if memory runs out in a step of a run on these data, the best first."""
        advice = self.placing.what_to_lower(self.data_on.values())
        if (run.schedule.negative_set or 0) > run.schedule.batch_size:
            advice.append(f"lower schedule.negative_set, now {run.schedule.negative_set}")
        advice.append(f"lower schedule.batch_size, now {run.schedule.batch_size}")
        if run.live_encoder:
            advice.append(f"take a smaller encoder than {run.encoder.architecture}, which runs in every step")
        return advice


def steps_ahead(run: RunSpec, device: torch.device) -> int:
    """How many steps' inputs are prepared ahead in a run."""
    # Precision and CUDA graphs of a frozen encoder are set per process or thread: it stays in the step's thread.
    return 0 if run.reads == "inline" else STEPS_AHEAD.get(device.type, 0)


def load_training_data(
    run: RunSpec,
    folders: Mapping[str, Path],
    device: torch.device,
    *,
    data_on: str = "auto",
    share: int = 1,
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
        If a folder that is needed was not given, artefacts do not belong to one corpus, data do not fit where they should
        be, or memory runs out.
    """
    placing = Placing(device, data_on, share)
    with out_of_memory_explained(f"run {run.id}", device, placing.what_to_lower()):
        images, captions = read_tables(folders["corpus"])
        tokens, vocabulary = _tokens(folders, len(captions))
        check_tokens(run, tokens, folders["tokens"])
        pairs = np.flatnonzero(np.isin(captions["split"], run.train_splits))
        if not len(pairs):
            raise VseppError(
                f"{folders['corpus']}: no captions in {' + '.join(run.train_splits)} to train run {run.id} on"
            )
        crops = CaptionCrops.from_table(captions, run.crop, run.draw)
        found = _images(run, folders, crops, len(images), pairs, placing)
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
            encoder_folder=folders["encoder"] if run.live_encoder else None,
        )


def _tokens(folders: Mapping[str, Path], captions: int) -> tuple[Tokens, Vocabulary]:
    """The tokens of all captions, checked against their vocabulary."""
    folder = folders["tokens"]
    tokens, vocabulary = Tokens.load(folder), Vocabulary.read(folder)
    if len(tokens) != captions:
        raise VseppError(
            f"{folder}: has tokens of {len(tokens)} captions, expected {captions} as in {folders['corpus']}; "
            "run the step that makes the tokens again"
        )
    if tokens.ids.max() >= len(vocabulary):
        raise VseppError(
            f"{folder}: word index {tokens.ids.max()} is beyond the vocabulary of {len(vocabulary)} words; "
            "run the step that makes the tokens again"
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
    folders: Mapping[str, Path],
    crops: CaptionCrops,
    n_images: int,
    pairs: np.ndarray,
    placing: Placing,
) -> _Images:
    evaluated = eval_images(run, folders, n_images)
    if run.reads == "features":
        assert isinstance(evaluated, CachedFeatures)  # the encoder is frozen
        assert isinstance(evaluated.features, np.ndarray)  # in their file
        placed = place(evaluated.features, "image features", placing)
        cached, image_rows = (
            CachedFeatures(evaluated.folder, placed, evaluated.lengths),
            crops.image_rows[pairs],
        )
        data_on = {"image features": place_of(placed)}
        return _Images(lambda chosen, _: cached.rows(image_rows[chosen]), cached.dim, cached, data_on)
    source: Tape | InlineFeatures
    if run.reads == "tape":
        source, made_by, data_on = Tape(required(folders, "tape", run)), "tape", {"tape": "mapped"}
    else:
        store = _train_store(run, folders, n_images, placing)
        encoder, data_on = required(folders, "encoder", run), {"image store": place_of_images(store)}
        if run.reads == "live":
            # Validation reads a small part of the images: it uses what training has placed, otherwise files.
            if folders["eval_store"] == folders["train_store"]:
                evaluated = CentreCrops(store, run.eval_crop)

            def crops_of_pairs(chosen: np.ndarray, epoch: int) -> ImageBatch:
                images, boxes, flips = crops.of(epoch, pairs[chosen], store)
                return ImageBatch(gather_crops(store, images, boxes, flips, run.crop.size))

            return _Images(crops_of_pairs, encoder_dim(run.encoder, encoder), evaluated, data_on)
        source = InlineFeatures(store, load_encoder(run.encoder, encoder), crops, placing.device)
        made_by = "encoder"
    assert isinstance(evaluated, CachedFeatures)  # the encoder is frozen
    if source.dim != evaluated.dim:
        raise VseppError(
            f"run {run.id}: training features have {source.dim} dimensions ({folders[made_by]}), validation "
            f"features {evaluated.dim} ({folders['features']}); they come from different encoders"
        )

    def features_of_pairs(chosen: np.ndarray, epoch: int) -> ImageBatch:
        return ImageBatch(source.rows(epoch, pairs[chosen]))

    return _Images(features_of_pairs, source.dim, evaluated, data_on)


def _train_store(run: RunSpec, folders: Mapping[str, Path], n_images: int, placing: Placing) -> Images:
    folder = required(folders, "train_store", run)
    store = open_store(folder)
    check_rows(len(store), n_images, folder, "images")
    return place_images(store, placing)
