"""Write a tape of random-crop features, an epoch at a time: by one process, or by several that share the epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from vsepp.errors import VseppError
from vsepp.features.frozen import ENCODE_BATCH
from vsepp.features.growing import GrowingRows, append_behind, missing_bytes
from vsepp.features.tape import CAPTIONS, epoch_file, start_random_crop_features
from vsepp.models.encoder import ImageEncoder
from vsepp.runtime.progress import track
from vsepp.provenance.publish import publish
from vsepp.provenance.space import check_space
from vsepp.spec import CropSpec

# Captions between two places that a killed step can go on from; a multiple of what the encoder sees at once.
CHUNK_CAPTIONS = 8 * ENCODE_BATCH
# Lies in the state folder while files are moved: only then a file in `out` is known to be this tape's.
_COMPLETE = "complete"


@dataclass(frozen=True)
class TapeJob:
    """What a tape holds and where it is made."""

    crop: CropSpec
    caption_rows: np.ndarray
    """`(n,)`, rows of the captions table, ascending: all captions that any run trains on."""
    image_rows: np.ndarray
    """`(n,)`, the image of each."""
    caption_ids: np.ndarray
    """`(n,)`, the id of each."""
    dim: int
    """D_φ of the encoder."""
    draw: int
    """Which draw of random crops."""
    epochs: range
    """Epochs from 0."""
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
            for epoch in self.epochs
            if not self._moved(epoch)
        }
        return {epoch: count for epoch, count in lacking.items() if count}

    def _moved(self, epoch: int) -> bool:
        """Whether a killed step had already moved this epoch."""
        if (self.state / epoch_file(epoch)).is_file():
            return False
        return (self.state / _COMPLETE).is_file() and (self.out / epoch_file(epoch)).is_file()


def write_tape(
    job: TapeJob, store: np.ndarray | torch.Tensor, encoder: ImageEncoder, *, device: torch.device
) -> None:
    """Write `captions.npy` and one `epoch-NNN.npy` an epoch into `job.out`.

    Works in `job.state` and goes on from what lies there. Files are moved when all epochs are done, each at once,
    since a failed step loses what it has already put there.

    Parameters
    ----------
    job
        What to write and where.
    store, encoder, device
        As `start_random_crop_features` takes them.

    Raises
    ------
    VseppError
        When the disk cannot hold the tape, and as `start_random_crop_features` does.
    """
    begin_tape(job)
    write_epochs(job, store, encoder, device=device, alone=True)
    finish_tape(job)


def begin_tape(job: TapeJob) -> None:
    """Check that the captions are in order and that the disk holds what is missing of the whole tape."""
    if np.any(np.diff(job.caption_rows) <= 0):
        raise VseppError(f"{job.out}: expected rows of captions in ascending order, each once")
    job.state.mkdir(parents=True, exist_ok=True)
    check_space(job.state, sum(job.missing_bytes().values()), f"a tape of {len(job.epochs)} epochs")


def write_epochs(
    job: TapeJob,
    store: np.ndarray | torch.Tensor,
    encoder: ImageEncoder,
    *,
    device: torch.device,
    alone: bool,
) -> None:
    """Write every epoch that is not written and that no other process is at; any number of processes may call this.

    An epoch belongs to the process that holds its lock in `job.state`, which the kernel gives back when the process
    ends. Who writes an epoch changes nothing: chunks begin at the same captions and are encoded in the same batches.

    Parameters
    ----------
    job
        Begun with `begin_tape`.
    store, encoder, device
        As `start_random_crop_features` takes them.
    alone
        No other process works for this step: one that is at an epoch belongs to a step that was killed, and its end
        is waited for.
    """
    from filelock import FileLock, Timeout

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
    job: TapeJob,
    store: np.ndarray | torch.Tensor,
    encoder: ImageEncoder,
    epoch: int,
    device: torch.device,
) -> None:
    """Go on with an epoch; while a chunk is computed, a thread checks and writes the one before it."""
    rows = GrowingRows(job.state / epoch_file(epoch), job.shape, np.float16, CHUNK_CAPTIONS)
    starts = range(rows.done, len(job.caption_rows), CHUNK_CAPTIONS)
    what = f"random-crop features of epoch {epoch + 1} of {len(job.epochs)}"

    def chunks() -> Iterator[tuple[int, Callable[[], np.ndarray]]]:
        for start in track(starts, len(starts), what, "chunk"):
            part = slice(start, start + CHUNK_CAPTIONS)
            captions = job.image_rows[part], job.caption_ids[part]
            yield (
                start,
                start_random_crop_features(store, encoder, job.crop, *captions, job.draw, epoch, device),
            )

    append_behind(rows, chunks())


def finish_tape(job: TapeJob) -> None:
    """Move the files of a tape whose epochs are all written."""
    lacking = job.missing_bytes()
    if lacking:
        raise VseppError(f"{job.state}: epochs {sorted(lacking)} are not written; run the step again")
    np.save(job.state / CAPTIONS, np.asarray(job.caption_rows, np.int32))
    (job.state / _COMPLETE).touch()
    files = {job.state / epoch_file(epoch): job.out / epoch_file(epoch) for epoch in job.epochs}
    publish({source: target for source, target in files.items() if source.is_file()})
    publish({job.state / CAPTIONS: job.out / CAPTIONS})
    for lock in job.state.glob("*.lock"):
        lock.unlink()
    (job.state / _COMPLETE).unlink()
