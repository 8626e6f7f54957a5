"""A test set as one model sees it: scores, and which caption is of which image."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.base.files import reading, require_file, write_arrays
from vsepp.base.signatures import HEAD, TORCH, kind_of
from vsepp.data.arrays import read_npz
from vsepp.evaluation.best import BestLists
from vsepp.evaluation.embedding_scores import EmbeddingScores
from vsepp.evaluation.meaning import check_meaning
from vsepp.evaluation.scores import ScoreMatrix, Scores, counted_from_one

_KINDS: tuple[type[Scores], ...] = (EmbeddingScores, ScoreMatrix, BestLists)
_IDS = ("image_ids", "caption_ids")
_EXPECTED = (
    "an .npz of embeddings, scores or lists, as docs/comparing.md says: "
    "numpy.savez(FILE, image_embeddings=…, caption_embeddings=…, caption_to_image=…)"
)


@dataclass(frozen=True, eq=False)
class TestSet:
    """What is ranked. Checked on creation, shapes and meaning: a `VseppError` names the wrong array and row."""

    __test__ = False  # no test of pytest

    scores: Scores
    """Of all images, whose order defines the folds, and all captions."""
    caption_to_image: np.ndarray
    """`(n_captions,)` int64: the row of each caption's image. Each image has at least one."""
    image_ids: np.ndarray | None = None
    """`(n_images,)` int64 or text, each once, by which truths know the images; `None`: not known."""
    caption_ids: np.ndarray | None = None
    """`(n_captions,)`, likewise."""
    of_corpus: bool = False
    """Whether a run embedded it from a corpus, which may hold copies of a picture: equal rows are no mistake then."""

    def __post_init__(self) -> None:
        n_images, n_captions = self.scores.shape
        # What was checked takes the place of what was given, although the class is frozen.
        vars(self).update(
            caption_to_image=checked_captions(self.caption_to_image, n_captions, n_images),
            image_ids=checked_ids(self.image_ids, n_images, "image_ids"),
            caption_ids=checked_ids(self.caption_ids, n_captions, "caption_ids"),
        )
        if not self.of_corpus:
            check_meaning(self.scores, self.caption_to_image)

    @classmethod
    def read(cls, path: Path, *, of_corpus: bool = False) -> TestSet:
        """A test set as anyone's model embeds or scores it.

        Parameters
        ----------
        path
            An `.npz` of `image_embeddings` `(n_images, d)`, `caption_embeddings` `(n_captions, d)` and, if it is not `dot`, their
            `similarity`, a string, with `similarity_options`, a string with a JSON object; of `scores` `(n_images, n_captions)`; or of
            the best items of each query, `i2t_items`, `i2t_scores`, `t2i_items`, `t2i_scores` `(n_queries, k)`, rows of the gallery, -1
            where a list is shorter. Each with `caption_to_image` and, if known, `image_ids` and `caption_ids`.
        of_corpus
            See the attribute.

        Raises
        ------
        VseppError
            Naming the file and what in it is missing, wrong, unknown or there twice. No pickled object is read, and an
            array is only made after its header is found to fit its bytes.
        """
        path = Path(path)
        known = (
            *(name for kind in _KINDS for name in (*kind.ARRAYS, *kind.OPTIONAL)),
            "caption_to_image",
            *_IDS,
        )
        require_file(path, _EXPECTED)
        with path.open("rb") as stream:
            if kind_of(stream.read(HEAD)) == TORCH:  # a zip archive too
                raise VseppError(f"{path}: is {TORCH}; expected {_EXPECTED}")
        arrays = read_npz(path, known, _EXPECTED)
        kind = next((kind for kind in _KINDS if not arrays.keys().isdisjoint(kind.ARRAYS)), EmbeddingScores)
        wanted = {*kind.ARRAYS, "caption_to_image"}
        if not wanted <= arrays.keys() <= {*wanted, *kind.OPTIONAL, *_IDS}:
            raise VseppError(
                f"{path}: expected {', '.join(sorted(wanted))}, and ids if known; the file has "
                f"{', '.join(sorted(arrays)) or 'none'}"
            )
        with reading(path, _EXPECTED):
            image_ids, caption_ids = map(arrays.get, _IDS)
            scores = kind.from_arrays(arrays)
            return cls(scores, arrays["caption_to_image"], image_ids, caption_ids, of_corpus=of_corpus)

    def save(self, path: Path) -> None:
        """Write an `.npz` that `read` reads; equal test sets give equal bytes."""
        options = self.scores.arrays
        arrays = {name: options.pop(name) for name in self.scores.ARRAYS}
        arrays["caption_to_image"] = self.caption_to_image
        arrays |= {name: ids for name in _IDS if (ids := getattr(self, name)) is not None}
        write_arrays(path, compressed=False, **arrays, **options)


