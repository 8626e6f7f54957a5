"""Rows of a large `.npy` file, read block by block from a folder or from inside a zip archive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np

from vsepp.data.containers import Container
from vsepp.errors import VseppError


class NpyRows:
    """A float32 `.npy` file `(n, dim)`.

    Streamed, not memory-mapped, so that an archive need not be unpacked. Nothing is unpickled: the file must hold plain
    numbers.

    Parameters
    ----------
    container, member
        Folder or archive, and the file's path inside.

    Attributes
    ----------
    dim
        Numbers in a row.
    where
        What messages call the file.

    Raises
    ------
    VseppError
        If it is missing, truncated or not such an array.
    """

    def __init__(self, container: Container, member: str) -> None:
        self.where = f"{container.path}/{member}"
        self._container = container
        self._member = member
        with container.open(member) as (stream, size):
            (self._rows, self.dim), self._offset = self._header(stream)
        self._row_bytes = 4 * self.dim
        expected = self._offset + len(self) * self._row_bytes
        if size != expected:
            raise VseppError(
                f"{self.where}: expected {expected:,} bytes for {len(self)} rows of {self.dim}, found {size:,}; "
                "the copy is truncated or damaged: fetch it again"
            )

    def __len__(self) -> int:
        return self._rows

    def _header(self, stream: IO[bytes]) -> tuple[tuple[int, int], int]:
        """Shape, and the byte at which the first row begins."""
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, columns_first, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, columns_first, dtype = np.lib.format.read_array_header_2_0(stream)
        if len(shape) != 2 or dtype != np.dtype("<f4") or columns_first:
            order = ", column by column" if columns_first else ""
            raise VseppError(
                f"{self.where}: expected float32 (n, dim), found {dtype} {shape}{order}; "
                "save it with numpy.save(file, rows.astype('float32'))"
            )
        return (shape[0], shape[1]), stream.tell()

    def blocks(self, start: int, stop: int, size: int) -> Iterator[np.ndarray]:
        """Rows `start` to `stop`, `size` at a time: float32 `(size, dim)`, the last block perhaps smaller.

        Raises
        ------
        VseppError
            If the file cannot be read.
        """
        with self._container.open(self._member) as (stream, _):
            stream.seek(self._offset + start * self._row_bytes)
            for first in range(start, stop, size):
                rows = min(size, stop - first)
                data = stream.read(rows * self._row_bytes)
                if len(data) != rows * self._row_bytes:
                    raise VseppError(
                        f"{self.where}: ends before row {first + rows} of {len(self)}; fetch it again"
                    )
                yield np.frombuffer(data, "<f4").reshape(rows, self.dim)
