"""What can be ranked: embeddings with a similarity, a matrix of scores, and the best items of each query, as a matcher gives them.

Scores are `scores[image, caption]`, always that way round, and larger is better. They are computed and counted block by block, with NumPy
on a CPU's threads or with torch on a device, so that no `(n_images, n_captions)` array is ever in memory. Nothing is sorted: a rank is a
count.

Ties must be exact: equal pairs of vectors need bitwise equal scores wherever they lie. Sums of floating-point numbers do not
ensure this: the kernels of a matrix product sum in an order that depends on an element's position in the matrix, so that rounding
errors would decide the ranks of a collapsed model.

Inner products are therefore made exact. Embeddings are rounded to a grid fine enough that scores are closer to the true scores
than float32 sums are, and coarse enough that float64 holds every sum without rounding. So ranks are the same on every machine.

Other similarities sum over the dimensions in an order that can depend on the number of pairs scored at once and, on a GPU, on the
pair's position in memory. So they are always called with the same number of pairs, as two whole arrays, for correct and wrong pairs
alike.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.files import json_of, shortly
from vsepp.base.spec import Component
from vsepp.models.similarity import namespace

DOT = Component("dot")
Rows = slice | np.ndarray
"""Some images or captions."""

# Scores of a matrix that are counted at once: they stay in the cache.
_AT_ONCE = 1 << 20
# Images × captions of a block of inner products on a CPU: large enough for a matrix product to run at full speed.
_TILE = (1024, 512)
# Elements of the largest temporaries of other similarities. On a CPU they fit a core's cache; with fewer, time is lost passing the
# interpreter's lock between threads. On a device, for all similarities: 128 MB of float64 keep a GPU busy.
_ON_CPU, _ON_DEVICE = 1 << 17, 1 << 24

# Bits of an embedding's norm on its grid. A sum of products stays below 2^(2·26+1) by Cauchy-Schwarz, in any
# order of summation, so float64's 53 bits hold it exactly. One score is off by about 2^-27 of the norms.
_GRID_BITS = 26


class Pairs(NamedTuple):
    """Queries and their positives, with the scores to count above, `(n,)` each."""

    images: np.ndarray
    captions: np.ndarray
    scores: np.ndarray


class Scores(ABC):
    """`scores[image, caption]`, larger is better, of all ranked images and captions."""

    ARRAYS: ClassVar[tuple[str, ...]]
    """Names of its arrays in a file."""
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    """Names of arrays that a file may lack."""
    shape: tuple[int, int]
    """Number of images, and of captions."""

    @property
    def depths(self) -> dict[str, int]:
        """Direction → how many of each query's best items are known; of directions where all items are scored, nothing."""
        return {}

    @classmethod
    @abstractmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Scores:
        """From the arrays of a file."""

    @property
    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """As a file has them."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What the scores are: `dot`, `matrix of scores`."""

    @abstractmethod
    def part(self, images: Rows, captions: Rows) -> Scores:
        """Scores of some images and captions.

        Raises
        ------
        VseppError
            If the scores of a part are not known.
        """

    def among(self, task: str) -> Scores | None:
        """Scores of captions (`t2t`) or images (`i2i`) with each other; `None` where they are not known."""
        return None

    @abstractmethod
    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Score of each image with a caption, rows `(n,)` both, ordered by the query; `direction` (`i2t`, `t2i`) says which side asks."""

    @abstractmethod
    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Number of wrong items above each pair's score, and of those not below it: int64 `(2, n)` of both directions.

        Items are captions for the pairs of `i2t`, which are ordered by image, and images for the pairs of `t2i`, ordered by
        caption. Items paired with a query are not wrong items of it.
        """


