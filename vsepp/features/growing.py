"""A `.npy` file that grows row by row, so that a killed step continues where it was."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from vsepp.provenance.space import full_disk_explained


class GrowingRows:
    """Appends rows to a `.npy` file whose header already declares the final number.

    The file's length says how many rows are done; an incomplete last chunk is dropped.

    Parameters
    ----------
    path
        Continued if it exists with this shape and type, otherwise started anew.
    shape
        Of the finished array, `(n, ...)`.
    dtype
        Of the finished array.
    chunk
        Rows appended at a time; the last time perhaps fewer.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype | type, chunk: int) -> None:
        self.path = path
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self._row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * self.dtype.itemsize
        self._header = _header(shape, self.dtype)
        self.done = self._take_up(chunk)
        """Rows in the file."""

    @property
    def missing_bytes(self) -> int:
        """Bytes of the rows that are still missing."""
        return (self.shape[0] - self.done) * self._row_bytes

    def _take_up(self, chunk: int) -> int:
        if self.path.is_file():
            with self.path.open("r+b") as stream:
                if stream.read(len(self._header)) == self._header:
                    rows = (self.path.stat().st_size - len(self._header)) // self._row_bytes
                    if rows < self.shape[0]:
                        rows -= rows % chunk
                    stream.truncate(len(self._header) + rows * self._row_bytes)
                    return rows
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(self._header)
        return 0

    def append(self, rows: np.ndarray) -> None:
        """Write the next rows.

        Raises
        ------
        VseppError
            If the disk is full; earlier rows stay.
        """
        if rows.dtype != self.dtype or rows.shape[1:] != self.shape[1:]:
            raise ValueError(
                f"{self.path}: rows {rows.dtype} {rows.shape} do not fit {self.dtype} {self.shape}"
            )
        left = f"left after {self.done} of {self.shape[0]} rows"
        with (
            full_disk_explained(self.path, left, self.missing_bytes),
            self.path.open("ab") as stream,
        ):
            stream.write(np.ascontiguousarray(rows).data)
        self.done += len(rows)


def _header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    stream = io.BytesIO()
    description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, description)
    return stream.getvalue()
