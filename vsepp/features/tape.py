"""Random-crop features of a frozen encoder: written once to a tape that all runs share, or computed in each
training step.

The crop of a pair is a function of (draw, epoch, caption id) alone. So all frozen runs of a corpus read the same features,
whatever their loss, seed or negative set, and RC reads its part of RC+rV's tape. Computing features in the step
(`InlineFeatures`) gives what the tape (`Tape`) holds, on a CPU bit for bit.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from vsepp.base.errors import VseppError
from vsepp.base.placement import rows_of, upload
from vsepp.features.crops import CaptionCrops, Images
from vsepp.features.frozen import CAPTIONS, check_size, epoch_file, tape_features
from vsepp.models.encoder import ImageEncoder


class Tape:
    """A tape that `vsepp.features.frozen` wrote, by epoch and row of the captions table.

    Epochs stay in their files, which the kernel caches in memory as far as there is room.

    Parameters
    ----------
    folder
        Folder of the tape.

    Raises
    ------
    VseppError
        If the tape does not say which captions it holds, or an epoch holds another number of captions.
    """

    def __init__(self, folder: Path) -> None:
        self._epochs = sorted(path.name for path in folder.glob("epoch-*.npy"))
        if not (folder / CAPTIONS).is_file():
            raise VseppError(f"{folder / CAPTIONS}: missing; run the step that writes the tape again")
        self.folder = folder
        self._captions = np.load(folder / CAPTIONS)
        """Rows of the captions table that it holds, ascending."""
        # A step reads one epoch.
        self._of_epoch = lru_cache(maxsize=1)(self._opened)
        for epoch in range(len(self._epochs)):
            self._of_epoch(epoch)

    @property
    def dim(self) -> int:
        """D_φ."""
        return self._of_epoch(0).shape[1]

    def rows(self, epoch: int, caption_rows: np.ndarray) -> torch.Tensor:
        """Features float16 `(n, dim)` of rows `(n,)` of the captions table in an epoch, from 0.

        Raises
        ------
        VseppError
            If the tape lacks the epoch or one of the captions.
        """
        places = np.searchsorted(self._captions, caption_rows)
        present = self._captions[np.minimum(places, len(self._captions) - 1)] == caption_rows
        if not present.all():
            missing = np.asarray(caption_rows)[~present]
            raise VseppError(
                f"{self.folder}: the tape has no caption row {missing[0]} ({len(missing)} of "
                f"{len(caption_rows)} are missing); it holds {len(self._captions)} captions. Run the step "
                "that writes it again"
            )
        return rows_of(self._of_epoch(epoch), places)

    def _opened(self, epoch: int) -> np.ndarray:
        name = epoch_file(epoch)
        if name not in self._epochs:
            raise VseppError(
                f"{self.folder}: the tape has no epoch {epoch}; it has {', '.join(self._epochs) or 'none'}. Run the step that "
                "writes it, with as many epochs as the run has"
            )
        features = np.load(self.folder / name, mmap_mode="r")
        if len(features) != len(self._captions):
            raise VseppError(
                f"{self.folder / name}: expected {len(self._captions)} rows, as {CAPTIONS} names, got {len(features)}"
            )
        return features


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
        features = tape_features(self._store, self._encoder, self._crops, epoch, caption_rows, self._device)
        return upload(features, self._device)
