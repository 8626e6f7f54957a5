"""What a model ranks first for test images and captions, with small pictures of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from vsepp.data.pictures import Pictures
from vsepp.evaluation.embeddings import Embeddings
from vsepp.provenance.manifest import require_intact
from vsepp.reporting.records import Record
from vsepp.similarity import scorer


@dataclass(frozen=True)
class Answers:
    """A model whose embeddings are here, and the pictures and captions of its test set."""

    record: Record

    @cached_property
    def pictures(self) -> Pictures:
        """Pictures of all test images."""
        return Pictures(Path(self.record.spec.pictures))

    @cached_property
    def embeddings(self) -> Embeddings:
        """Those that were evaluated.

        Raises
        ------
        VseppError
            If the file was changed.
        """
        folder = Path(self.record.spec.evaluation)
        require_intact(folder, "embeddings.npz")
        return Embeddings.load(folder / "embeddings.npz")

    def captions(self, image: int, images: slice, count: int) -> np.ndarray:
        """Rows of the captions that an image finds first, `(count,)`, among those of a fold's images."""
        owner = self.embeddings.caption_to_image
        rows = np.flatnonzero((owner >= images.start) & (owner < images.stop))
        return rows[self._best(slice(image, image + 1), rows)[:count]]

    def images(self, caption: int, images: slice, count: int) -> np.ndarray:
        """Rows of the images that a caption finds first, `(count,)`, among those of a fold."""
        return images.start + self._best(images, np.array([caption]))[:count]

    def _best(self, images: slice, captions: np.ndarray) -> np.ndarray:
        """Places of the items of one query, the most similar first; equal ones in their order."""
        score = scorer(self.embeddings.similarity)
        scores = score(self.embeddings.image_embeddings[images], self.embeddings.caption_embeddings[captions])
        return np.argsort(-scores.ravel(), kind="stable")
