"""Random-crop features of a frozen encoder: written once to a tape that all runs share, or computed in the
step.

The crop of a pair is a function of (draw, epoch, caption id) alone. So all frozen runs, losses, seeds and
sizes of negative sets of one corpus read the same features, RC reads its part of RC+rV's tape, and computing
them inside the step (`InlineFeatures`) gives what the tape (`Tape`) holds: bit for bit on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from vsepp.data.placement import Placement
from vsepp.errors import VseppError
from vsepp.features.crops import crop_boxes
from vsepp.features.extract import check_size
from vsepp.features.frozen import encode_there, finite, start_encoding
from vsepp.features.read_ahead import ReadAhead
from vsepp.models.encoder import ImageEncoder
from vsepp.spec import CropSpec

CAPTIONS = "captions.npy"
LARGEST = float(np.finfo(np.float16).max)


def epoch_file(epoch: int) -> str:
    """Name of an epoch's file, the epoch counted from 0."""
    return f"epoch-{epoch:03d}.npy"


def start_random_crop_features(
    store: np.ndarray | torch.Tensor,
    encoder: ImageEncoder,
    crop: CropSpec,
    image_rows: np.ndarray,
    caption_ids: np.ndarray,
    draw: int,
    epoch: int,
    device: torch.device,
) -> Callable[[], np.ndarray]:
    """Features of the random crops that these captions' images have in an epoch; a GPU is not waited for.

    Parameters
    ----------
    store
        uint8 `(n_images, side, side, 3)`.
    encoder
        Put into evaluation mode and moved to `device`.
    crop
        Kind `RC`, of the encoder's input size.
    image_rows
        int64 `(n,)`, the image of each caption.
    caption_ids
        int64 `(n,)`, ids, not rows.
    draw, epoch
        Which draw of random crops, and the epoch from 0.
    device
        Where to compute.

    Returns
    -------
    Callable
        Waits for the features and gives them, float16 `(n, dim)`, not normalised.

    Raises
    ------
    VseppError
        When the crop does not fit; by what is returned, when a feature is too large for 16 bits.
    """
    check_size(encoder, crop)
    boxes, flips = crop_boxes(caption_ids, draw, epoch, crop, store.shape[1])
    features = start_encoding(store, encoder, np.asarray(image_rows, np.int64), boxes, flips, device)
    return lambda: _in_16_bits(features(), encoder, image_rows, caption_ids)


def _in_16_bits(
    features: np.ndarray, encoder: ImageEncoder, image_rows: np.ndarray, caption_ids: np.ndarray
) -> np.ndarray:
    """Features float32 `(n, dim)` as float16; those that do not fit are refused."""
    largest = max(features.max(), -features.min()) if features.size else 0.0
    if largest > LARGEST:
        worst = int(np.abs(features).max(axis=1).argmax())
        raise VseppError(
            f"encoder {encoder.spec.architecture!r}: caption {caption_ids[worst]}, image row "
            f"{image_rows[worst]}: a feature of {largest:.4g} does not fit into 16 bits (at "
            f"most {LARGEST:.0f}); check the encoder's weights, mean and std"
        )
    return features.astype(np.float16)


class Tape:
    """A tape that `vsepp.features.tape_writer` wrote, by epoch and row of the captions table.

    Parameters
    ----------
    folder, captions
        The tape, and the rows of the captions table that it holds, ascending.
    placement
        Where its epochs go; the next one is read while one is used. `None` leaves them in their files.
    """

    def __init__(self, folder: Path, captions: np.ndarray, placement: Placement | None = None) -> None:
        self.folder = folder
        self._captions = captions
        self._features = ReadAhead(self._map, self._has, placement, "tape")

    @classmethod
    def open(cls, folder: Path, placement: Placement | None = None) -> Tape:
        """Open a tape's folder; epochs are read as they are asked for."""
        path = folder / CAPTIONS
        if not path.is_file():
            raise VseppError(f"{path}: missing; run the step that writes the tape again")
        return cls(folder, np.load(path), placement)

    @property
    def dim(self) -> int:
        """D_φ."""
        epochs = self._epochs()
        if not epochs:
            raise VseppError(f"{self.folder}: the tape has no epochs; run the step that writes it again")
        return np.load(self.folder / epoch_file(epochs[0]), mmap_mode="r").shape[1]

    def rows(self, epoch: int, caption_rows: np.ndarray) -> torch.Tensor:
        """Features float16 `(n, dim)` of rows `(n,)` of the captions table in an epoch, from 0.

        Raises
        ------
        VseppError
            When the tape lacks the epoch or one of the captions.
        """
        features = self._features.epoch(epoch)
        found = np.searchsorted(self._captions, caption_rows)
        there = self._captions[np.minimum(found, len(self._captions) - 1)] == caption_rows
        if not there.all():
            missing = np.asarray(caption_rows)[~there]
            raise VseppError(
                f"{self.folder}: the tape has no caption row {missing[0]} ({len(missing)} of "
                f"{len(caption_rows)} are missing); it holds {len(self._captions)} captions. Run the step "
                "that writes it again"
            )
        return features.rows(found)

    def _has(self, epoch: int) -> bool:
        return (self.folder / epoch_file(epoch)).is_file()

    def _map(self, epoch: int) -> np.ndarray:
        path = self.folder / epoch_file(epoch)
        if not self._has(epoch):
            raise VseppError(
                f"{self.folder}: the tape has no epoch {epoch}; it has {self._epochs()}. Run the step that "
                "writes it with as many epochs as the run trains for"
            )
        features = np.load(path, mmap_mode="r")
        if features.shape[0] != len(self._captions):
            raise VseppError(
                f"{path}: expected {len(self._captions)} rows, as {CAPTIONS} names, got {features.shape[0]}"
            )
        return features

    def _epochs(self) -> list[int]:
        return sorted(int(path.stem.removeprefix("epoch-")) for path in self.folder.glob("epoch-*.npy"))


