"""Ask a trained model: the test images nearest to a sentence, the test captions nearest to a picture.

index = open_index("results/mini/paper/runs/coco-vse0-1c/seed-0")
index.images_for("two dogs on grass", k=5)
index.captions_for("a.jpg", k=5)
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vsepp.api import Model, load
from vsepp.apps.kept_vectors import KeptVectors
from vsepp.base.digests import value_digest
from vsepp.base.errors import VseppError
from vsepp.base.files import require_folder, shown, text_of
from vsepp.base.manifest import (
    ancestors_of,
    artefact_digest,
    manifest_if_intact,
    read_manifest,
    require_intact,
)
from vsepp.base.progress import track_amount
from vsepp.base.publish import EMBEDDINGS, beside, beside_with
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import to_dict
from vsepp.data.container import Container
from vsepp.data.picture_folder import pictures_in, readable
from vsepp.data.pictures import Picture, read_picture, resized
from vsepp.data.store import WholeImages, open_store
from vsepp.evaluation.best import best_of_blocks
from vsepp.evaluation.embedding_scores import EmbeddingScores
from vsepp.evaluation.test_set import TestSet
from vsepp.shipped.folders import model_folder, shipped_models

log = logging.getLogger("vsepp")

_AT_ONCE = 64
"""Pictures that are embedded together: whole batches, and a step of the progress."""
LONGEST_TEXT = 1000
"""Characters of a sentence, several times as many as the longest captions have: each word is a step of the text encoder."""


@dataclass(frozen=True)
class Hit:
    """One answer: an image, or a caption with its image."""

    rank: int
    """From 1."""
    score: float
    """Under the model's own similarity, larger is nearer."""
    row: int
    """Row of the image in the index; -1 for a caption of no image."""
    image_id: str
    file_name: str
    caption: str
    """The caption that was found; for an image that was found, its first caption, empty where it has none."""


@dataclass(frozen=True, eq=False)
class Index:
    """Embedded images and captions, and the model that embeds questions.

    Made by `open_index` and `index_pictures`.
    """

    model: Model
    folder: Path
    """Folder of the model."""
    source: str
    """Where images and captions are from: name of the corpus, or the folder of pictures."""
    image_embeddings: np.ndarray
    """float32 `(n_images, d)`."""
    image_ids: Sequence[str]
    file_names: Sequence[str]
    caption_embeddings: np.ndarray
    """float32 `(n_captions, d)`; no rows where there are no captions."""
    captions: Sequence[str]
    caption_to_image: np.ndarray
    """`(n_captions,)`, the row of each caption's image; -1 for a caption of no image."""
    pixels: Sequence[Path] | np.ndarray | WholeImages | None
    """The images as files, or the pixels of an image store; `None` where neither is at hand."""
    pixel_rows: np.ndarray
    """`(n_images,)`, where in `pixels` each image is."""

    @property
    def name(self) -> str:
        """Name of the model: the name of its folder if it comes with the package, else the id of its run."""
        shipped = self.folder in shipped_models().values()
        return self.folder.name if shipped else self.model.run.id

    def images_for(self, text: str, k: int = 10) -> list[Hit]:
        """Find the k images nearest to a sentence, best first; images of equal score keep their order.

        Raises
        ------
        VseppError
            If the text is empty or longer than `LONGEST_TEXT`, or `k` is not positive.
        """
        require_sentence(text)
        if not self.image_ids:
            raise VseppError("there are no pictures: give a folder of pictures, or ask with a picture")
        query = self.model.embed_captions([text])
        scores, rows = _best(self.model.scores(self.image_embeddings, query).T, k)
        return self._hits(scores, rows, [self._caption(row) for row in rows])

    def captions_for(self, picture: Picture, k: int = 10) -> list[Hit]:
        """Find the k captions nearest to a picture (a file, a PIL picture or an array), best first.

        Raises
        ------
        VseppError
            If the picture cannot be read, the index has no captions, `k` is not positive, or the model was trained on
            published features.
        """
        if not self.captions:
            raise VseppError("there are no captions: give a file of captions, or ask with a sentence")
        query = self.model.embed_images([picture])
        scores, rows = _best(self.model.scores(query, self.caption_embeddings), k)
        return self._hits(scores, self.caption_to_image[rows], [self.captions[row] for row in rows])

    def images_like(self, row: int, k: int = 10) -> list[Hit]:
        """Find the k images nearest to an image of the index by the cosine of their embeddings, best first, without itself."""
        lengths = np.linalg.norm(self.image_embeddings, axis=1)
        products = self.image_embeddings @ self.image_embeddings[row]
        cosines = products / np.maximum(lengths * lengths[row], np.finfo(np.float32).tiny)
        others = np.delete(np.arange(len(cosines)), row)
        if not len(others):
            return []
        scores, places = _best(cosines[None, others], k)
        rows = others[places]
        return self._hits(scores, rows, [self._caption(row) for row in rows])

    def first_images(self, k: int) -> list[tuple[int, str]]:
        """Row and first caption of the first k images."""
        return [(row, self._caption(row)) for row in range(min(k, len(self.image_ids)))]

    def captions_at(self, row: int) -> list[str]:
        """The captions of an image of the index."""
        return [self.captions[number] for number in np.flatnonzero(self.caption_to_image == row).tolist()]

    def row_of(self, image_id: str) -> int | None:
        """Row of an image; `None` where it is not in this index."""
        ids = list(self.image_ids)
        return ids.index(image_id) if image_id in ids else None

    def _caption(self, row: int) -> str:
        return next(iter(self.captions_at(row)), "")

    def _hits(self, scores: np.ndarray, rows: np.ndarray, captions: Sequence[str]) -> list[Hit]:
        """Answers, best first, with the image and the caption of each."""
        return [
            Hit(place, score, row, *self._image(row), caption)
            for place, (score, row, caption) in enumerate(
                zip(scores.tolist(), rows.tolist(), captions, strict=True), start=1
            )
        ]

    def _image(self, row: int) -> tuple[str, str]:
        """Id and file name; empty for none."""
        if row < 0:
            return "", ""
        return self.image_ids[row], self.file_names[row]

    def unknown_words(self, text: str) -> list[str]:
        """Words of a text that the model does not know: it takes each for the same unknown word."""
        vocabulary = self.model.vocabulary
        return [word for word in dict.fromkeys(vocabulary.split(text)) if word not in vocabulary.index]

    def picture(self, row: int, shortest: int | None = None) -> Image.Image | None:
        """An image of the index, shrunk as by `read_picture`; `None` where its pixels are not here."""
        if self.pixels is None:
            return None
        pixels, name = self.pixels[self.pixel_rows[row]], self.file_names[row]
        return read_picture(pixels, name, upright=True, shortest=shortest).rgb