def checked_captions(caption_to_image: np.ndarray, n_captions: int, n_images: int) -> np.ndarray:
    """The image row of each caption as int64, every row in range and every image with a caption."""
    owner = np.asarray(caption_to_image)
    if owner.shape == (n_images,) and n_images > n_captions:
        raise VseppError(
            f"caption_to_image: has {n_images} rows, one for each of {n_images} images, and there are {n_captions} captions: images and "
            "captions are exchanged; scores are (images, captions): give their transpose"
        )
    if owner.dtype.kind == "f" and np.isfinite(owner).all() and (owner == np.trunc(owner)).all():
        owner = owner.astype(np.int64)
    if owner.shape != (n_captions,) or owner.dtype.kind not in "iu":
        raise VseppError(
            f"caption_to_image: expected {n_captions} integers, one per caption, got shape {owner.shape} "
            f"of {owner.dtype}"
        )
    outside = np.flatnonzero((owner < 0) | (owner >= n_images))
    if outside.size:
        row = outside[0]
        raise VseppError(
            f"caption_to_image: row {row} is {owner[row]}, expected an image row from 0 to {n_images - 1} "
            f"({outside.size} rows are outside){counted_from_one(owner, n_images)}"
        )
    owner = owner.astype(np.int64)
    missing = np.flatnonzero(np.bincount(owner, minlength=n_images) == 0)
    if missing.size:
        raise VseppError(
            f"image row {missing[0]} has no caption in caption_to_image ({missing.size} of {n_images} images "
            "have none): expected at least one each, since caption retrieval has no correct answer otherwise; "
            "leave such images out"
        )
    return owner


def checked_ids(ids: np.ndarray | None, count: int, what: str) -> np.ndarray | None:
    """Ids of `count` images or captions, int64 or text, each once; `None` stays `None`. `what` names them in errors."""
    if ids is None:
        return None
    ids = np.asarray(ids)
    if ids.shape != (count,) or ids.dtype.kind not in "iufU":
        raise VseppError(f"{what}: expected {count} whole numbers or texts, got {ids.dtype} {ids.shape}")
    if ids.dtype.kind == "U":
        wrong = np.array([not text.isprintable() or not text.strip() for text in ids.tolist()])
        expected = "a text that is not empty, without control characters"
    elif ids.dtype.kind == "f":
        wrong, expected = ~((np.abs(ids) < 2**53) & (ids == np.trunc(ids))), "a whole number below 2^53"
    else:
        wrong, expected = ids > np.iinfo(np.int64).max, "a whole number below 2^63"
    if np.any(wrong):
        row = int(np.argmax(wrong))
        raise VseppError(f"{what}: row {row} is {ids[row : row + 1].tolist()[0]!r}; expected {expected}")
    ids = ids if ids.dtype.kind == "U" else ids.astype(np.int64)
    known, first, times = np.unique(ids, return_index=True, return_counts=True)
    if len(known) < count:
        row = first[times > 1].min()
        raise VseppError(
            f"{what}: {ids[row]} stands at row {row} and again ({(times > 1).sum()} ids are there more than once); "
            "expected each once"
        )
    return ids