class InlineFeatures:
    """The features that a tape would hold, computed when they are asked for: for a disk that is small.

    Parameters
    ----------
    store, encoder, crop, draw, device
        As `start_random_crop_features` takes them; the encoder is put into evaluation mode and moved here.
    image_rows, caption_ids
        `(n_captions,)`, the image and the id of every row of the captions table.
    """

    def __init__(
        self,
        store: np.ndarray | torch.Tensor,
        encoder: ImageEncoder,
        crop: CropSpec,
        image_rows: np.ndarray,
        caption_ids: np.ndarray,
        draw: int,
        device: torch.device,
    ) -> None:
        check_size(encoder, crop)
        self.dim = encoder.dim
        self._store = store
        self._encoder = encoder.to(device).eval()
        self._crop = crop
        self._image_rows = image_rows
        self._caption_ids = caption_ids
        self._draw = draw
        self._device = device
        self._unchecked: _Unchecked | None = None

    def rows(self, epoch: int, caption_rows: np.ndarray) -> torch.Tensor:
        """Features float16 `(n, dim)` of rows `(n,)` of the captions table in an epoch, from 0, on the device.

        A GPU is not waited for: features that are not finite or do not fit are refused at the next call, and the loss
        of their own step is not finite.
        """
        images, ids = self._image_rows[caption_rows], self._caption_ids[caption_rows]
        boxes, flips = crop_boxes(ids, self._draw, epoch, self._crop, self._store.shape[1])
        rows = np.asarray(images, np.int64)
        features = encode_there(self._store, self._encoder, rows, boxes, flips, self._device)
        if self._device.type == "cpu":
            return torch.from_numpy(self._checked(features, rows, ids))
        before, self._unchecked = self._unchecked, _Unchecked.of(features, rows, ids)
        if before is not None and not before.fit():
            self._checked(before.features.cpu(), before.image_rows, before.caption_ids)
        return features.half()

    def _checked(self, features: torch.Tensor, image_rows: np.ndarray, caption_ids: np.ndarray) -> np.ndarray:
        return _in_16_bits(
            finite(features.numpy(), image_rows, self._encoder), self._encoder, image_rows, caption_ids
        )


@dataclass(frozen=True, eq=False)
class _Unchecked:
    """Features on a GPU, and whether they fit into 16 bits, which the host will know by the next step."""

    features: torch.Tensor
    """float32 `(n, dim)`."""
    image_rows: np.ndarray
    caption_ids: np.ndarray
    found: torch.Tensor
    """bool, in pinned memory."""
    known: torch.cuda.Event
    """When `found` is there."""

    @classmethod
    def of(cls, features: torch.Tensor, image_rows: np.ndarray, caption_ids: np.ndarray) -> _Unchecked:
        """Have the GPU look at features; NaN fits as little as what is too large."""
        fits = (features.abs() <= LARGEST).all()
        found = torch.empty((), dtype=torch.bool, pin_memory=True).copy_(fits, non_blocking=True)
        known = torch.cuda.current_stream(features.device).record_event()
        return cls(features, image_rows, caption_ids, found, known)

    def fit(self) -> bool:
        """Whether they did; waits until they are computed."""
        self.known.synchronize()
        return bool(self.found)
