"""Embeddings in the joint space, scored by their similarity.

Inner products are made exact. Embeddings are rounded to a grid fine enough that scores are closer to the true scores
than float32 sums are, and coarse enough that float64 holds every sum without rounding. So ranks are the same on every machine.

Other similarities sum over the dimensions in an order that can depend on the number of pairs scored at once and, on a GPU, on the
pair's position in memory. So they are always called with the same number of pairs, as two whole arrays, for correct and wrong pairs
alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from vsepp.base.components import resolved
from vsepp.base.errors import VseppError
from vsepp.base.files import json_of, shortly
from vsepp.base.spec import Component
from vsepp.evaluation.scores import Blocks, Pairs, Rows, converted, ranges
from vsepp.models.similarity.common import Similarity, namespace

DOT = Component("dot")
# Images × captions of a block of inner products on a CPU: large enough for a matrix product to run at full speed.
_TILE = (1024, 512)
# Elements of the largest temporaries of other similarities. On a CPU they fit a core's cache; with fewer, time is lost passing the
# interpreter's lock between threads. On a device, for all similarities: 128 MB of float64 keep a GPU busy.
_ON_CPU, _ON_DEVICE = 1 << 17, 1 << 24

# Bits of an embedding's norm on its grid. A sum of products stays below 2^(2·26+1) by Cauchy-Schwarz, in any
# order of summation, so float64's 53 bits hold it exactly. One score is off by about 2^-27 of the norms.
_GRID_BITS = 26


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
        self.similarity = resolved("similarity", similarity)
        """The similarity, with its options that differ from their defaults."""
        (n_images, dims), n_captions = self.images.shape, len(self.captions)
        if dims != self.captions.shape[1]:
            raise VseppError(
                f"image_embeddings have {dims} dimensions, caption_embeddings {self.captions.shape[1]}: "
                "expected one joint space; take both from one model"
            )
        self.shape, self.device = (n_images, n_captions), device
        self._scorer = Similarity(similarity)
        self.is_product = self._scorer.is_product
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
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> EmbeddingScores:
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

    def pair_scores(self, images: np.ndarray, captions: np.ndarray, direction: str) -> np.ndarray:
        """Scores of pairs, see `Scores.pair_scores`."""
        blocks = []
        for part in ranges(len(images), self.block_shape[1]):
            rows, columns = self._call(self._images, images[part]), self._call(self._captions, captions[part])
            scores = self._scorer.score(rows, columns)[:: self._spread][: part.stop - part.start]
            blocks.append(scores if self.device is None else scores.cpu().numpy())
        return np.concatenate(blocks)

    def block(self, images: slice, captions: slice) -> Any:
        """Scores of a range of images and a range of captions."""
        if self.is_product:
            return self._exact(self._images[images]) @ self._exact(self._captions[captions]).T
        columns = self._call(self._captions, np.arange(captions.start, captions.stop))
        whole, number = (len(columns), 1), captions.stop - captions.start
        rows = [self._scorer.score(self._xp.tile(image, whole), columns) for image in self._images[images]]
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
    text = arrays.get(key, np.array(default))
    if text.shape != () or text.dtype.kind != "U":
        raise VseppError(f"{key}: expected one string, got shape {text.shape} of {text.dtype}")
    return str(text)


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
            f"{what}: expected floating-point numbers, got dtype {embeddings.dtype}{converted(embeddings, what)}"
        )
    with np.errstate(over="ignore"):
        embeddings = np.ascontiguousarray(embeddings, dtype=np.float32)
        squares = np.vecdot(embeddings, embeddings)
    # With these bounds on the norms, every score is within float32's range.
    usable = squares < np.finfo(np.float32).max / 4
    if not usable.all():
        row = int(np.argmin(usable))
        value = "NaN" if np.isnan(embeddings[row]).any() else "a value or norm beyond float32"
        raise VseppError(
            f"{what}: row {row} holds {value}: expected finite embeddings; "
            "the training may have diverged, or a norm of zero was divided by"
        )
    return embeddings