class Blocks(Scores):
    """Scores that are computed and counted block by block."""

    block_shape: tuple[int, int]
    """Number of images and of captions in a block."""
    device: Any = None
    """A torch device; `None`: blocks are NumPy arrays, made and counted on all threads."""

    @abstractmethod
    def block(self, images: slice, captions: slice) -> Any:
        """`scores[image, caption]` of a range of both: an array of its own, since it is written to."""

    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Counts, see `Scores.above`."""
        return self._counted(i2t, t2i, self._blocks())

    def _blocks(self) -> list[tuple[slice, slice]]:
        return [
            (images, captions)
            for captions in ranges(self.shape[1], self.block_shape[1])
            for images in ranges(self.shape[0], self.block_shape[0])
        ]

    def _counted(
        self, i2t: Pairs, t2i: Pairs, blocks: list[tuple[slice, slice]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Counts within some blocks."""

        def count(block: tuple[slice, slice, slice, slice]) -> tuple[np.ndarray, np.ndarray]:
            images, captions, asking_images, asking_captions = block
            scores = self.block(images, captions)
            rows, columns, right = (values[asking_images] for values in i2t)
            of_images = counts_above(scores, rows - images.start, columns - captions.start, right)
            rows, columns, right = (values[asking_captions] for values in t2i)
            of_captions = counts_above(scores.T, columns - captions.start, rows - images.start, right)
            return of_images, of_captions

        asked = [
            (images, captions, between(i2t.images, images), between(t2i.captions, captions))
            for images, captions in blocks
        ]
        totals = np.zeros((2, len(i2t.scores)), np.int64), np.zeros((2, len(t2i.scores)), np.int64)
        with ThreadPoolExecutor(usable_threads()) as pool:
            counted = pool.map(count, asked) if self.device is None else map(count, asked)
            for block, counts in zip(asked, counted, strict=True):
                for total, part, more in zip(totals, block[2:], counts, strict=True):
                    total[:, part] += more
        return totals


