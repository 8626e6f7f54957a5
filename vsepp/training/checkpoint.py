"""What a killed training needs to resume: checkpoints in the state folder, each complete or not there at all.

`checkpoint.pt` is the newest; `checkpoint.previous.pt` is the one before, in case the newest is damaged. The best
snapshot changes less often than the rest, so it has its own file, `best-NNNN.pt`, written when it changes, before the
checkpoint that names its epoch.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from vsepp.errors import VseppError
from vsepp.provenance.publish import differences
from vsepp.provenance.space import full_disk_explained
from vsepp.runtime.files import whole_file

log = logging.getLogger("vsepp")

FILE = "checkpoint.pt"
PREVIOUS = "checkpoint.previous.pt"

SECONDS_BETWEEN = 60.0
# Fraction of the time so far that all checkpoints on the way may take, and again the one after the last epoch. Writing thus
# takes less than 1 % of a training's time.
SHARE = 0.005
# Expected cost of the first one: seconds of latency, and bytes per second. From then on, the cost of the last one.
_ASSUMED_WAIT, _ASSUMED_RATE = 0.02, 2.5e8


class Checkpoints:
    """The checkpoints of one training: when to write one, writing, and resuming from the last one.

    Parameters
    ----------
    folder
        State folder. It holds at most two checkpoints and the best snapshots that they name.
    identity
        Everything that decides what is trained (the run, the code, ...), as nested mappings of JSON values. A
        checkpoint with another identity is refused.
    interval
        Shortest time between two checkpoints, seconds; longer if writing would take more than its share of the time.
        0: write whenever asked, whatever it costs; infinity: never.
    size
        Approximate bytes of a checkpoint with its best snapshot; decides when the first one is worth its time.
    """

    def __init__(
        self, folder: Path, identity: Mapping[str, Any], interval: float = SECONDS_BETWEEN, size: int = 0
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.written = ""
        """Where in the training the last checkpoint is, in words; empty if there is none."""
        self._identity = json.dumps(identity, sort_keys=True)
        self._interval = interval
        self._size = size
        self._expected = _ASSUMED_WAIT + size / _ASSUMED_RATE
        self._seconds = 0.0
        self._began = self._last = time.monotonic()
        self._best_epoch = 0

    @property
    def share(self) -> float:
        """Fraction of this process's training time spent writing checkpoints."""
        return self._seconds / max(time.monotonic() - self._began, 1e-9)

    def due(self, *, last: bool = False) -> bool:
        """Whether to write one now. After the `last` epoch only the cost of writing counts, not the interval."""
        if self._interval == 0 or math.isinf(self._interval):
            return self._interval == 0
        now = time.monotonic()
        allowed = SHARE * (now - self._began)
        if last:
            return self._expected <= allowed
        return now - self._last >= self._interval and self._seconds + self._expected <= allowed

    def save(
        self, content: Mapping[str, Any], best_epoch: int, best: dict[str, torch.Tensor], where: str
    ) -> None:
        """Write a checkpoint; a kill at any moment leaves this one or the one before.

        Parameters
        ----------
        content
            Tensors, numbers, strings and containers of them: it is read back without unpickling objects.
        best_epoch
            Epoch of the best snapshot, from 1; 0 if there is none yet.
        best
            Its weights; written only if the previous checkpoint had another best epoch.
        where
            Where in the training this is, in words.

        Raises
        ------
        VseppError
            If the disk is full; the previous checkpoint stays.
        """
        started = time.monotonic()
        before, self._best_epoch = self._best_epoch, best_epoch
        if best_epoch not in (0, before):
            self._write(self._best_path(best_epoch), {"epoch": best_epoch, "model": best})
        whole = {
            **content,
            "identity": self._identity,
            "best_epoch": best_epoch,
            "where": where,
        }
        self._write(self.folder / FILE, whole, keep=self.folder / PREVIOUS)
        for path in self.folder.glob("best-*.pt"):
            if path not in (self._best_path(before), self._best_path(best_epoch)):
                path.unlink()
        self.written = where
        self._last = time.monotonic()
        self._expected = self._last - started
        self._seconds += self._expected

    def load(self) -> dict[str, Any] | None:
        """Read the newest intact checkpoint; `None` if there is none.

        Half-written files are removed. A damaged checkpoint is logged, and removed once it is clear how to continue.

        Returns
        -------
        dict
            The saved content, and the best snapshot under `best` and `best_epoch`.

        Raises
        ------
        VseppError
            If the checkpoint has another identity, naming what differs. Then nothing is removed.
        """
        for partial in self.folder.glob(".*"):  # ours, and temporary files of safetensors
            partial.unlink()
        damaged: list[Path] = []
        for path in (self.folder / FILE, self.folder / PREVIOUS):
            if not path.is_file():
                continue
            try:
                content = self._read(path)
            except _Damaged as error:
                log.warning("%s: damaged checkpoint (%s)", path, error)
                damaged.append(path)
                continue
            if damaged:
                log.warning("%s: resuming from the previous checkpoint, of %s", path, content["where"])
            if path.name == PREVIOUS:
                path.replace(self.folder / FILE)  # the damaged one must not become the previous one
            self._best_epoch, self.written = content["best_epoch"], content["where"]
            return content
        if damaged:
            log.error("%s: no checkpoint can be read; TRAINING STARTS AGAIN FROM THE BEGINNING", self.folder)
        for path in [*damaged, *self.folder.glob("best-*.pt")]:
            path.unlink()
        return None

    def _best_path(self, epoch: int) -> Path:
        return self.folder / f"best-{epoch:04d}.pt"

    def _write(self, path: Path, content: Mapping[str, Any], keep: Path | None = None) -> None:
        """Replace `path` atomically, safe against power failure; the old file is kept as `keep`."""
        with (
            full_disk_explained(self.folder, "for a checkpoint", self._size),
            whole_file(path) as partial,
        ):
            with partial.open("wb") as stream:
                _save(dict(content), stream)
                stream.flush()
                os.fsync(stream.fileno())
            if keep is not None and path.is_file():
                path.replace(keep)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _read(self, path: Path) -> dict[str, Any]:
        """Read a checkpoint and the best snapshot that it names."""
        content = _load(path)
        try:
            identity, best_epoch = content["identity"], content["best_epoch"]
        except (KeyError, TypeError) as error:
            raise _Damaged(f"holds no {error}") from error
        _refuse_other(path, json.loads(identity), json.loads(self._identity))
        content["best"] = {}
        if best_epoch:
            best = _load(self._best_path(best_epoch))
            if best.get("epoch") != best_epoch:
                raise _Damaged(f"{self._best_path(best_epoch).name} is of epoch {best.get('epoch')}")
            content["best"] = best["model"]
        return content


