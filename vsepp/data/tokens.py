"""Captions as word indices: one flat array, and the offset of each caption in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from vsepp.data.arrays import own_arrays
from vsepp.declared import WORDS
from vsepp.errors import VseppError
from vsepp.foreign import reading
from vsepp.provenance.manifest import require_as_written
from vsepp.runtime.files import whole_file

# The first words of every vocabulary, and their indices.
SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")
PAD, START, END, UNKNOWN = range(len(SPECIAL))

FILE = "tokens.npz"


@dataclass(frozen=True, eq=False)
class Tokens:
    """Token indices of all captions of a corpus; row i is row i of its captions table.

    Parameters
    ----------
    ids
        `(n_words,)` int32, the captions one after another, each from `<start>` to `<end>`.
    offsets
        `(n_captions + 1,)` int64; caption i is `ids[offsets[i]:offsets[i + 1]]`.
    kind
        `words` of our vocabulary, or the `pieces` of a pretrained tokenizer: what a text encoder takes.

    Raises
    ------
    VseppError
        If the two do not fit each other.
    """

    ids: np.ndarray
    offsets: np.ndarray
    kind: str = WORDS

    def __post_init__(self) -> None:
        o, ids = self.offsets, self.ids
        if (ids.ndim, ids.dtype, o.ndim, o.dtype) != (1, np.int32, 1, np.int64) or (ids < 0).any():
            raise VseppError(
                f"expected ids, int32 from 0, and offsets, int64, in one row each; found {ids.dtype} {ids.shape} and "
                f"{o.dtype} {o.shape}"
            )
        # Compared, not subtracted: a difference may overflow.
        if not (len(o) and o[0] == 0 and o[-1] == len(ids) and (o[1:] > o[:-1]).all()):
            raise VseppError(
                f"token offsets must rise from 0 to {len(self.ids)}, the number of ids, with at least one id per caption; "
                f"found {o[:1]} to {o[-1:]} over {len(o)} entries: make the tokens again"
            )

    @classmethod
    def from_lists(cls, captions: Iterable[Sequence[int]]) -> Tokens:
        """Join the index lists of captions."""
        rows = list(captions)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        ids = np.fromiter(chain.from_iterable(rows), np.int32, count=int(offsets[-1]))
        return cls(ids, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        """Indices of one caption, `<start>` to `<end>`."""
        if not 0 <= row < len(self):
            raise IndexError(f"caption {row} of {len(self)}")
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Words of each caption with `<start>` and `<end>`, `(n_captions,)` int64."""
        return np.diff(self.offsets)

    def padded(self, rows: np.ndarray | Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Captions of some rows, padded with `<pad>` to the longest.

        Returns
        -------
        ids
            `(n, longest)` int64.
        lengths
            `(n,)` int64.

        Raises
        ------
        IndexError
            If a row is out of range.
        """
        rows = np.asarray(rows, np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"captions {rows.min()} to {rows.max()} of {len(self)}")
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        columns = np.arange(lengths.max(initial=0))
        inside = columns < lengths[:, None]
        ids = np.full(inside.shape, PAD, np.int64)
        ids[inside] = self.ids[(starts[:, None] + columns)[inside]]
        return ids, lengths

    def save(self, folder: Path) -> None:
        """Write `tokens.npz` into a folder."""
        with whole_file(folder / FILE) as partial, partial.open("wb") as stream:
            arrays = {"ids": self.ids, "offsets": self.offsets}
            if self.kind != WORDS:
                arrays["kind"] = np.array(self.kind)
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]  # the stub takes names for options

    @classmethod
    def load(cls, folder: Path) -> Tokens:
        """Read `tokens.npz` of a folder.

        Raises
        ------
        VseppError
            If it is missing, damaged or not as its step wrote it.
        """
        path = folder / FILE
        with reading(path, "a token file; run the step that makes it again"):
            require_as_written(path)
            arrays = own_arrays(path)
            return cls(arrays["ids"], arrays["offsets"], str(arrays.get("kind", WORDS)))
