"""Embeddings of a test set: what `vsepp evaluate` reads, from any model."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vsepp import components
from vsepp.errors import VseppError
from vsepp.evaluation.ranks import checked_captions, checked_embeddings, checked_joint_space
from vsepp.runtime.files import whole_file
from vsepp.spec import Component

_REQUIRED = ("image_embeddings", "caption_embeddings", "caption_to_image")
_OPTIONS = "similarity_options"


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Image and caption embeddings in the joint space, with what belongs to what.

    Checked when made: other floating-point types are converted to float32, and a `VseppError` names the array
    and the row that is wrong.
    """

    image_embeddings: np.ndarray
    """`(n_images, d)` float32; the order of the rows defines the folds."""
    caption_embeddings: np.ndarray
    """`(n_captions, d)` float32."""
    caption_to_image: np.ndarray
    """`(n_captions,)` int64: the row of each caption's image. Any number of captions per image but none."""
    similarity: Component = field(default_factory=lambda: Component("dot"))
    """A module of `vsepp.similarity`, with those of its options that differ from their defaults."""

    def __post_init__(self) -> None:
        images = checked_embeddings(self.image_embeddings, "image_embeddings")
        captions = checked_embeddings(self.caption_embeddings, "caption_embeddings")
        checked_joint_space(images, captions)
        owner = checked_captions(self.caption_to_image, len(captions), len(images))
        object.__setattr__(self, "image_embeddings", images)
        object.__setattr__(self, "caption_embeddings", captions)
        object.__setattr__(self, "caption_to_image", owner)
        object.__setattr__(self, "similarity", _checked_similarity(self.similarity))

    @classmethod
    def load(cls, path: Path) -> Embeddings:
        """Read an `.npz` with these arrays.

        `similarity` is one string, `dot` where it is left out; `similarity_options` is one too, a JSON object, and may
        be left out.

        Raises
        ------
        VseppError
            Naming the file and what in it is missing or wrong. No pickled object is read.
        """
        path = Path(path)
        arrays = _read_arrays(path)
        if missing := [key for key in _REQUIRED if key not in arrays]:
            raise VseppError(
                f"{path}: has no {', '.join(missing)}; expected the arrays {', '.join(_REQUIRED)} and, where "
                f"it is not dot, similarity; the file has {', '.join(sorted(arrays)) or 'none'}"
            )
        try:
            name, options = _text(arrays, "similarity", "dot"), _text(arrays, _OPTIONS, "{}")
            similarity = Component(name, _parsed(options))
            return cls(*(arrays[key] for key in _REQUIRED), similarity=similarity)
        except VseppError as error:
            raise VseppError(f"{path}: {error}") from None

    def save(self, path: Path) -> None:
        """Write an `.npz` that `load` reads; equal embeddings give equal bytes."""
        arrays = {key: getattr(self, key) for key in _REQUIRED}
        arrays["similarity"] = np.array(self.similarity.name)
        if self.similarity.options:
            arrays[_OPTIONS] = np.array(json.dumps(self.similarity.options, sort_keys=True))
        write_arrays(path, **arrays)


def write_arrays(path: Path, **arrays: np.ndarray) -> None:
    """Write an `.npz` so that it is either there whole or not there."""
    with whole_file(Path(path)) as partial, partial.open("wb") as stream:
        np.savez(stream, **arrays)


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise VseppError(f"{path}: no such file; expected an .npz of embeddings")
    if not zipfile.is_zipfile(path):
        raise VseppError(f"{path}: not an .npz archive, or a truncated one; write it with numpy.savez")
    with np.load(path, allow_pickle=False) as archive:
        arrays = {}
        for key in archive.files:
            try:
                arrays[key] = archive[key]
            except (ValueError, zipfile.BadZipFile, EOFError, OSError) as error:
                raise VseppError(f"{path}: {key} cannot be read: {error}") from error
    return arrays


def _text(arrays: dict[str, np.ndarray], key: str, default: str) -> str:
    found = arrays.get(key, np.array(default))
    if found.shape != () or found.dtype.kind != "U":
        raise VseppError(f"{key}: expected one string, got shape {found.shape} of {found.dtype}")
    return str(found)


def _parsed(options: str) -> dict[str, Any]:
    try:
        found = json.loads(options)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise VseppError(f"{_OPTIONS}: expected a JSON object of options, got {options!r}")
    return found


def _checked_similarity(similarity: Component) -> Component:
    """A similarity that there is, without the options that have their defaults."""
    chosen = components.options("similarity", similarity)
    defaults = asdict(type(chosen)())
    different = {name: value for name, value in asdict(chosen).items() if value != defaults[name]}
    return Component(similarity.name, different)
