"""Captions as word indices: one flat array, and the offset of each caption in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from vsepp.base.declared import WORDS
from vsepp.base.files import reading, write_arrays
from vsepp.base.manifest import require_as_written
from vsepp.data.arrays import read_npz

# The first tokens of every vocabulary of words, and their indices; whatever its kind, captions are padded with PAD.
SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")
PAD, START, END, UNKNOWN = range(len(SPECIAL))

FILE = "tokens.npz"


@dataclass(frozen=True, eq=False)
class Tokens:
    """Token indices of all captions of a corpus; row i is row i of its captions table.

    Parameters
    ----------
    ids
        `(n_words,)` int32, the captions one after another, each from `<start>` to `<end>`; pieces from `[CLS]` to `[SEP]`.
    offsets
        `(n_captions + 1,)` int64; caption i is `ids[offsets[i]:offsets[i + 1]]`.
    kind
        `words` of the corpus, or `wordpieces` of a pretrained text encoder: what a text encoder takes.
    """

    ids: np.ndarray
    offsets: np.ndarray
    kind: str = WORDS

    @classmethod
    def from_lists(cls, captions: Iterable[Sequence[int]], kind: str = WORDS) -> Tokens:
        """Join the index lists of captions."""
        rows = list(captions)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        ids = np.fromiter(chain.from_iterable(rows), np.int32, count=int(offsets[-1]))
        return cls(ids, offsets, kind)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Number of words in each caption, `<start>` and `<end>` included, `(n_captions,)` int64."""
        return np.diff(self.offsets)

    def eval(self, rows: np.ndarray | Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Captions of some rows, padded with `<pad>` to the longest.

        Returns
        -------
        ids
            `(n, longest)` int64.
        lengths
            `(n,)` int64.
        """
        places, inside, lengths = self.places(rows)
        ids = np.full(inside.shape, PAD, np.int64)
        ids[inside] = self.ids[places[inside]]
        return ids, lengths

    def places(self, rows: np.ndarray | Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places in `ids` of the tokens of some captions, int64 `(n, longest)`; which places hold a token, bool; lengths `(n,)`."""
        rows = np.asarray(rows, np.int64)
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        columns = np.arange(lengths.max(initial=0))
        return starts[:, None] + columns, columns < lengths[:, None], lengths

    def save(self, folder: Path) -> None:
        """Write `tokens.npz` into a folder."""
        arrays = {"ids": self.ids, "offsets": self.offsets}
        if self.kind != WORDS:
            arrays["kind"] = np.array(self.kind)
        write_arrays(folder / FILE, compressed=True, **arrays)

    @classmethod
    def load(cls, folder: Path) -> Tokens:
        """Read `tokens.npz` of a folder.

        Raises
        ------
        VseppError
            If it is missing, damaged or not as its step wrote it.
        """
        path = folder / FILE
        expected = "a token file; run the step that makes it again"
        with reading(path, expected):
            require_as_written(path)
            arrays = read_npz(path, ("ids", "offsets", "kind"), expected)
            return cls(arrays["ids"], arrays["offsets"], str(arrays.get("kind", WORDS)))
