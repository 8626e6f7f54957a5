"""What a model ranks first for test images and captions, with small pictures of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from vsepp.base.files import read_json, reading
from vsepp.base.manifest import require_intact
from vsepp.base.publish import EMBEDDINGS
from vsepp.data.arrays import read_npz
from vsepp.evaluation.embedding_scores import EmbeddingScores
from vsepp.evaluation.evaluate import LISTS
from vsepp.evaluation.test_set import TestSet
from vsepp.models.similarity.common import Similarity
from vsepp.report.models import MeasuredModel
from vsepp.report.text import DIRECTIONS


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

    def jpeg(self, row: int) -> bytes:
        """The picture of an image, a JPEG file's bytes; no bytes where photographs may not be shown."""
        return self._jpegs[self._offsets[row] : self._offsets[row + 1]]

    @cached_property
    def texts(self) -> list[str]:
        """All captions, in the order of embeddings and ranks."""
        return [text for _, text in sorted(pair for image in self.images for pair in image["captions"])]


@dataclass(frozen=True)
class Item:
    """An image or a caption of an answer."""

    words: str
    """A caption, or the id of an image."""
    is_image: bool
    jpeg: bytes = b""
    """An image's picture; no bytes where photographs may not be shown."""
    right: bool = False
    """Whether it is correct for what was asked."""

    @property
    def mark(self) -> str:
        """What pages call it where it is right."""
        return "right" * self.right


@dataclass(frozen=True)
class Answer:
    """What a model ranks first for one query."""

    query: Item
    answers: tuple[Item, ...]
    rank: float
    """Of the best correct item, from 1."""

    @property
    def has_pictures(self) -> bool:
        """Whether pictures were found."""
        return any(item.jpeg for item in self.answers)


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model, whose embeddings are here, ranks first under a protocol or a truth."""

    model: MeasuredModel
    protocol: str

    @cached_property
    def pictures(self) -> Pictures:
        """Pictures of all test images."""
        return Pictures(Path(self.model.pictures))

    @cached_property
    def tested(self) -> TestSet:
        """The test set as it was evaluated.

        Raises
        ------
        VseppError
            If the file was changed.
        """
        ensemble = self.model.evaluated.get("spec", {}).get("ensemble")
        folder = Path(self.model.evaluation if ensemble else self.model.run)
        require_intact(folder, EMBEDDINGS)
        return TestSet.read(folder / EMBEDDINGS, of_corpus=True)

    @cached_property
    def lists(self) -> dict[str, np.ndarray]:
        """The arrays of `best.npz`, where a matcher re-ranked; errors as in `tested`."""
        if not self.model.tested(self.protocol).get("reranked"):
            return {}
        folder = Path(self.model.evaluation)
        require_intact(folder, LISTS)
        return read_npz(folder / LISTS, None, "lists of the best; delete the folder and make it again")

    @property
    def are_known(self) -> bool:
        """Whether files tell them: lists of what a matcher ranked again are not kept under a truth."""
        has_matcher = self.model.evaluated.get("spec", {}).get("run", {}).get("model", {}).get("matcher")
        return not (has_matcher and self.is_truth)

    @property
    def is_truth(self) -> bool:
        """Whether people judged what is correct; else images' own captions are."""
        return "truth" in self.model.tested(self.protocol)

    @cached_property
    def queries(self) -> dict[str, np.ndarray]:
        """Direction → rows of the images or captions that were queries, `(n_queries,)` in the order of their ranks; -1 where it is not
        known.

        A truth keeps the image of each query: which caption asked is known where all captions of the image did.
        """
        return {direction: self._rows_of(direction) for direction in DIRECTIONS}

    def _rows_of(self, direction: str) -> np.ndarray:
        if not self.is_truth:
            rows = self.model.arrays[f"{self.protocol}_caption_rows"]
            return rows if direction == "t2i" else np.arange(self.model.tested(self.protocol)["n_images"])
        # Truths have images and captions in the order of their ids.
        by_id = np.argsort(_known(self.tested.image_ids))
        images = by_id[self.model.arrays[f"{self.protocol}_{direction}_images"]]
        if direction == "i2t":
            return images
        rows = np.full(len(images), -1)
        captions = np.argsort(_known(self.tested.caption_ids))
        owner = self.tested.caption_to_image[captions]
        for image in np.unique(images):
            queries, own = np.flatnonzero(images == image), captions[owner == image]
            if len(queries) == len(own):
                rows[queries] = own
        return rows

    def answer(self, direction: str, place: int, count: int) -> Answer:
        """What the model ranks first.

        Parameters
        ----------
        direction
            `i2t`: an image seeks captions; `t2i`: a caption seeks images.
        place
            Which of `queries`.
        count
            How many items of the answer.
        """
        query, is_image = int(self.queries[direction][place]), direction == "i2t"
        ranks = self.model.ranks(self.protocol)[direction]
        best = self.ranked(direction, query)[:count]
        if self.is_truth:  # what is right is known by its place
            right = np.isin(np.arange(count), ranks.places[ranks.starts[place] : ranks.starts[place + 1]])
        else:
            owner = self.tested.caption_to_image
            right = owner[best] == query if is_image else best == owner[query]
        answers = zip(best.tolist(), right.tolist(), strict=False)  # a gallery may be smaller than the answer
        items = tuple(self._item(row, not is_image, is_right) for row, is_right in answers)
        return Answer(self._item(query, is_image), items, 1 + float(ranks.best[place]))

    def own_caption(self, place: int) -> str:
        """The first caption of an image that was a query of caption retrieval."""
        return str(self.pictures.images[self.queries["i2t"][place]]["captions"][0][1])

    def _item(self, row: int, is_image: bool, right: bool = False) -> Item:
        if is_image:
            return Item(str(self.pictures.images[row]["id"]), True, self.pictures.jpeg(row), right)
        return Item(self.pictures.texts[row], False, right=right)

    def ranked(self, direction: str, query: int) -> np.ndarray:
        """Rows of the captions or images that a query finds in its fold, the most similar first; equal ones in their order.

        `query` is the row of the image or caption. Where a matcher re-ranked, the items of its list stand first.
        """
        by_embeddings = self._similar(direction, query)
        if not self.lists:
            return by_embeddings
        row = query
        if direction == "t2i":  # its row among the captions that were ranked
            row = int(np.searchsorted(self.model.arrays[f"{self.protocol}_caption_rows"], query))
        items, scores = (
            self.lists[f"{self.protocol}_{direction}_{part}"][row] for part in ("items", "scores")
        )
        rest = by_embeddings[~np.isin(by_embeddings, items)]
        return np.concatenate([items[np.argsort(-scores, kind="stable")], rest])

    def _similar(self, direction: str, query: int) -> np.ndarray:
        """Rows by the embeddings alone; as `ranked`."""
        embeddings, size = self.tested.scores, self.model.tested(self.protocol)["fold_size"]
        assert isinstance(embeddings, EmbeddingScores)
        owner = self.tested.caption_to_image
        fold = (query if direction == "i2t" else owner[query]) // size
        if direction == "i2t":
            rows = np.flatnonzero(owner // size == fold)
            images, captions = np.array([query]), rows
        else:
            rows = np.arange(fold * size, (fold + 1) * size)
            images, captions = rows, np.array([query])
        score = Similarity(embeddings.similarity).matrix
        scores = score(embeddings.images[images], embeddings.captions[captions])
        return rows[np.argsort(-scores.ravel(), kind="stable")]


def _known(ids: np.ndarray | None) -> np.ndarray:
    assert ids is not None, "a truth knows images and captions by ids"
    return ids
