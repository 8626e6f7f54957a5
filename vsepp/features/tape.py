"""Random-crop features of a frozen encoder: written once to a tape that all runs share, or computed in the
step.

The crop of a pair is a function of (draw, epoch, caption id) alone. So all frozen runs, losses, seeds and
sizes of negative sets of one corpus read the same features, RC reads its part of RC+rV's tape, and computing
them inside the step (`InlineFeatures`) gives what the tape (`Tape`) holds: bit for bit on a CPU.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from vsepp.errors import VseppError
from vsepp.features.crops import crop_boxes
from vsepp.features.extract import check_size
from vsepp.features.frozen import ENCODE_BATCH, encode_crops
from vsepp.features.growing import GrowingRows
from vsepp.models.encoders import ImageEncoder
from vsepp.progress import track
from vsepp.provenance.publish import publish
from vsepp.provenance.space import check_space
from vsepp.spec import CropSpec

CAPTIONS = "captions.npy"
# Captions between two places that a killed step can go on from; a multiple of what the encoder sees at once.
CHUNK_CAPTIONS = 8 * ENCODE_BATCH


def epoch_file(epoch: int) -> str:
    """Name of an epoch's file, the epoch counted from 0."""
    return f"epoch-{epoch:03d}.npy"


def random_crop_features(
    store: np.ndarray | torch.Tensor,
    encoder: ImageEncoder,
    crop: CropSpec,
    image_rows: np.ndarray,
    caption_ids: np.ndarray,
    draw: int,
    epoch: int,
    device: torch.device,
) -> np.ndarray:
    """Features of the random crops that these captions' images have in an epoch.

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
    np.ndarray
        float16 `(n, dim)`, not normalised.

    Raises
    ------
    VseppError
        When the crop does not fit, or a feature is too large for 16 bits.
    """
    check_size(encoder, crop)
    boxes, flips = crop_boxes(caption_ids, draw, epoch, crop, store.shape[1])
    features = encode_crops(store, encoder, np.asarray(image_rows, np.int64), boxes, flips, device)
    limit = float(np.finfo(np.float16).max)
    if len(features) and np.abs(features).max() > limit:
        worst = int(np.abs(features).max(axis=1).argmax())
        raise VseppError(
            f"encoder {encoder.spec.architecture!r}: caption {caption_ids[worst]}, image row "
            f"{image_rows[worst]}: a feature of {np.abs(features).max():.4g} does not fit into 16 bits (at "
            f"most {limit:.0f}); check the encoder's weights, mean and std"
        )
    return features.astype(np.float16)


def write_tape(
    store: np.ndarray | torch.Tensor,
    encoder: ImageEncoder,
    crop: CropSpec,
    caption_rows: np.ndarray,
    image_rows: np.ndarray,
    caption_ids: np.ndarray,
    draw: int,
    epochs: range,
    out: Path,
    state: Path,
    *,
    device: torch.device,
) -> None:
    """Write `captions.npy` and one `epoch-NNN.npy` an epoch into `out`.

    Works in `state` and goes on from what lies there. Files are moved to `out` when all epochs are done, each
    at once, since a failed step loses what it has already put there.

    Parameters
    ----------
    store, encoder, crop, draw, device
        As `random_crop_features` takes them.
    caption_rows
        `(n,)`, rows of the captions table, ascending: all captions that any run trains on.
    image_rows, caption_ids
        `(n,)`, the image and the id of each.
    epochs
        Epochs from 0.
    out
        Folder of the result.
    state
        Folder that outlives a kill, for these inputs alone.

    Raises
    ------
    VseppError
        When the disk cannot hold the tape, and as `random_crop_features` does.
    """
    if np.any(np.diff(caption_rows) <= 0):
        raise VseppError(f"{out}: expected rows of captions in ascending order, each once")
    state.mkdir(parents=True, exist_ok=True)
    shape = (len(caption_rows), encoder.dim)
    pending = [
        epoch for epoch in epochs if (state / epoch_file(epoch)).is_file() or not _moved(state, out, epoch)
    ]
    tapes = {
        epoch: GrowingRows(state / epoch_file(epoch), shape, np.float16, CHUNK_CAPTIONS) for epoch in pending
    }
    check_space(state, sum(tape.missing_bytes for tape in tapes.values()), f"a tape of {len(epochs)} epochs")
    chunks = [
        (epoch, start) for epoch in pending for start in range(tapes[epoch].done, shape[0], CHUNK_CAPTIONS)
    ]
    for epoch, start in track(chunks, len(chunks), f"random-crop features of {len(epochs)} epochs", "chunk"):
        part = slice(start, start + CHUNK_CAPTIONS)
        tapes[epoch].append(
            random_crop_features(
                store, encoder, crop, image_rows[part], caption_ids[part], draw, epoch, device
            )
        )
    np.save(state / CAPTIONS, np.asarray(caption_rows, np.int32))
    (state / _COMPLETE).touch()
    publish({tape.path: out / epoch_file(epoch) for epoch, tape in tapes.items()})
    publish({state / CAPTIONS: out / CAPTIONS})
    (state / _COMPLETE).unlink()


