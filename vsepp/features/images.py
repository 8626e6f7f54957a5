"""A run's images as its model takes them: in training, and for validation and test.

`RunSpec.reads` names what a training step reads. The plan lists artefacts by it, and here they are opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from vsepp.base.errors import VseppError
from vsepp.base.placement import Placed, Placing, place, place_of, rows_of, upload
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import CropSpec
from vsepp.data.arrays import open_rows
from vsepp.data.store import open_store
from vsepp.features.crops import (
    CaptionCrops,
    StoredImages,
    fixed_boxes,
    gather_crops,
    place_images,
    place_of_images,
    sizes_of,
)
from vsepp.features.frozen import CAPTIONS, FILE, epoch_file, tape_features
from vsepp.models.encoder import ImageEncoder, build_encoder, encoder_dim, load_encoder
from vsepp.models.sets import ImageBatch

if TYPE_CHECKING:
    from vsepp.data.tables import ParquetTable


class EvalImages(Protocol):
    """Images under the validation and test crop."""

    def eval(self, image_rows: np.ndarray) -> ImageBatch:
        """The images at rows `(n,)` of the images table."""


class TrainImages(Protocol):
    """What a training step reads."""

    def train(self, caption_rows: np.ndarray, epoch: int) -> ImageBatch:
        """The images of rows `(n,)` of the captions table in an epoch, from 0."""


@dataclass(frozen=True, eq=False)
class Images:
    """The images of a training."""

    trained: TrainImages
    evaluated: EvalImages
    dim: int
    """D_φ."""
    data_on: dict[str, str]
    """Data that every step reads → its place, `device` or `mapped`."""
    cells: int | None = None
    """Cells of the grid that the model's own encoder makes of a crop; `None` where a batch holds vectors."""

    def train(self, caption_rows: np.ndarray, epoch: int) -> ImageBatch:
        """The images of rows `(n,)` of the captions table in an epoch, from 0."""
        return self.trained.train(caption_rows, epoch)

    def eval(self, image_rows: np.ndarray) -> ImageBatch:
        """The images at rows `(n,)` of the images table."""
        return self.evaluated.eval(image_rows)


@dataclass(frozen=True, eq=False)
class Features:
    """Features of all images under a fixed crop."""

    values: Placed
    """float32 `(n_images, vectors, dim)`."""
    sets: bool
    """Whether the model pools an image's vectors; otherwise an image is one vector."""

    def eval(self, image_rows: np.ndarray) -> ImageBatch:
        """Features `(n, dim)`, or sets `(n, vectors, dim)`, on the GPU if they are there."""
        values = rows_of(self.values, image_rows)
        if not self.sets:
            return ImageBatch(values[:, 0])
        return ImageBatch(values, torch.full((len(values),), values.shape[1]))


@dataclass(frozen=True, eq=False)
class FixedCrops:
    """The features that validation reads, too: in every epoch the same."""

    features: Features
    image_rows: np.ndarray
    """int64 `(n_captions,)`, the image of every row of the captions table."""

    def train(self, caption_rows: np.ndarray, epoch: int) -> ImageBatch:
        """Features of the captions' images."""
        return self.features.eval(self.image_rows[caption_rows])


class Tape:
    """Random-crop features of a frozen encoder that `vsepp.features.frozen.make_tape` wrote, by row
    of the captions table.

    Epochs stay in their files, which the kernel caches in memory as far as there is room.

    Parameters
    ----------
    folder
        Folder of the tape.
    epochs
        Number of epochs that the training has.

    Raises
    ------
    VseppError
        If the tape lacks one of the epochs, or a file is damaged or does not belong to the others.
    """

    def __init__(self, folder: Path, epochs: int) -> None:
        self.folder = folder
        self.captions = open_rows(folder / CAPTIONS, np.int32, ())
        """Rows of the captions table that it holds, ascending."""
        for epoch in reversed(range(epochs)):
            self._open(epoch)

    def train(self, caption_rows: np.ndarray, epoch: int) -> ImageBatch:
        """Features float16 `(n, dim)` of captions `(n,)` in an epoch, from 0.

        Raises
        ------
        VseppError
            If the tape lacks one of the captions.
        """
        places = np.searchsorted(self.captions, caption_rows)
        present = self.captions[np.minimum(places, len(self.captions) - 1)] == caption_rows
        if not present.all():
            missing = caption_rows[~present]
            raise VseppError(
                f"{self.folder}: the tape has no caption row {missing[0]} ({len(missing)} of "
                f"{len(caption_rows)} are missing); it holds {len(self.captions)} captions. Run the step "
                "that writes it again"
            )
        if epoch != self._epoch:
            self._open(epoch)
        return ImageBatch(rows_of(self._features, places))

    def _open(self, epoch: int) -> None:
        """Map an epoch's file; a step reads one epoch."""
        path = self.folder / epoch_file(epoch)
        self._epoch, self._features = epoch, open_rows(path, np.float16, (None,), rows=len(self.captions))