class EmbeddingScores(Blocks):
    """Embeddings in the joint space, scored by their similarity.

    Under another similarity than an inner product a device, or another kernel of NumPy's BLAS, may differ in the last digit, and wrong
    items closer than that to the correct item may change sides.

    Parameters
    ----------
    images, captions
        Embeddings `(n_images, d)` and `(n_captions, d)`, arrays or mapped files; other floating-point types are converted to float32.
    similarity
        A module of `vsepp.models.similarity`, with its options.
    device
        A torch device with float64, and memory for the embeddings and a few times 128 MB; `None` for NumPy.

    Raises
    ------
    VseppError
        Naming the array and the row that is wrong, or the option.
    """

    ARRAYS = ("image_embeddings", "caption_embeddings")
    OPTIONAL = ("similarity", "similarity_options")

    def __init__(
        self, images: np.ndarray, captions: np.ndarray, similarity: Component = DOT, device: Any = None
    ) -> None:
        self.images = _checked_rows(images, "image_embeddings")
        """`(n_images, d)` float32."""
        self.captions = _checked_rows(captions, "caption_embeddings")
        """`(n_captions, d)` float32."""
        self.similarity = _checked_similarity(similarity)
        """The similarity, with its options that differ from their defaults."""
        (n_images, dims), n_captions = self.images.shape, len(self.captions)
        if dims != self.captions.shape[1]:
            raise VseppError(
                f"image_embeddings have {dims} dimensions, caption_embeddings {self.captions.shape[1]}: "
                "expected one joint space; take both from one model"
            )
        self.shape, self.device = (n_images, n_captions), device
        module = components.load("similarity", similarity.name)
        self.is_product = getattr(module, "INNER_PRODUCT", False)
        self._score = partial(module.score, options=components.options("similarity", similarity))
        self._xp = np if device is None else namespace(device)
        # On a CPU a block rounds its own vectors: all of them in float64 would take twice the memory of the embeddings.
        self._rounds_blocks = self.is_product and device is None
        vectors = self.images, self.captions
        if self.is_product and device is not None:
            vectors = on_grid(self.images), on_grid(self.captions)
        self._images, self._captions = map(self._put, vectors)
        # A GPU loads four numbers of a row at once, aligned in memory: only every fourth row is summed alike.
        self._spread = 4 if device and dims % 4 and not self.is_product else 1
        if device is not None:
            height, width = n_images, _ON_DEVICE // max(n_images, self._spread * dims)
        else:
            height, width = _TILE if self.is_product else (_TILE[0], _ON_CPU // dims)
        self.block_shape = height, max(1, min(width, n_captions))

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> EmbeddingScores:
        """From the arrays of a file."""
        options = json_of(_text(arrays, "similarity_options", "{}"), "similarity_options")
        if not isinstance(options, dict):
            raise VseppError(f"similarity_options: expected a JSON object of options, got {shortly(options)}")
        images, captions = (arrays[name] for name in cls.ARRAYS)
        return cls(images, captions, Component(_text(arrays, "similarity", "dot"), options))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """As a file has them."""
        arrays = {"image_embeddings": self.images, "caption_embeddings": self.captions}
        arrays["similarity"] = np.array(self.similarity.name)
        if self.similarity.options:
            arrays["similarity_options"] = np.array(json.dumps(self.similarity.options, sort_keys=True))
        return arrays

    @property
    def words(self) -> str:
        """Name of the similarity."""
        return self.similarity.name

    def on(self, device: Any) -> EmbeddingScores:
        """The same scores, computed on a device."""
        return EmbeddingScores(self.images, self.captions, self.similarity, device)

    def part(self, images: Rows, captions: Rows) -> EmbeddingScores:
        """Scores of some images and captions."""
        return EmbeddingScores(self.images[images], self.captions[captions], self.similarity, self.device)

    def among(self, task: str) -> _Among | None:
        """Scores of captions (`t2t`) or images (`i2i`) with each other, where the similarity is an inner product."""
        if not self.is_product:
            return None
        return _Among({"t2t": self.captions, "i2i": self.images}[task])

    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Scores of pairs, see `Scores.of`."""
        found = []
        for part in ranges(len(images), self.block_shape[1]):
            rows, columns = self._call(self._images, images[part]), self._call(self._captions, captions[part])
            scores = self._score(rows, columns)[:: self._spread][: part.stop - part.start]
            found.append(scores if self.device is None else scores.cpu().numpy())
        return np.concatenate(found)

    def block(self, images: slice, captions: slice) -> Any:
        """Scores of a range of images and a range of captions."""
        if self.is_product:
            return self._exact(self._images[images]) @ self._exact(self._captions[captions]).T
        columns = self._call(self._captions, np.arange(captions.start, captions.stop))
        whole, number = (len(columns), 1), captions.stop - captions.start
        rows = [self._score(self._xp.tile(image, whole), columns) for image in self._images[images]]
        scores = self._xp.stack([row[:: self._spread][:number] for row in rows])
        if self._xp.isnan(scores).any():
            raise VseppError(
                "the similarity of some image and caption is NaN, which has no rank; expected a number for any finite "
                "embeddings: correct the similarity"
            )
        return scores

    def _call(self, vectors: Any, rows: np.ndarray) -> Any:
        """The vectors of one call: as many as a block has captions, the last vector repeated if there are fewer, each `_spread` times."""
        places = np.minimum(np.arange(self.block_shape[1]), len(rows) - 1)
        return self._exact(vectors[self._put(rows[places.repeat(self._spread)])])

    def _exact(self, vectors: Any) -> Any:
        """Some vectors as they are scored."""
        return on_grid(vectors) if self._rounds_blocks else vectors

    def _put(self, array: np.ndarray) -> Any:
        return self._xp.asarray(array, device=self.device)


class _Among(EmbeddingScores):
    """Inner products of vectors with each other: a block below the diagonal is a block above it, turned."""

    def __init__(self, vectors: np.ndarray) -> None:
        super().__init__(vectors, vectors)
        self.block_shape = max(self.block_shape), max(self.block_shape)

    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Counts, see `Scores.above`; `t2i` asks nothing that `i2t` could not."""
        turned = Pairs(i2t.captions, i2t.images, i2t.scores)
        nothing = Pairs(*(values[:0] for values in i2t))
        below = [(rows, columns) for rows, columns in self._blocks() if rows.start < columns.start]
        diagonal = [(rows, columns) for rows, columns in self._blocks() if rows.start == columns.start]
        totals = [*self._counted(i2t, turned, below), self._counted(i2t, nothing, diagonal)[0]]
        return np.sum(totals, axis=0), np.zeros((2, 0), np.int64)


class ScoreMatrix(Blocks):
    """A matrix of scores.

    Parameters
    ----------
    scores
        `(n_images, n_captions)` floating-point, an array or a mapped file; no NaN.

    Raises
    ------
    VseppError
        On another shape or dtype, and on NaN.
    """

    ARRAYS = ("scores",)

    def __init__(self, scores: np.ndarray) -> None:
        scores = np.asarray(scores)
        if scores.ndim != 2 or 0 in scores.shape or scores.dtype.kind != "f":
            raise VseppError(
                f"scores: expected floating-point numbers (images, captions), got shape {scores.shape} of {scores.dtype}"
                + _converted(scores, "scores")
            )
        if (unknown := np.isnan(scores.max(axis=1))).any():
            raise VseppError(f"scores: image row {np.argmax(unknown)} holds NaN, which has no rank")
        self.scores, self.shape = scores, scores.shape
        self.block_shape = max(1, _AT_ONCE // self.shape[1]), self.shape[1]

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> ScoreMatrix:
        """From the arrays of a file."""
        return cls(arrays["scores"])

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """As a file has them."""
        return {"scores": self.scores}

    @property
    def words(self) -> str:
        """The same of all."""
        return "matrix of scores"

    def part(self, images: Rows, captions: Rows) -> ScoreMatrix:
        """A part of the matrix."""
        return ScoreMatrix(self.scores[images][:, captions])

    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Scores of pairs, see `Scores.of`."""
        return np.asarray(self.scores[images, captions])

    def block(self, images: slice, captions: slice) -> np.ndarray:
        """A copy of a part of the matrix."""
        return np.array(self.scores[images, captions])


class BestLists(Scores):
    """The best items of each query with their scores. Items that are not listed are tied with each other below them.

    Parameters
    ----------
    i2t, t2i
        Captions for each image, and images for each caption: rows `(n_queries, k)`, and their scores; k may differ. A shorter list ends
        in items -1; their scores are not read.

    Raises
    ------
    VseppError
        On shapes that do not fit, an item outside the gallery or twice in a list, and scores that are not finite.
    """

    ARRAYS = ("i2t_items", "i2t_scores", "t2i_items", "t2i_scores")

    def __init__(self, i2t: tuple[np.ndarray, np.ndarray], t2i: tuple[np.ndarray, np.ndarray]) -> None:
        self.lists = {"i2t": i2t, "t2i": t2i}
        for direction, (items, scores) in self.lists.items():
            if items.ndim != 2 or items.shape != scores.shape or items.dtype.kind not in "iu":
                raise VseppError(
                    f"{direction}: expected rows of items and their scores (queries, k), got {items.dtype} {items.shape} and "
                    f"{scores.shape}"
                )
        self.shape = len(i2t[0]), len(t2i[0])
        for (direction, (items, scores)), gallery in zip(self.lists.items(), self.shape[::-1], strict=True):
            if scores.dtype.kind not in "fiu":
                raise VseppError(f"{direction}_scores: expected floating-point numbers, got {scores.dtype}")
            if not 0 < items.shape[1] <= gallery:
                raise VseppError(
                    f"{direction}: expected rows (queries, k) with k from 1 to {gallery}, got {items.shape}"
                )
            if (empty := (items == -1).all(axis=1)).any():
                raise VseppError(
                    f"{direction}_items: the list of query {np.argmax(empty)} is empty ({empty.sum()} lists are); expected at least "
                    "one item: leave out what was not searched"
                )
            ordered = np.sort(items, axis=1)
            wrong = (ordered[:, 0] < -1) | (ordered[:, -1] >= gallery)
            wrong |= ((np.diff(ordered) == 0) & (ordered[:, 1:] >= 0)).any(axis=1)
            wrong |= ~(np.isfinite(scores) | (items == -1)).all(axis=1)
            if wrong.any():
                raise VseppError(
                    f"{direction}: the list of query {np.argmax(wrong)} has an item outside the {gallery} of the gallery, one "
                    f"twice, or a score that is not finite ({wrong.sum()} lists have){counted_from_one(items[items >= 0], gallery)}"
                )

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> BestLists:
        """From the arrays of a file."""
        i2t_items, i2t, t2i_items, t2i = (arrays[name] for name in cls.ARRAYS)
        return cls((i2t_items, i2t), (t2i_items, t2i))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """As a file has them."""
        (i2t_items, i2t), (t2i_items, t2i) = self.lists.values()
        return dict(zip(self.ARRAYS, (i2t_items, i2t, t2i_items, t2i), strict=True))

    @property
    def depths(self) -> dict[str, int]:
        """Length of the shortest list of each direction, where it is shorter than the gallery."""
        shortest = {
            direction: int((items >= 0).sum(axis=1).min()) for direction, (items, _) in self.lists.items()
        }
        galleries = zip(shortest, self.shape[::-1], strict=True)
        return {
            direction: shortest[direction]
            for direction, gallery in galleries
            if shortest[direction] < gallery
        }

    @property
    def words(self) -> str:
        """How long the lists are."""
        depths = [items.shape[1] for items, _ in self.lists.values()]
        short = ", some shorter" if any((items < 0).any() for items, _ in self.lists.values()) else ""
        return f"lists of the {' and '.join(map(str, dict.fromkeys(depths)))} best{short}"

    def part(self, images: Rows, captions: Rows) -> BestLists:
        """All lists: those of a part are not known."""
        if (len(np.arange(self.shape[0])[images]), len(np.arange(self.shape[1])[captions])) != self.shape:
            raise VseppError(
                f"{self.words}: expected protocol 5K, which ranks all images at once; a list of the whole gallery holds few "
                "items of a fold, and recalls from these would be too low; give a matrix of scores or embeddings"
            )
        return self

    def of(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Scores of pairs, see `Scores.of`; minus infinity where the item is not listed."""
        queries, items = (images, captions) if direction == "i2t" else (captions, images)
        tables = self._tables(direction, queries)
        return np.concatenate([table[queries[part] - first, items[part]] for part, first, table in tables])

    def above(self, i2t: Pairs, t2i: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Counts, see `Scores.above`."""
        counts = []
        for direction, queries, items, right in (
            ("i2t", i2t.images, i2t.captions, i2t.scores),
            ("t2i", t2i.captions, t2i.images, t2i.scores),
        ):
            parts = [
                counts_above(table, queries[part] - first, items[part], right[part])
                for part, first, table in self._tables(direction, queries)
            ]
            counts.append(np.concatenate(parts, axis=1))
        return counts[0], counts[1]

    def _tables(self, direction: str, queries: np.ndarray) -> Iterator[tuple[slice, int, np.ndarray]]:
        """Where ascending queries `(n,)` lie within a range, its first query, and its queries' scores of all items."""
        items, scores = self.lists[direction]
        gallery = self.shape[1 if direction == "i2t" else 0]
        for rows in ranges(len(items), max(1, _AT_ONCE // gallery)):
            table = np.full((rows.stop - rows.start, gallery + 1), -np.inf)
            np.put_along_axis(table, items[rows], scores[rows], axis=1)  # -1 is the last column
            yield between(queries, rows), rows.start, table[:, :gallery]


def counts_above(scores: Any, queries: np.ndarray, items: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Number of wrong items above some scores, and of those above or tied.

    Parameters
    ----------
    scores
        `(n, m)`, of all queries with some items, an array or a tensor; changed meanwhile, and restored.
    queries, items, right
        `(q,)`, each query's row, ascending, its positive's column, which may lie outside, and the score to count above.

    Returns
    -------
    np.ndarray
        `(2, q)` int64.
    """
    counts = np.zeros((2, len(queries)), np.int64)
    if not len(queries):
        return counts
    xp = namespace(scores)
    inside = (items >= 0) & (items < scores.shape[1])
    own = queries[inside], items[inside]
    of_own = scores[own]
    scores[own] = np.nan  # so that no comparison counts them
    place = np.arange(len(queries)) - np.searchsorted(queries, queries)
    for asked in (place == number for number in range(place.max() + 1)):  # of each row one score at a time
        rows, wanted = (xp.asarray(values[asked], device=scores.device) for values in (queries, right))
        some = scores if len(rows) == len(scores) else scores[rows]
        of_asked = xp.stack([(some > wanted[:, None]).sum(1), (some >= wanted[:, None]).sum(1)])
        counts[:, asked] = of_asked if xp is np else of_asked.cpu().numpy()
    scores[own] = of_own
    return counts


def on_grid(embeddings: np.ndarray) -> np.ndarray:
    """Embeddings in float64, each row rounded to 2^-26 of its norm's power of two."""
    wide = embeddings.astype(np.float64)
    _, exponent = np.frexp(np.sqrt(np.vecdot(wide, wide)))
    step = np.ldexp(1.0, exponent - _GRID_BITS)[:, None]
    # Scaling by a power of two is exact, there and back.
    wide /= step
    np.rint(wide, out=wide)
    wide *= step
    return wide


def _text(arrays: Mapping[str, np.ndarray], key: str, default: str) -> str:
    found = arrays.get(key, np.array(default))
    if found.shape != () or found.dtype.kind != "U":
        raise VseppError(f"{key}: expected one string, got shape {found.shape} of {found.dtype}")
    return str(found)


def _checked_rows(embeddings: np.ndarray, what: str) -> np.ndarray:
    """Embeddings as a contiguous float32 array `(n, d)`, all finite; `what` names them in errors."""
    embeddings = np.asarray(embeddings)
    if embeddings.ndim != 2 or 0 in embeddings.shape:
        raise VseppError(
            f"{what}: expected shape (rows, dimensions), neither of them 0, got {embeddings.shape}; "
            "encode at least one image and one caption"
        )
    if embeddings.dtype.kind != "f":
        raise VseppError(
            f"{what}: expected floating-point numbers, got dtype {embeddings.dtype}{_converted(embeddings, what)}"
        )
    with np.errstate(over="ignore"):
        embeddings = np.ascontiguousarray(embeddings, dtype=np.float32)
        squares = np.vecdot(embeddings, embeddings)
    # With these bounds on the norms, every score is within float32's range.
    usable = squares < np.finfo(np.float32).max / 4
    if not usable.all():
        row = int(np.argmin(usable))
        found = "NaN" if np.isnan(embeddings[row]).any() else "a value or norm beyond float32"
        raise VseppError(
            f"{what}: row {row} holds {found}: expected finite embeddings; "
            "the training may have diverged, or a norm of zero was divided by"
        )
    return embeddings


def counted_from_one(rows: np.ndarray, count: int) -> str:
    """What makes rows right that count from 1 to `count`, as the end of a message."""
    return "; rows count from 0: subtract 1" if rows.min() == 1 and rows.max() == count else ""


def _converted(array: np.ndarray, what: str) -> str:
    """What makes whole numbers right, as the end of a message."""
    return f'; convert: {what}.astype("float32")' if array.dtype.kind in "iu" else ""


def _checked_similarity(similarity: Component) -> Component:
    """An existing similarity, without options that have their defaults."""
    chosen = components.options("similarity", similarity)
    defaults = asdict(type(chosen)())
    different = {name: value for name, value in asdict(chosen).items() if value != defaults[name]}
    return Component(similarity.name, different)


def between(ordered: np.ndarray, rows: slice) -> slice:
    """Where ascending numbers lie within a range."""
    return slice(*np.searchsorted(ordered, (rows.start, rows.stop)))


def ranges(total: int, size: int) -> Iterator[slice]:
    """Ranges of at most `size` that cover `total`."""
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def usable_threads() -> int:
    """Cores that this process may use, or the number that the scheduler gave it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) else cores