# Lies in the state folder while files are moved: only then a file in `out` is known to be this tape's.
_COMPLETE = "complete"


def _moved(state: Path, out: Path, epoch: int) -> bool:
    """Whether a killed step had already moved this epoch."""
    return (state / _COMPLETE).is_file() and (out / epoch_file(epoch)).is_file()


class Tape:
    """A tape that `write_tape` wrote, by epoch and row of the captions table."""

    def __init__(self, folder: Path, captions: np.ndarray) -> None:
        self.folder = folder
        self._captions = captions
        self._epoch = -1
        self._features: np.ndarray | None = None

    @classmethod
    def open(cls, folder: Path) -> Tape:
        """Open a tape's folder; epochs are mapped as they are asked for."""
        path = folder / CAPTIONS
        if not path.is_file():
            raise VseppError(f"{path}: missing; run the step that writes the tape again")
        return cls(folder, np.load(path))

    @property
    def dim(self) -> int:
        """D_φ."""
        epochs = self._epochs()
        if not epochs:
            raise VseppError(f"{self.folder}: the tape has no epochs; run the step that writes it again")
        return np.load(self.folder / epoch_file(epochs[0]), mmap_mode="r").shape[1]

    def rows(self, epoch: int, caption_rows: np.ndarray) -> np.ndarray:
        """Features float16 `(n, dim)` of rows `(n,)` of the captions table in an epoch, from 0.

        Raises
        ------
        VseppError
            When the tape lacks the epoch or one of the captions.
        """
        if epoch != self._epoch:
            self._features = self._map(epoch)
            self._epoch = epoch
        assert self._features is not None
        found = np.searchsorted(self._captions, caption_rows)
        there = self._captions[np.minimum(found, len(self._captions) - 1)] == caption_rows
        if not there.all():
            missing = np.asarray(caption_rows)[~there]
            raise VseppError(
                f"{self.folder}: the tape has no caption row {missing[0]} ({len(missing)} of "
                f"{len(caption_rows)} are missing); it holds {len(self._captions)} captions. Run the step "
                "that writes it again"
            )
        return np.asarray(self._features[found])

    def _map(self, epoch: int) -> np.ndarray:
        path = self.folder / epoch_file(epoch)
        if not path.is_file():
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
        As `random_crop_features` takes them.
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
        self._encoder = encoder
        self._crop = crop
        self._image_rows = image_rows
        self._caption_ids = caption_ids
        self._draw = draw
        self._device = device

    def rows(self, epoch: int, caption_rows: np.ndarray) -> np.ndarray:
        """Features float16 `(n, dim)` of rows `(n,)` of the captions table in an epoch, from 0."""
        return random_crop_features(
            self._store,
            self._encoder,
            self._crop,
            self._image_rows[caption_rows],
            self._caption_ids[caption_rows],
            self._draw,
            epoch,
            self._device,
        )
