"""What a killed training needs to resume: checkpoints in the state folder, each complete or not there at all.

`checkpoint.pt` is the newest; `checkpoint.previous.pt` is the one before, in case the newest is damaged.
"""

from __future__ import annotations

import logging
import os
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from vsepp.runtime.files import whole_file

log = logging.getLogger("vsepp")

FILE = "checkpoint.pt"
PREVIOUS = "checkpoint.previous.pt"

SECONDS_BETWEEN = 60.0


class Checkpoints:
    """The last two checkpoints of one training.

    Parameters
    ----------
    folder
        State folder, of this training only.
    interval
        Seconds between two checkpoints; 0: one whenever asked.
    """

    def __init__(self, folder: Path, interval: float = SECONDS_BETWEEN) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.written = ""
        """Where in the training the last checkpoint is, in words; empty if there is none."""
        self._folder = folder
        self._newest, self._previous = folder / FILE, folder / PREVIOUS
        self._interval = interval
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether the interval has passed since the last checkpoint or the start."""
        return time.monotonic() - self._last >= self._interval

    def save(self, content: Mapping[str, Any], where: str) -> None:
        """Write a checkpoint; a kill at any moment leaves this one or the one before.

        Parameters
        ----------
        content
            Tensors, numbers, strings and containers of them: it is read back without unpickling objects.
        where
            Where in the training this is, in words.

        Raises
        ------
        OSError
            If the disk is full; the previous checkpoint stays.
        """
        with whole_file(self._newest) as partial:
            with partial.open("wb") as stream:
                _save({**content, "where": where}, stream)
                stream.flush()
                os.fsync(stream.fileno())
            if self._newest.is_file():
                self._newest.replace(self._previous)
        self.written = where
        self._last = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """Read the newest intact checkpoint; `None` if there is none.

        Half-written files are removed. A damaged checkpoint is logged, and removed once it is clear how to continue.
        """
        for partial in self._folder.glob(".*"):  # ours, and temporary files of safetensors
            partial.unlink()
        files = [path for path in (self._newest, self._previous) if path.is_file()]
        for path in files:
            content = _load(path)
            if content is not None:
                path.replace(self._newest)  # a damaged one must not become the previous one
                self.written = content["where"]
                return content
        if files:
            log.error("%s: no checkpoint can be read; TRAINING STARTS AGAIN FROM THE BEGINNING", self._folder)
        for path in files:
            path.unlink()
        return None


def _save(content: dict[str, Any], stream: Any) -> None:
    try:
        torch.save(content, stream)
    except RuntimeError as error:
        # If the system refuses to write, torch's error is only about positions in the file.
        if isinstance(error.__context__, OSError):
            raise error.__context__ from error
        raise


def _load(path: Path) -> dict[str, Any] | None:
    """Content of a checkpoint; `None` if it is damaged, which is logged."""
    try:
        with zipfile.ZipFile(path) as archive:
            wrong = archive.testzip()  # all checksums, which `torch.load` does not check
        if wrong is None:
            return torch.load(path, map_location="cpu", weights_only=True)
        reason = f"checksum of {wrong} is wrong"
    except (MemoryError, PermissionError):
        raise
    except Exception as error:  # zipfile and torch can raise anything for damaged bytes
        reason = next(iter(str(error).splitlines()), type(error).__name__)
    log.warning("%s: damaged checkpoint (%s); looking for the one before", path, reason)
    return None
