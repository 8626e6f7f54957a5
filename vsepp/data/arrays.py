"""Arrays in files: rows of a `.npy`, arrays of an `.npz`, a `.npy` that grows. Nothing is unpickled."""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike

from vsepp.base.errors import VseppError, did_you_mean
from vsepp.base.files import check_space, reading, require_file, shortly
from vsepp.base.progress import track_amount
from vsepp.base.signatures import HEAD, NPY
from vsepp.data.container import Container


def open_rows(
    path: Path, dtype: DTypeLike, tail: tuple[int | None, ...] | None = None, rows: int | None = None
) -> np.ndarray:
    """Map a `.npy` file that a step wrote, read-only.

    Parameters
    ----------
    path
        The file.
    dtype
        Its type.
    tail
        Its shape without the number of rows; `None` inside for any number, instead of it for any shape.
    rows
        Number of rows, if known.

    Raises
    ------
    VseppError
        If it is missing, damaged or another array, or holds nothing.
    """
    shape = "of one or more dimensions" if tail is None else str((rows, *tail)).replace("None", "n")
    expected = (
        f"an array {np.dtype(dtype)} {shape}; delete {path.parent} and run the step that makes it again"
    )
    require_file(path, expected)
    with reading(path, expected):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        pattern = (rows, *(array.shape[1:] if tail is None else tail))
        fits = len(pattern) == array.ndim and 0 not in array.shape
        fits = fits and all(wanted in (None, size) for wanted, size in zip(pattern, array.shape, strict=True))
        whole = path.stat().st_size == array.offset + array.nbytes
        if array.dtype != np.dtype(dtype) or not fits or not whole:
            raise VseppError(f"holds {array.dtype} {array.shape}; expected {expected}")
    return array


