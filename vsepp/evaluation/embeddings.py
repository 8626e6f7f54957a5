"""Embeddings of a test set: what `vsepp evaluate` reads, from any model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.files import json_of, reading, shortly, write_arrays
from vsepp.base.spec import Component
from vsepp.data.arrays import read_npz
from vsepp.evaluation.truth import checked_captions, checked_ids

_REQUIRED = ("image_embeddings", "caption_embeddings", "caption_to_image")
_OPTIONS = "similarity_options"
IDS = ("image_ids", "caption_ids")
EMBEDDING_ARRAYS = (*_REQUIRED, *IDS, "similarity", _OPTIONS)
"""Names that arrays of embeddings may have."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Image and caption embeddings in the joint space, and the image of each caption.

    Checked on creation: other floating-point types are converted to float32, and a `VseppError` names the wrong array
    and row.
    """

    image_embeddings: np.ndarray
    """`(n_images, d)` float32; the order of the rows defines the folds."""
    caption_embeddings: np.ndarray
    """`(n_captions, d)` float32."""
    caption_to_image: np.ndarray
    """`(n_captions,)` int64: the row of each caption's image. Each image has at least one."""
    similarity: Component = field(default_factory=lambda: Component("dot"))
    """A module of `vsepp.models.similarity`, with its options that differ from their defaults."""
    image_ids: np.ndarray | None = None
    """`(n_images,)` int64 or text, each once, by which truths know the images; `None`: not known."""
    caption_ids: np.ndarray | None = None
    """`(n_captions,)`, likewise."""

    def __post_init__(self) -> None:
        images = _checked_rows(self.image_embeddings, "image_embeddings")
        captions = _checked_rows(self.caption_embeddings, "caption_embeddings")
        if images.shape[1] != captions.shape[1]:
            raise VseppError(
                f"image_embeddings have {images.shape[1]} dimensions, caption_embeddings {captions.shape[1]}: "
                "expected one joint space; take both from one model"
            )
        # What was checked takes the place of what was given, although the class is frozen.
        vars(self).update(
            image_embeddings=images,
            caption_embeddings=captions,
            caption_to_image=checked_captions(self.caption_to_image, len(captions), len(images)),
            image_ids=checked_ids(self.image_ids, len(images), "image_ids"),
            caption_ids=checked_ids(self.caption_ids, len(captions), "caption_ids"),
            similarity=_checked_similarity(self.similarity),
        )

    @classmethod
    def load(cls, path: Path) -> Embeddings:
        """Read an `.npz` with these arrays.

        Optional are `similarity`, a string (default `dot`), `similarity_options`, a string with a JSON object, and `image_ids` and
        `caption_ids`.

        Raises
        ------
        VseppError
            Naming the file and what in it is missing, wrong, unknown or there twice. No pickled object is read, and an
            array is only made after its header is found to fit its bytes.
        """
        path = Path(path)
        arrays = read_npz(path, EMBEDDING_ARRAYS, "an .npz of embeddings")
        if missing := [key for key in _REQUIRED if key not in arrays]:
            raise VseppError(
                f"{path}: has no {', '.join(missing)}; expected the arrays {', '.join(_REQUIRED)} and, if "
                f"it is not dot, similarity; the file has {', '.join(sorted(arrays)) or 'none'}"
            )
        with reading(path, "an .npz of embeddings"):
            options = json_of(_text(arrays, _OPTIONS, "{}"), _OPTIONS)
            if not isinstance(options, dict):
                raise VseppError(f"{_OPTIONS}: expected a JSON object of options, got {shortly(options)}")
            similarity = Component(_text(arrays, "similarity", "dot"), options)
            images, captions, owner = (arrays[key] for key in _REQUIRED)
            return cls(images, captions, owner, similarity, *map(arrays.get, IDS))

    def save(self, path: Path) -> None:
        """Write an `.npz` that `load` reads; equal embeddings give equal bytes."""
        arrays = {key: getattr(self, key) for key in _REQUIRED}
        arrays |= {key: ids for key in IDS if (ids := getattr(self, key)) is not None}
        arrays["similarity"] = np.array(self.similarity.name)
        if self.similarity.options:
            arrays[_OPTIONS] = np.array(json.dumps(self.similarity.options, sort_keys=True))
        write_arrays(path, **arrays)


def mean_of_scores(first: Embeddings, second: Embeddings) -> Embeddings:
    """Embeddings that score as the mean of two models' scores: both models' vectors side by side, image vectors halved.

    Raises
    ------
    VseppError
        If a similarity is not the inner product, or the two models embedded different images or captions.
    """
    for embeddings in (first, second):
        if embeddings.similarity != Component("dot"):
            raise VseppError(
                f"ensemble: expected the similarity dot of both runs, got {embeddings.similarity.name}; only inner products add up"
            )
    if not np.array_equal(first.caption_to_image, second.caption_to_image):
        raise VseppError("ensemble: the runs embedded other images or captions; evaluate both on one split")
    images = np.concatenate([first.image_embeddings, second.image_embeddings], axis=1) / 2
    captions = np.concatenate([first.caption_embeddings, second.caption_embeddings], axis=1)
    return Embeddings(images, captions, first.caption_to_image)


def _text(arrays: dict[str, np.ndarray], key: str, default: str) -> str:
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
        raise VseppError(f"{what}: expected floating-point numbers, got dtype {embeddings.dtype}")
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


def _checked_similarity(similarity: Component) -> Component:
    """An existing similarity, without options that have their defaults."""
    chosen = components.options("similarity", similarity)
    defaults = asdict(type(chosen)())
    different = {name: value for name, value in asdict(chosen).items() if value != defaults[name]}
    return Component(similarity.name, different)
