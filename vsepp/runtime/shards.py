"""An array in several files: its rows are read from the file that has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Shards:
    """The rows of several arrays, one array after the other, indexed like one array.

    Parameters
    ----------
    arrays
        `(n, ...)` each, of one type and shape but for n; memory maps stay in their files until their rows are asked for.
    """

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self._arrays = tuple(arrays)
        self._starts = np.cumsum([0, *map(len, arrays)])
        self.shape = (int(self._starts[-1]), *arrays[0].shape[1:])
        self.dtype = arrays[0].dtype
        self.ndim = len(self.shape)
        self.nbytes = sum(array.nbytes for array in arrays)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.concatenate(self._arrays).astype(dtype or self.dtype, copy=False)

    def __getitem__(self, rows: int | slice | np.ndarray) -> np.ndarray:
        """A row; a range of rows, a view where a single shard has them all; or a copy of the rows int64 `(n,)`."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            shard = max(int(np.searchsorted(self._starts, start, "right")) - 1, 0)
            if step == 1 and shard < len(self._arrays) and start <= stop <= self._starts[shard + 1]:
                return self._arrays[shard][start - self._starts[shard] : stop - self._starts[shard]]
            rows = np.arange(start, stop, step)
        shards = np.searchsorted(self._starts, rows, "right") - 1
        if not isinstance(rows, np.ndarray):
            return self._arrays[shards][rows - self._starts[shards]]
        values = np.empty((len(rows), *self.shape[1:]), self.dtype)
        for shard in np.unique(shards):
            inside = shards == shard
            values[inside] = self._arrays[shard][rows[inside] - self._starts[shard]]
        return values
