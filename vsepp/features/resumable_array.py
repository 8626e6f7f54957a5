"""A `.npy` file that grows row by row, so that a killed step continues where it was."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np


class GrowingRows:
    """Appends rows to a `.npy` file whose header already declares the final number of rows.

    The file's length says how many rows are done; an incomplete last chunk is dropped.

    Parameters
    ----------
    path
        Continued if it exists with this shape and type, otherwise started anew.
    shape
        Shape of the finished array, `(n, ...)`.
    dtype
        Type of the finished array.
    chunk
        Rows appended at a time; the last time perhaps fewer.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype | type, chunk: int) -> None:
        self.path = path
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.done = 0
        """Number of rows in the file."""
        self._row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * self.dtype.itemsize
        header = npy_header(shape, self.dtype)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as stream:
            stream.seek(0)
            if stream.read(len(header)) == header:
                self.done = (path.stat().st_size - len(header)) // self._row_bytes
                if self.done < shape[0]:
                    self.done -= self.done % chunk
                stream.truncate(len(header) + self.done * self._row_bytes)
            else:
                stream.truncate(0)
                stream.write(header)

    @property
    def missing_bytes(self) -> int:
        """Bytes of the rows that are still missing."""
        return (self.shape[0] - self.done) * self._row_bytes

    def append(self, rows: np.ndarray) -> None:
        """Write the next rows.

        Raises
        ------
        OSError
            If the disk is full; earlier rows stay.
        """
        with self.path.open("ab") as stream:
            stream.write(np.ascontiguousarray(rows, self.dtype).data)
        self.done += len(rows)


def npy_header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """Header of a `.npy` file of an array."""
    stream = io.BytesIO()
    description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, description)
    return stream.getvalue()
