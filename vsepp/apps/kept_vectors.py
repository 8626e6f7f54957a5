"""Embeddings of pictures that were searched before: kept in the user's cache by the pictures' digests, a file a model."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from vsepp import __version__
from vsepp.base.digests import short_digest
from vsepp.base.errors import VseppError
from vsepp.base.files import reading, write_arrays
from vsepp.base.manifest import artefact_digest
from vsepp.data.arrays import read_npz

log = logging.getLogger("vsepp")


class KeptVectors:
    """Embeddings of pictures under one model.

    Parameters
    ----------
    model
        Folder of the model: other weights, and another version of vsepp, have another file.
    dim
        Length d of an embedding; a file of other lengths is made again.
    """

    def __init__(self, model: Path, dim: int) -> None:
        self.file = _folder() / f"{short_digest(artefact_digest(model), __version__)}.npz"
        self.known: dict[str, np.ndarray] = {}
        # A missing or damaged file is made again.
        with suppress(VseppError), reading(self.file, "embeddings of pictures"):
            arrays = read_npz(self.file, ("digests", "embeddings"), "embeddings of pictures")
            digests, rows = arrays["digests"], arrays["embeddings"]
            if rows.shape == (len(digests), dim) and rows.dtype == np.float32 and np.isfinite(rows).all():
                self.known = dict(zip(digests.tolist(), rows, strict=True))

    def add(self, embeddings: Mapping[str, np.ndarray]) -> None:
        """Keep embeddings, digest → float32 `(d,)`; where the cache cannot be written to, the log says so."""
        if not embeddings:
            return
        self.known.update(embeddings)
        try:
            write_arrays(
                self.file, digests=np.array(list(self.known)), embeddings=np.stack(list(self.known.values()))
            )
        except OSError as error:
            log.warning("%s: embeddings of the pictures are not kept: %s", self.file, error.strerror)


def _folder() -> Path:
    """`$XDG_CACHE_HOME/vsepp`, or `~/.cache/vsepp`; a relative path there counts for nothing, as its standard says."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():
        try:
            cache = Path("~/.cache").expanduser()
        except RuntimeError:  # a user without a home
            cache = Path(os.devnull)
    return cache / "vsepp"
