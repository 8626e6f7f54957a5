"""What a model ranks first for test images and captions, with small pictures of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from vsepp.base.files import read_json, reading
from vsepp.base.manifest import require_intact
from vsepp.data.arrays import read_npz
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.evaluate import LISTS
from vsepp.models.similarity import scorer
from vsepp.report.models import Model


class Pictures:
    """Pictures and captions of a split, in the order of its images."""

    def __init__(self, folder: Path) -> None:
        """Open what `vsepp.data.thumbnails.make_pictures` wrote.

        Raises
        ------
        VseppError
            Where a file is missing or is something else.
        """
        expected = "small pictures of a split; run the step that makes them again"
        with reading(folder / "pictures.npz", expected):
            arrays = read_npz(folder / "pictures.npz", ("jpegs", "offsets"), expected)
            self._jpegs, self._offsets = arrays["jpegs"].tobytes(), arrays["offsets"]
        self.images: list[dict] = read_json(folder / "captions.json", expected)
        """What is known of each image: `id`, and `captions`, a list of texts."""

    def __len__(self) -> int:
        """Number of images."""
        return len(self.images)

    def jpeg(self, row: int) -> bytes:
        """The picture of an image, a JPEG file's bytes; no bytes where photographs may not be shown."""
        return self._jpegs[self._offsets[row] : self._offsets[row + 1]]

    @property
    def texts(self) -> list[str]:
        """All captions, in the order of embeddings and ranks."""
        return [text for _, text in sorted(pair for image in self.images for pair in image["captions"])]


@dataclass(frozen=True)
class Answers:
    """A model whose embeddings are here, and the pictures and captions of its test set."""

    model: Model

    @cached_property
    def pictures(self) -> Pictures:
        """Pictures of all test images."""
        return Pictures(Path(self.model.pictures))

    @cached_property
    def embeddings(self) -> Embeddings:
        """Embeddings of the test set, as they were evaluated.

        Raises
        ------
        VseppError
            If the file was changed.
        """
        folder = Path(self.model.evaluation)
        require_intact(folder, "embeddings.npz")
        return Embeddings.load(folder / "embeddings.npz")

    @cached_property
    def lists(self) -> dict[str, np.ndarray]:
        """The arrays of `best.npz`, where a matcher re-ranked; errors as in `embeddings`."""
        if not any(metrics.get("reranked") for metrics in self.model.metrics.values()):
            return {}
        folder = Path(self.model.evaluation)
        require_intact(folder, LISTS)
        return read_npz(folder / LISTS, None, "lists of the best; delete the folder and make it again")

    def ranked(self, direction: str, query: int, fold: slice, protocol: str) -> np.ndarray:
        """Rows of the images or captions that a query finds in a fold of images, the most similar first; equal ones in their order.

        Parameters
        ----------
        direction
            `i2t`: an image seeks captions; `t2i`: a caption seeks images.
        query
            Row of the image or caption.
        fold
            Rows of images: these images are ranked, or their captions.
        protocol
            Protocol of the lists, where a matcher re-ranked: items in a list stand first.
        """
        by_embeddings = self._similar(direction, query, fold)
        if not self.lists:
            return by_embeddings
        row = query
        if direction == "t2i":  # its row among the captions that were ranked
            row = int(np.searchsorted(self.model.arrays[f"{protocol}_caption_rows"], query))
        items, scores = (self.lists[f"{protocol}_{direction}_{part}"][row] for part in ("items", "scores"))
        rest = by_embeddings[~np.isin(by_embeddings, items)]
        return np.concatenate([items[np.argsort(-scores, kind="stable")], rest])

    def _similar(self, direction: str, query: int, fold: slice) -> np.ndarray:
        """Rows by the embeddings alone, the most similar first; arguments as in `ranked`."""
        embeddings = self.embeddings
        own = slice(query, query + 1)
        images: slice | np.ndarray
        captions: slice | np.ndarray
        if direction == "i2t":
            owner = embeddings.caption_to_image
            rows = np.flatnonzero((owner >= fold.start) & (owner < fold.stop))
            images, captions = own, rows
        else:
            rows = np.arange(fold.start, fold.stop)
            images, captions = fold, own
        score = scorer(embeddings.similarity)
        scores = score(embeddings.image_embeddings[images], embeddings.caption_embeddings[captions])
        return rows[np.argsort(-scores.ravel(), kind="stable")]