class _Damaged(Exception):
    """A damaged file."""


def _save(content: dict[str, Any], stream: Any) -> None:
    try:
        torch.save(content, stream)
    except RuntimeError as error:
        # If the system refuses to write, torch's error is only about positions in the file.
        if isinstance(error.__context__, OSError):
            raise error.__context__ from error
        raise


def _load(path: Path) -> dict[str, Any]:
    """Content of a file after a check of all checksums, which `torch.load` does not make."""
    try:
        with zipfile.ZipFile(path) as archive:
            if wrong := archive.testzip():
                raise _Damaged(f"{path.name}: checksum of {wrong} is wrong")
        return torch.load(path, map_location="cpu", weights_only=True)
    except (_Damaged, MemoryError, PermissionError):
        raise
    except Exception as error:  # zipfile and torch can raise anything for damaged bytes
        lines = str(error).splitlines() or [type(error).__name__]
        raise _Damaged(f"{path.name}: {lines[0]}") from error


def _refuse_other(path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Refuse a checkpoint with another identity, with both values of everything that differs."""
    differing = differences(theirs, ours, "in the checkpoint")
    if differing:
        raise VseppError(
            f"{path}: a checkpoint of other code or another run; {'; '.join(differing)}. Give each run its own "
            f"state folder, or delete {path.parent} to train from the start"
        )


def random_states(device: torch.device) -> dict[str, Any]:
    """States of the random generators that a step may draw from (dropout, in legacy modes)."""
    states: dict[str, Any] = {"torch": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_states(states: dict[str, Any], device: torch.device) -> None:
    """Inverse of `random_states`."""
    torch.set_rng_state(states["torch"])
    if "cuda" in states and device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)
