"""What a killed training needs to resume: a checkpoint in the state folder, complete or not there at all."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from vsepp.base.errors import VseppError
from vsepp.base.files import whole_file

FILE = "checkpoint.pt"
SECONDS_BETWEEN = 60.0


class Checkpoints:
    """The last checkpoint of one training.

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
        self._file = folder / FILE
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
        with whole_file(self._file) as partial, partial.open("wb") as stream:
            _save({**content, "where": where}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        self.written = where
        self._last = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """Read the checkpoint; `None` if there is none.

        Raises
        ------
        VseppError
            If it is damaged.
        """
        if not self._file.is_file():
            return None
        try:
            content: dict[str, Any] = torch.load(self._file, map_location="cpu", weights_only=True)
        except (MemoryError, OSError):
            raise
        except Exception as error:  # torch can raise anything for damaged bytes
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise VseppError(
                f"{self._file}: damaged checkpoint ({reason}); delete it, and the training starts from the beginning"
            ) from error
        self.written = content["where"]
        return content


def _save(content: dict[str, Any], stream: Any) -> None:
    try:
        torch.save(content, stream)
    except RuntimeError as error:
        # If the system refuses to write, torch's error is only about positions in the file.
        if isinstance(error.__context__, OSError):
            raise error.__context__ from error
        raise