def require_sentence(text: str) -> None:
    """Refuse a sentence that cannot be looked for; VseppError if it is empty or longer than `LONGEST_TEXT`."""
    if not text.strip():
        raise VseppError("expected a sentence to look for, got an empty text")
    if len(text) > LONGEST_TEXT:
        raise VseppError(f"the sentence has {len(text):,} characters; expected at most {LONGEST_TEXT:,}")


def _best(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest scores of one question, `(k,)`, and their columns; scores are `(1, n)`."""
    if k < 1:
        raise VseppError(f"expected at least 1 answer, got {k}")
    best, columns = best_of_blocks([scores], k)
    return best[0], columns[0]


def open_index(folder: str | os.PathLike[str], *, device: str = "cpu") -> Index:
    """Load a run of the workflow with its kept test embeddings, captions and images.

    The sources of the answers are verified: the model, the embeddings, and the tables of the corpus. The image store, which
    is only looked at, is recognised by its manifest.

    Parameters
    ----------
    folder
        A trained run of the workflow, such as `results/mini/paper/runs/coco-vse0-1c/seed-0`.
    device
        As for `vsepp.load`.

    Raises
    ------
    VseppError
        As `vsepp.load`; if its test embeddings or the corpus are not at hand, or one of them was changed.
    """
    from vsepp.data.tables import read_tables, split_rows

    folder = model_folder(folder)
    model = load(folder, device=device)
    if not (folder / EMBEDDINGS).is_file():
        raise VseppError(
            f"{folder}: there are no test images and captions of this model; give a folder of pictures, or for a picture a file of "
            "captions"
        )
    manifest = require_intact(folder, EMBEDDINGS)
    corpus = beside_with(folder, "corpora/*", manifest["inputs"].get("corpus"))
    if corpus is None:
        from vsepp.apps.own_pictures import command_of  # it needs the packages of the workflow

        again = command_of(folder) or "make it again, or get it"
        raise VseppError(
            f"{folder}: the corpus that it was made from is not below results/<preset>/corpora: {again}"
        )
    tested = TestSet.read(folder / EMBEDDINGS, of_corpus=True)
    assert isinstance(tested.scores, EmbeddingScores)
    images, captions = read_tables(corpus)
    rows = split_rows(images, captions, "test")
    store = _store_of(model.run, folder, manifest)
    return Index(
        model,
        folder,
        str(read_manifest(corpus)["spec"].get("name", corpus.name)),
        tested.scores.images,
        images["image_id"][rows.images].tolist(),
        images["file_name"][rows.images].tolist(),
        tested.scores.captions,
        captions["text"][rows.captions].tolist(),
        tested.caption_to_image,
        None if store is None else open_store(store),
        rows.images,
    )


def index_pictures(
    model: str | os.PathLike[str],
    pictures: str | os.PathLike[str] | None = None,
    captions: str | os.PathLike[str] | None = None,
    *,
    device: str = "cpu",
    keep: bool = False,
) -> Index:
    """Load a model and embed pictures, to be found by sentences, and captions, to be found by a picture.

    Parameters
    ----------
    model
        As for `vsepp.load`.
    pictures
        Folder of pictures, also below it. A picture that cannot be read is left out and named in the log, as by `readable`.
    captions
        Text file with a caption a line.
    device
        As for `vsepp.load`.
    keep
        Whether embeddings of pictures are kept in the user's cache, and taken from there.

    Raises
    ------
    VseppError
        As `vsepp.load`, `readable` and `Model.embed_captions`; if there are neither pictures nor captions, or the model was trained
        on published features.
    """
    container = (
        None if pictures is None else Container(require_folder(Path(pictures), "a folder of pictures"))
    )
    names = [] if container is None else pictures_in(container)
    texts = [] if captions is None else captions_of(Path(captions))
    loaded = load(model, device=device)
    embeddings = np.empty((0, loaded.dim), np.float32)
    if container is not None:
        kept = KeptVectors(model_folder(model), loaded.dim) if keep else None
        names, embeddings = _embedded(loaded, container, names, kept)
    shown_names = [shown(name) for name in names]
    sources = ", ".join(str(source) for source in (pictures, captions) if source is not None)
    return Index(
        loaded,
        model_folder(model),
        sources,
        embeddings,
        shown_names,
        shown_names,
        loaded.embed_captions(texts) if texts else np.empty((0, loaded.dim), np.float32),
        texts,
        np.full(len(texts), -1),
        [Path(pictures or "", name) for name in names],
        np.arange(len(names)),
    )


def _embedded(
    model: Model, container: Container, names: Sequence[str], kept: KeptVectors | None
) -> tuple[list[str], np.ndarray]:
    """Names of the pictures that can be read, and their embeddings, `(n, d)`."""
    known = {} if kept is None else dict(kept.known)
    store = model.run.eval_store

    def stored(name: str) -> tuple[str, np.ndarray | None]:
        data, where = container.read(name), container.where(name)
        digest = hashlib.sha256(data).hexdigest()
        if digest in known:
            return digest, None
        return digest, resized(read_picture(data, where, upright=True).rgb, store, where)

    digests: dict[str, str] = {}  # of the pictures, by name
    embeddings: dict[str, np.ndarray] = {}  # of the pictures that are not known, by digest
    pictures = readable(names, stored)
    try:
        with track_amount(len(names), "embedding", "image") as advance:
            while part := list(islice(pictures, _AT_ONCE)):
                digests |= {name: digest for name, (digest, _) in part}
                pixels = {digest: pixels for _, (digest, pixels) in part if pixels is not None}
                if pixels:
                    embeddings |= zip(pixels, np.asarray(model.embed_images(pixels.values())), strict=True)
                advance(len(part))
    finally:  # also after Ctrl-C
        if kept is not None:
            kept.add(embeddings)
    if kept is not None and (reused := sum(digest in known for digest in digests.values())):
        log.info("%s of these embeddings were kept, in %s", f"{reused:,}", kept.file)
    all_embeddings = {**known, **embeddings}
    return list(digests), np.stack([all_embeddings[digest] for digest in digests.values()])


def captions_of(file: Path) -> list[str]:
    """The captions of a text file with a caption a line; VseppError if there are none, or one is too long."""
    lines = [line.strip() for line in text_of(file, "a text file with a caption a line").splitlines()]
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_TEXT:
            raise VseppError(f"{file}, line {number}: {len(line):,} characters; at most {LONGEST_TEXT:,}")
    if not any(lines):
        raise VseppError(f"{file}: expected a caption a line, found none")
    return [line for line in lines if line]


def _store_of(run: RunSpec, folder: Path, manifest: Mapping[str, Any]) -> Path | None:
    """The image store that a run, of this manifest, was made from; `None` where it is not kept.

    Not the store of an equal corpus: two sets of pictures may have the same names and captions.
    """
    resizing = value_digest(to_dict(run.eval_store))
    wanted = {
        ancestor["digest"]
        for ancestor in ancestors_of(manifest)
        if ancestor["step"] == "store" and ancestor["spec_digest"] == resizing
    }
    stores = (place for place in beside(folder, "stores/*") if manifest_if_intact(place))
    return next((place for place in stores if artefact_digest(place) in wanted), None)
