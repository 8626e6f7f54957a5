"""Vectors of captions, whose inner products measure how alike two captions are; and TF-IDF,
which counts words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vsepp.base.files import reading, write_arrays
from vsepp.base.manifest import require_as_written
from vsepp.data.arrays import read_npz
from vsepp.data.captions import captions_in, tokenize

if TYPE_CHECKING:
    from vsepp.data.tables import ParquetTable

FILE = "vectors.npz"


@dataclass(frozen=True, eq=False)
class CaptionVectors:
    """A vector of length 1 for each caption of a corpus; row i is row i of its captions table.

    A lexical vector has few nonzero numbers, and only these are kept; the vector of a caption
    without known words is 0.

    Parameters
    ----------
    values
        Dense: `(n_captions, dim)` float16. Sparse: `(n_values,)` float32, the captions one after another.
    columns
        Sparse: `(n_values,)` int32, the dimension of the vector that each value belongs to. Dense: `None`.
    offsets
        Sparse: `(n_captions + 1,)` int64; caption i has `values[offsets[i]:offsets[i + 1]]`. Dense: `None`.
    """

    values: np.ndarray
    columns: np.ndarray | None = None
    offsets: np.ndarray | None = None

    def __len__(self) -> int:
        """Number of captions."""
        return len(self.values if self.offsets is None else self.offsets[1:])

    def save(self, folder: Path) -> None:
        """Write `vectors.npz` into a folder."""
        arrays = {name: array for name, array in vars(self).items() if array is not None}
        write_arrays(folder / FILE, **arrays)

    @classmethod
    def load(cls, folder: Path) -> CaptionVectors:
        """Read `vectors.npz` of a folder.

        Raises
        ------
        VseppError
            If it is missing, damaged or not as its step wrote it.
        """
        path, expected = folder / FILE, "a file of captions' vectors; run the step that makes it again"
        with reading(path, expected):
            require_as_written(path)
            return cls(**read_npz(path, ("values", "columns", "offsets"), expected))


def tfidf_vectors(captions: ParquetTable, splits: tuple[str, ...]) -> CaptionVectors:
    """TF-IDF of every caption of a table, whatever its split.

    A number is how often a word occurs in the caption, times log(N / n) if n of the N captions of the splits
    have the word. A word in none of these captions counts nothing, and neither does a word in all of them.

    Raises
    ------
    VseppError
        If none of the splits has captions.
    """
    in_splits = captions_in(splits, captions, "captions' vectors")
    tokenized = list(map(tokenize, captions["text"]))
    word_ids: dict[str, int] = {}
    ids = np.fromiter(
        (word_ids.setdefault(word, len(word_ids)) for word in chain.from_iterable(tokenized)), np.int64
    )
    owners = np.repeat(np.arange(len(tokenized)), [len(words) for words in tokenized])
    # Each caption's words once, captions in order.
    pairs, counts = np.unique(owners * max(len(word_ids), 1) + ids, return_counts=True)
    owners, words = np.divmod(pairs, max(len(word_ids), 1))
    captions_with_word = np.bincount(words[in_splits[owners]], minlength=len(word_ids))
    ratio = in_splits.sum() / np.maximum(captions_with_word, 1)
    rarity = np.log(ratio, where=captions_with_word > 0, out=np.zeros(len(word_ids)))
    values = counts * rarity[words]
    nonzero = values > 0
    owners, words, values = owners[nonzero], words[nonzero], values[nonzero]
    lengths = np.sqrt(np.bincount(owners, values**2, minlength=len(tokenized)))
    offsets = np.zeros(len(tokenized) + 1, np.int64)
    np.cumsum(np.bincount(owners, minlength=len(tokenized)), out=offsets[1:])
    return CaptionVectors((values / lengths[owners]).astype(np.float32), words.astype(np.int32), offsets)