class Inline:
    """The features that a tape would hold, computed in every step: for small disks. On a CPU they
    are equal bit for bit.

    Parameters
    ----------
    store
        Stored images.
    encoder
        Put into evaluation mode and moved to `device`.
    crops
        Random crops of the corpus's captions, of the encoder's input size.
    device
        Where to compute.
    """

    def __init__(
        self, store: StoredImages, encoder: ImageEncoder, crops: CaptionCrops, device: torch.device
    ) -> None:
        self._encoder = encoder.to(device).eval()
        self._store, self._crops, self._device = store, crops, device

    def train(self, caption_rows: np.ndarray, epoch: int) -> ImageBatch:
        """Features float16 `(n, dim)` of captions `(n,)` in an epoch, from 0, on the device.

        Raises
        ------
        VseppError
            If a feature is not finite or too large for 16 bits.
        """
        features = tape_features(self._store, self._encoder, self._crops, epoch, caption_rows, self._device)
        return ImageBatch(upload(features, self._device))


@dataclass(frozen=True, eq=False)
class CentreCrops:
    """Stored images under the validation and test crop, for an encoder that is part of the model."""

    store: StoredImages
    crop: CropSpec
    device: torch.device

    def eval(self, image_rows: np.ndarray) -> ImageBatch:
        """Crops uint8 `(n, size, size, 3)`."""
        boxes, flips = fixed_boxes(self.crop, sizes_of(self.store, image_rows))
        return ImageBatch(
            gather_crops(self.store, image_rows, boxes[:, 0], flips[:, 0], self.crop.size, self.device)
        )


@dataclass(frozen=True, eq=False)
class RandomCrops:
    """Random crops of stored images, for an encoder that is part of the model."""

    store: StoredImages
    crops: CaptionCrops
    device: torch.device

    def train(self, caption_rows: np.ndarray, epoch: int) -> ImageBatch:
        """Crops uint8 `(n, size, size, 3)`."""
        images, boxes, flips = self.crops.boxes(epoch, caption_rows, self.store)
        return ImageBatch(gather_crops(self.store, images, boxes, flips, self.crops.crop.size, self.device))


def open_images(
    run: RunSpec, folders: Mapping[str, Path], images: ParquetTable, captions: ParquetTable, placing: Placing
) -> Images:
    """Open what a run trains and validates on.

    Parameters
    ----------
    run
        The run's spec; see `RunSpec.reads`.
    folders
        Role → folder; all must be given. With a frozen encoder `features`, under the validation and
        test crop, and what the run reads: `tape`, or `train_store` and `encoder`. With a live encoder
        `train_store`, `eval_store` and `encoder`.
    images, captions
        The corpus' tables.
    placing
        Where to keep images and features.

    Raises
    ------
    VseppError
        If an artefact belongs to another corpus, encoder or run.
    """
    crops = CaptionCrops.from_table(captions, run.crop, run.draw)
    if run.reads == "live":
        return _live_images(run, folders, len(images), crops, placing)
    features = _features(run, folders, len(images))
    trained: TrainImages
    if run.reads == "features":
        features = replace(features, values=place(np.asarray(features.values), "image features", placing))
        trained = FixedCrops(features, crops.image_rows)
        data_on = {"image features": place_of(features.values)}
    elif run.reads == "tape":
        trained, data_on = Tape(folders["tape"], run.schedule.epochs), {"tape": "mapped"}
    else:
        store = place_images(_store(folders["train_store"], len(images)), placing)
        encoder = load_encoder(run.encoder, folders["encoder"], grid=run.grid)
        trained = Inline(store, encoder, crops, placing.device)
        data_on = {"image store": place_of_images(store)}
    return Images(trained, features, features.values.shape[2], data_on)


def _live_images(
    run: RunSpec, folders: Mapping[str, Path], count: int, crops: CaptionCrops, placing: Placing
) -> Images:
    store = place_images(_store(folders["train_store"], count), placing)
    # Validation reads a small part of the images: it uses what training has placed, otherwise files.
    shared = folders["eval_store"] == folders["train_store"]
    eval_store = store if shared else _store(folders["eval_store"], count)
    centre = CentreCrops(eval_store, run.eval_crop, placing.device)
    cells = build_encoder(run.encoder, grid=True).vectors() if run.grid else None
    data_on = {"image store": place_of_images(store)}
    return Images(
        RandomCrops(store, crops, placing.device), centre, encoder_dim(folders["encoder"]), data_on, cells
    )


def open_eval_images(
    run: RunSpec, folders: Mapping[str, Path], count: int, device: torch.device
) -> Features | CentreCrops:
    """Open what a run's model, on a device, reads for validation and test, of `count` images in the table.

    Raises
    ------
    VseppError
        As of `open_images`, and if the folder was not given.
    """
    role = "eval_store" if run.reads == "live" else "features"
    if role not in folders:
        raise VseppError(f"run {run.id}: needs the folder of its {role}, but none was given")
    if run.reads == "live":
        return CentreCrops(_store(folders[role], count), run.eval_crop, device)
    return _features(run, folders, count)


def _features(run: RunSpec, folders: Mapping[str, Path], count: int) -> Features:
    """Features in their file; refused where an image has one vector and the model pools sets, or
    the other way round."""
    path = folders["features"] / FILE
    values = open_rows(path, np.float32, (None, None), rows=count)
    sets, vectors = run.model.image_pooling is not None, values.shape[1]
    if sets != (vectors > 1):
        expected = "pools sets of vectors" if sets else "has no image_pooling and takes one"
        raise VseppError(f"{path}: has {vectors} vectors an image; run {run.id} {expected}")
    return Features(values, sets)


def _store(folder: Path, count: int) -> StoredImages:
    store = open_store(folder)
    if len(store) != count:
        raise VseppError(
            f"{folder}: has {len(store)} images, expected {count} as in the table of images; run the step "
            "that makes it again"
        )
    return store
