"""Write a tape of random-crop features, an epoch at a time: by one process, or by several that share the epochs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from vsepp.errors import VseppError
from vsepp.features.crops import CaptionCrops
from vsepp.features.frozen import ENCODE_BATCH, OnTheWay, check_size, encode_crops, one_later
from vsepp.features.growing import GrowingRows, missing_bytes
from vsepp.features.tape import CAPTIONS, epoch_file, in_16_bits
from vsepp.models.encoder import ImageEncoder
from vsepp.provenance.publish import publish
from vsepp.provenance.space import check_space
from vsepp.runtime.placing import Placed
from vsepp.runtime.progress import track

# Captions between two places that a killed step can go on from; a multiple of what the encoder sees at once.
CHUNK_CAPTIONS = 8 * ENCODE_BATCH
# Lies in the state folder while files are moved: only then a file in `out` is known to be this tape's.
_COMPLETE = "complete"


@dataclass(frozen=True)
class TapeJob:
    """What a tape holds and where it is made."""

    crops: CaptionCrops
    """Of the captions of the corpus, of kind `RC`."""
    caption_rows: np.ndarray
    """`(n,)`, rows of the captions table, ascending: all captions that any run trains on."""
    dim: int
    """D_φ of the encoder."""
    epochs: int
    out: Path
    """Folder of the result."""
    state: Path
    """Folder that outlives a kill, for these inputs alone."""

    @property
    def shape(self) -> tuple[int, int]:
        """Of an epoch: captions and dimensions."""
        return len(self.caption_rows), self.dim

    def missing_bytes(self) -> dict[int, int]:
        """Epochs that are not written to their end, and what they lack."""
        lacking = {
            epoch: missing_bytes(self.state / epoch_file(epoch), self.shape, np.float16)
            for epoch in range(self.epochs)
            if not self._moved(epoch)
        }
        return {epoch: count for epoch, count in lacking.items() if count}

    def _moved(self, epoch: int) -> bool:
        """Whether a killed step had already moved this epoch."""
        if (self.state / epoch_file(epoch)).is_file():
            return False
        return (self.state / _COMPLETE).is_file() and (self.out / epoch_file(epoch)).is_file()


def write_tape(job: TapeJob, store: Placed, encoder: ImageEncoder, *, device: torch.device) -> None:
    """Write a tape in this process; see `begin_tape`, `write_epochs` and `finish_tape`."""
    begin_tape(job)
    write_epochs(job, store, encoder, device=device)
    finish_tape(job)


def begin_tape(job: TapeJob) -> None:
    """Check that the captions are in order and that the disk holds what is missing of the whole tape.

    Raises
    ------
    VseppError
        When they are not, or it does not.
    """
    if np.any(np.diff(job.caption_rows) <= 0):
        raise VseppError(f"{job.out}: expected rows of captions in ascending order, each once")
    job.state.mkdir(parents=True, exist_ok=True)
    check_space(job.state, sum(job.missing_bytes().values()), f"a tape of {job.epochs} epochs")


def write_epochs(
    job: TapeJob, store: Placed, encoder: ImageEncoder, *, device: torch.device, alone: bool = True
) -> None:
    """Write every epoch that is not written and that no other process is at; any number of processes may call this.

    Works in `job.state` and goes on from what lies there. An epoch belongs to the process that holds its lock in there,
    which the kernel gives back when the process ends. Who writes an epoch changes nothing: chunks begin at the same
    captions and are encoded in the same batches.

    Parameters
    ----------
    job
        Begun with `begin_tape`.
    store
        uint8 `(n_images, side, side, 3)`, an array, a memory map or a tensor on any device.
    encoder
        Put into evaluation mode and moved to `device`.
    device
        Where to compute.
    alone
        No other process works for this step: one that is at an epoch belongs to a step that was killed, and its end
        is waited for.

    Raises
    ------
    VseppError
        When the crops do not fit the images or the encoder, a feature is not finite or too large for 16 bits, or the
        disk is full.
    """
    from filelock import FileLock, Timeout

    check_size(encoder, job.crops.crop)
    encoder.to(device).eval()
    for epoch in job.missing_bytes():
        lock = FileLock(job.state / f"{epoch_file(epoch)}.lock")
        try:
            lock.acquire(blocking=alone)
        except Timeout:
            continue
        try:
            _write_epoch(job, store, encoder, epoch, device)
        finally:
            lock.release()


def _write_epoch(
    job: TapeJob, store: Placed, encoder: ImageEncoder, epoch: int, device: torch.device
) -> None:
    """Go on with an epoch; a GPU computes a chunk while the one before it is checked and written."""
    written = GrowingRows(job.state / epoch_file(epoch), job.shape, np.float16, CHUNK_CAPTIONS)
    starts = range(written.done, len(job.caption_rows), CHUNK_CAPTIONS)
    what = f"random-crop features of epoch {epoch + 1} of {job.epochs}"
    chunks = (
        _encoded(job, store, encoder, epoch, job.caption_rows[start : start + CHUNK_CAPTIONS], device)
        for start in track(starts, len(starts), what, "chunk")
    )
    for features, images, ids in one_later(chunks):
        written.append(in_16_bits(features.wait(), images, ids, encoder))


def _encoded(
    job: TapeJob,
    store: Placed,
    encoder: ImageEncoder,
    epoch: int,
    caption_rows: np.ndarray,
    device: torch.device,
) -> tuple[OnTheWay, np.ndarray, np.ndarray]:
    """Features of the crops that some captions' images have in an epoch, and image and id of each caption."""
    images, boxes, flips = job.crops.of(epoch, caption_rows, store.shape[1])
    features = encode_crops(store, encoder, images, boxes, flips, device)
    return OnTheWay.of(features), images, job.crops.caption_ids[caption_rows]


def finish_tape(job: TapeJob) -> None:
    """Move the files of a tape whose epochs are all written: `captions.npy` and one `epoch-NNN.npy` an epoch.

    All at once, since a failed step loses what it has already put into `job.out`.

    Raises
    ------
    VseppError
        When an epoch is not written.
    """
    lacking = job.missing_bytes()
    if lacking:
        raise VseppError(f"{job.state}: epochs {sorted(lacking)} are not written; run the step again")
    np.save(job.state / CAPTIONS, np.asarray(job.caption_rows, np.int32))
    (job.state / _COMPLETE).touch()
    files = {job.state / epoch_file(epoch): job.out / epoch_file(epoch) for epoch in range(job.epochs)}
    publish({source: target for source, target in files.items() if source.is_file()})
    publish({job.state / CAPTIONS: job.out / CAPTIONS})
    for lock in job.state.glob("*.lock"):
        lock.unlink()
    (job.state / _COMPLETE).unlink()
