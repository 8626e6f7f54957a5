"""Small pictures of a split's images with their captions: for pages, not for models."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.files import own_json, reading
from vsepp.data.arrays import read_npz

FILE, CAPTIONS = "pictures.npz", "captions.json"


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
        with reading(folder / FILE, expected):
            arrays = read_npz(folder / FILE, ("jpegs", "offsets"), expected)
            self._jpegs, self._offsets = arrays["jpegs"].tobytes(), arrays["offsets"]
        self.images: list[dict] = own_json(folder / CAPTIONS, expected)
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
