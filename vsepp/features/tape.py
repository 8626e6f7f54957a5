"""Random-crop features of a frozen encoder: written once to a tape that all runs share, or computed in each
training step.

The crop of a pair is a function of (draw, epoch, caption id) alone. So all frozen runs of a corpus read the same features,
whatever their loss, seed or negative set, and RC reads its part of RC+rV's tape. Computing features in the step
(`InlineFeatures`) gives what the tape (`Tape`) holds, on a CPU bit for bit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from vsepp.errors import VseppError
from vsepp.features.crops import CaptionCrops, Images
from vsepp.features.frozen import check_size, encode_crops, finite
from vsepp.models.encoder import ImageEncoder
from vsepp.runtime.placing import rows_of, upload

CAPTIONS = "captions.npy"
LARGEST = float(np.finfo(np.float16).max)


def epoch_file(epoch: int) -> str:
    """Name of an epoch's file, the epoch counted from 0."""
    return f"epoch-{epoch:03d}.npy"


def in_16_bits(
    features: np.ndarray, image_rows: np.ndarray, caption_ids: np.ndarray, encoder: ImageEncoder
) -> np.ndarray:
    """Features float32 `(n, dim)` as float16; refused if not finite or too large."""
    finite(features, image_rows, encoder)
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

    Epochs stay in their files, which the kernel caches in memory as far as there is room.

    Parameters
    ----------
    folder
        Folder of the tape; epochs are read when they are needed.

    Raises
    ------
    VseppError
        If it does not say which captions it holds.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / CAPTIONS
        if not path.is_file():
            raise VseppError(f"{path}: missing; run the step that writes the tape again")
        self.folder = folder
        self._captions = np.load(path)
        """Rows of the captions table that it holds, ascending."""
        self._epoch = -1
        self._features: np.ndarray = np.empty(0)

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
            If the tape lacks the epoch or one of the captions.
        """
        if epoch != self._epoch:
            self._features, self._epoch = self._map(epoch), epoch
        found = np.searchsorted(self._captions, caption_rows)
        there = self._captions[np.minimum(found, len(self._captions) - 1)] == caption_rows
        if not there.all():
            missing = np.asarray(caption_rows)[~there]
            raise VseppError(
                f"{self.folder}: the tape has no caption row {missing[0]} ({len(missing)} of "
                f"{len(caption_rows)} are missing); it holds {len(self._captions)} captions. Run the step "
                "that writes it again"
            )
        return rows_of(self._features, found)

    def _map(self, epoch: int) -> np.ndarray:
        path = self.folder / epoch_file(epoch)
        if not path.is_file():
            raise VseppError(
                f"{self.folder}: the tape has no epoch {epoch}; it has {self._epochs()}. Run the step that "
                "writes it, with as many epochs as the run has"
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
    """The features that a tape would hold, computed when they are needed: for small disks.

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

    Raises
    ------
    VseppError
        If the crops do not fit the encoder.
    """

    def __init__(
        self, store: Images, encoder: ImageEncoder, crops: CaptionCrops, device: torch.device
    ) -> None:
        check_size(encoder, crops.crop)
        self.dim = encoder.dim
        self._store = store
        self._encoder = encoder.to(device).eval()
        self._crops = crops
        self._device = device

    def rows(self, epoch: int, caption_rows: np.ndarray) -> torch.Tensor:
        """Features float16 `(n, dim)` of rows `(n,)` of the captions table in an epoch, from 0, on the device.

        Raises
        ------
        VseppError
            If a feature is not finite or too large for 16 bits.
        """
        images, boxes, flips = self._crops.of(epoch, caption_rows, self._store)
        features = encode_crops(self._store, self._encoder, images, boxes, flips, self._device).cpu().numpy()
        ids = self._crops.caption_ids[caption_rows]
        return upload(in_16_bits(features, images, ids, self._encoder), self._device)