def read_npz(path: Path, names: Collection[str] | None, expected: str) -> dict[str, np.ndarray]:
    """All arrays of an `.npz`.

    Parameters
    ----------
    path
        The file.
    names
        Names that arrays may have; any may be missing. `None`: any name.
    expected
        What the file should be, for messages: `an .npz of embeddings`.

    Raises
    ------
    VseppError
        If the file is not a whole archive of plain arrays of these names, each once, or one is larger than
        this machine's memory.
    """
    require_file(path, expected)
    container = Container(path, expected)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    arrays = {}
    for member in container.names:
        name = member.removesuffix(".npy")
        if member == name or (names is not None and name not in names):
            known = names or ("arrays",)
            raise VseppError(
                f"{path}: holds {shortly(member)}, none of {', '.join(known)}{did_you_mean(name, known)}; "
                f"expected {expected}"
            )
        with reading(f"{path}: {name}", expected):
            data = io.BytesIO(container.read(member, memory))
            _, _, dtype = _header(data)
            if dtype.hasobject:
                raise VseppError(
                    "holds objects of Python, which are not read; save numbers or text: astype('float32')"
                )
            data.seek(0)
            arrays[name] = np.lib.format.read_array(data, allow_pickle=False)
    return arrays


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape of a `.npy` array, whether it is stored column by column, and its type; the stream then
    stands at its numbers."""
    with warnings.catch_warnings(action="ignore"):  # headers of Python 2 are read, and numpy would say so
        first = np.lib.format.read_magic(stream) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        return read(stream)


def write_rows(
    path: Path,
    shape: tuple[int, ...],
    dtype: DTypeLike,
    starts: Sequence[int],
    make: Callable[[int, int], np.ndarray],
    *,
    what: str,
    unit: str,
) -> None:
    """Write a `.npy` file chunk by chunk. A killed step calls this again and goes on
    after the last whole chunk.

    The header declares the final shape, and the file's length says how many rows are done. A file with
    another header is begun anew.

    Parameters
    ----------
    path
        The file, in a folder that survives a kill.
    shape, dtype
        Of the finished array.
    starts
        First row of each chunk, ascending from 0.
    make
        First row of a chunk and of the next one → its rows.
    what, unit
        What is made and what a row is, for the log.

    Raises
    ------
    VseppError
        If the disk has too little space.
    OSError
        If the disk fills up meanwhile; earlier chunks stay.
    """
    header = io.BytesIO()
    description = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(header, description)
    begin, row_bytes = header.tell(), math.prod(shape[1:]) * np.dtype(dtype).itemsize
    bounds = [*starts, shape[0]]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as stream:
        stream.seek(0)
        present = stream.read(begin) == header.getvalue()
        rows = (path.stat().st_size - begin) // row_bytes if present else 0
        chunk = int(np.searchsorted(bounds, rows, side="right")) - 1
        done = bounds[chunk]
        stream.truncate(begin + done * row_bytes if present else 0)
        if not present:
            stream.write(header.getvalue())
        check_space(path.parent, (shape[0] - done) * row_bytes, what)
        with track_amount(shape[0], what, unit, done) as advance:
            for first, last in zip(bounds[chunk:-1], bounds[chunk + 1 :], strict=True):
                stream.write(np.ascontiguousarray(make(first, last), dtype).data)
                stream.flush()
                advance(last - first)


class NpyRows:
    """A float32 `.npy` file of a vector a row, `(n, dim)`, or of a set of vectors a row, `(n, vectors, dim)`.

    Streamed, not memory-mapped, so that an archive need not be unpacked. Nothing is unpickled: the file
    must hold plain numbers.

    Parameters
    ----------
    container, member
        Folder or archive, and the file's path inside.

    Attributes
    ----------
    row_shape
        `(dim,)` or `(vectors, dim)`.
    vectors, dim
        Number of vectors in a row, and of numbers in a vector.
    where
        What messages call the file.

    Raises
    ------
    VseppError
        If it is missing, truncated or not such an array.
    """

    def __init__(self, container: Container, member: str) -> None:
        self.where = container.where(member)
        self._container = container
        self._member = member
        with container.open(member) as (stream, size):
            head = stream.read(HEAD)
        with (
            container.open(member) as (stream, _),
            reading(self.where, "a .npy file; write it with numpy.save", kinds=(NPY,), data=head),
        ):
            shape, columns_first, dtype = _header(stream)
            self._offset = stream.tell()
        if len(shape) not in (2, 3) or min(shape) < 1 or dtype != np.dtype("<f4") or columns_first:
            order = ", column by column" if columns_first else ""
            converted = len(shape) in (2, 3) and min(shape) > 0 and dtype.kind in "fiu"
            cure = "save it with numpy.save(file, numpy.ascontiguousarray(rows, 'float32'))"
            raise VseppError(
                f"{self.where}: expected float32 (n, dim) or (n, vectors, dim), found {dtype} "
                f"{shape}{order}; {cure if converted else 'fetch it again'}"
            )
        if size != (needed := self._offset + math.prod(shape) * dtype.itemsize):
            raise VseppError(
                f"{self.where}: expected {needed:,} bytes for {dtype} {shape}, found {size:,}; the copy is "
                "truncated or damaged: fetch it again"
            )
        self._rows, self.row_shape = shape[0], shape[1:]
        self.vectors, self.dim = (1, *self.row_shape)[-2:]
        self._row_bytes = dtype.itemsize * math.prod(self.row_shape)

    def __len__(self) -> int:
        return self._rows

    def blocks(self, stop: int, size: int) -> Iterator[np.ndarray]:
        """Rows up to `stop`, `size` at a time: float32 `(size, vectors, dim)`, the last
        block perhaps smaller.

        Raises
        ------
        VseppError
            If the file cannot be read.
        """
        with self._container.open(self._member) as (stream, _):
            stream.read(self._offset)
            for first in range(0, stop, size):
                rows = min(size, stop - first)
                # At the end of an archive's member its checksum is compared.
                data = stream.read(rows * self._row_bytes)
                yield np.frombuffer(data, "<f4").reshape(rows, self.vectors, self.dim)
