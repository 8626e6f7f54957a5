"""An approximate index of vectors, by faiss: for more vectors than an exact scan reads in time."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vsepp.errors import VseppError
from vsepp.evaluation.scores import best_of_blocks, ranges
from vsepp.provenance.digests import value_digest
from vsepp.runtime.files import whole_file, write_text
from vsepp.runtime.shards import Shards
from vsepp.user_files import reading

FEWEST = 10_000
"""Vectors below which lists are not worth learning."""
RECALL_AT = 10
# Number of vectors that are read at once, and of queries that measure the recall.
_AT_ONCE, _ASKING = 1 << 16, 64
# Number of lists that are searched, and of candidates per answer.
_LISTS, _CANDIDATES = 64, 10


class Approximate(NamedTuple):
    """An inverted file of vectors in 8 bits a number (faiss's `IVF,SQ8`). Made by `open_approximate`."""

    index: Any
    """The index of faiss."""
    recall: float
    """Share of the `RECALL_AT` nearest other vectors, by the inner product, that are candidates; mean over 64 evenly spaced vectors."""

    def candidates(self, asked: np.ndarray, k: int) -> np.ndarray:
        """Rows `(n,)`, ascending, among which the k nearest to one query `(1, d)` are looked for; at most 10 k."""
        found = self.index.search(np.ascontiguousarray(asked, np.float32), _CANDIDATES * k)[1][0]
        return np.sort(found[found >= 0])


def open_approximate(file: Path, vectors: np.ndarray | Shards) -> Approximate:
    """Read an index, or make it where there is none, in two passes over the vectors; its recall stands beside it, in `FILE.json`.

    Raises
    ------
    VseppError
        If there are too few vectors, or the file is damaged or of other vectors.
    """
    import faiss

    asking = np.linspace(0, len(vectors) - 1, _ASKING).astype(np.int64)
    digest = value_digest([len(vectors), vectors[asking].tobytes().hex()])
    beside = file.with_name(f"{file.name}.json")
    if not file.exists():
        index = _made(faiss, vectors)
        recall = _recall(Approximate(index, 0), vectors, asking)
        write_text(beside, json.dumps({"recall": recall, "vectors": digest}))
        with whole_file(file) as partial:
            faiss.write_index(index, str(partial))
    with reading(file, f"an index of faiss with {beside.name}; delete both, and they are made again"):
        index, kept = faiss.read_index(str(file)), json.loads(beside.read_text(encoding="utf-8"))
        if kept["vectors"] != digest:
            raise VseppError("an index of other vectors; delete it, and it is made again")
        return Approximate(index, kept["recall"])


def _made(faiss: Any, vectors: np.ndarray | Shards) -> Any:
    """An index of 4 √n lists."""
    n, dims = vectors.shape
    if n < FEWEST:
        raise VseppError(f"an approximate index needs {FEWEST:,} vectors, got {n:,}: scan them exactly")
    lists = round(4 * math.sqrt(n))
    index = faiss.index_factory(dims, f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    # faiss asks for 39 vectors for each list.
    learning = np.linspace(0, n - 1, min(n, 39 * lists)).astype(np.int64)
    index.train(np.ascontiguousarray(vectors[learning]))
    for rows in ranges(n, _AT_ONCE):
        index.add(np.ascontiguousarray(vectors[rows]))
    index.nprobe = _LISTS  # it is written with the index
    return index


def _recall(approximate: Approximate, vectors: np.ndarray | Shards, asking: np.ndarray) -> float:
    """Share of candidates among the nearest other vectors of some rows."""
    asked = vectors[asking]
    scores = (asked @ vectors[rows].T for rows in ranges(len(vectors), _AT_ONCE))
    _, exact = best_of_blocks(scores, RECALL_AT + 1)
    found = [
        np.isin(nearest[nearest != row][:RECALL_AT], approximate.candidates(query[None], RECALL_AT))
        for row, query, nearest in zip(asking, asked, exact, strict=True)
    ]
    return float(np.mean(found))
