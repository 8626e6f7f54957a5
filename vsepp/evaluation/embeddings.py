"""Embeddings of a test set: what `vsepp evaluate` reads, from any model."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vsepp.errors import VseppError
from vsepp.evaluation.ranks import checked_captions, checked_embeddings, checked_joint_space
from vsepp.evaluation.tiles import checked_similarity
from vsepp.runtime.files import whole_file

_REQUIRED = ("image_embeddings", "caption_embeddings", "caption_to_image")


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
    similarity: str = "dot"
    """`dot` or `order`."""

    def __post_init__(self) -> None:
        images = checked_embeddings(self.image_embeddings, "image_embeddings")
        captions = checked_embeddings(self.caption_embeddings, "caption_embeddings")
        checked_joint_space(images, captions)
        owner = checked_captions(self.caption_to_image, len(captions), len(images))
        checked_similarity(self.similarity)
        object.__setattr__(self, "image_embeddings", images)
        object.__setattr__(self, "caption_embeddings", captions)
        object.__setattr__(self, "caption_to_image", owner)

    @classmethod
    def load(cls, path: Path) -> Embeddings:
        """Read an `.npz` with these arrays; `similarity` may be left out and is then `dot`.

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
        similarity = arrays.get("similarity", np.array("dot"))
        if similarity.shape != () or similarity.dtype.kind != "U":
            raise VseppError(
                f"{path}: similarity: expected one string, dot or order, got shape {similarity.shape} "
                f"of {similarity.dtype}"
            )
        try:
            return cls(*(arrays[key] for key in _REQUIRED), similarity=str(similarity))
        except VseppError as error:
            raise VseppError(f"{path}: {error}") from None

    def save(self, path: Path) -> None:
        """Write an `.npz` that `load` reads; equal embeddings give equal bytes."""
        write_arrays(
            path,
            **{key: getattr(self, key) for key in _REQUIRED},
            similarity=np.array(self.similarity),
        )


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
